"""Read the outputs of stores that marin made before December 2026. Nothing writes these files any more.

::

    records/<identity>.json               the committed output
    leases/<identity>.json                who made the last attempt
    superseded/<identity>.<n>.json        outputs that a rebuild replaced or gc deleted

An output of such a store has the number 0, so that every end of today comes after it.
"""

from __future__ import annotations

from collections.abc import Set

from msgspec.structs import replace

from marin.errors import CorruptRecord
from marin.store.layout import LEASES, RECORDS
from marin.store.objects.objects import Objects
from marin.store.record import Record, parse_record


def earlier_records(
    objects: Objects, prefix: str, identities: Set[str] | None = None
) -> tuple[dict[str, Record], dict[str, str]]:
    """Return (the records by identity, errors of unreadable ones). identities: None for all. Takes one listing."""
    there = {f"{RECORDS}/{name}": name.removesuffix(".json") for name in sorted(objects.list(RECORDS))}
    wanted = [name for name, identity in there.items() if identities is None or identity in identities]
    found, damage = dict[str, Record](), dict[str, str]()
    for name, content in objects.read_many(wanted).items():
        try:
            if content:
                found[there[name]] = _parsed(content, f"{prefix}/{name}")
        except CorruptRecord as error:
            damage[there[name]] = str(error)
    return found, damage


def earlier_attempts(objects: Objects) -> set[str]:
    """Return the identities that were ever attempted, with one listing."""
    return {name.removesuffix(".json") for name in objects.list(LEASES)}


def earlier_record(objects: Objects, prefix: str, identity: str) -> Record | None:
    """Return the record of one identity, or None. Raises CorruptRecord."""
    content = objects.read(name := f"{RECORDS}/{identity}.json")
    return _parsed(content, f"{prefix}/{name}") if content else None


def _parsed(content: bytes, where: str) -> Record:
    """Parse a record. Raises CorruptRecord, also if it is of another identity than its name."""
    record = parse_record(content, where)
    if not where.endswith(f"/{record.identity}.json"):
        raise CorruptRecord(f"{where} belongs to {record.identity}; it was copied or edited by hand")
    return replace(record, token=0)
