"""Read the outputs of stores that marin made before December 2026. Nothing writes these files any more.

::

    records/<identity>.json               the committed output
    leases/<identity>.json                who made the last attempt
    superseded/<identity>.<n>.json        outputs that a rebuild replaced or gc deleted

An output of such a store has the number 0, so that every end of today comes after it.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from marin.errors import CorruptRecord
from marin.store.layout import LEASES, RECORDS
from marin.store.objects.objects import Objects
from marin.store.record import Record, parse_record


def earlier_records(
    objects: Objects, prefix: str, identities: Collection[str] | None = None
) -> tuple[dict[str, Record], dict[str, str]]:
    """Return (the records by identity, errors of unreadable ones). identities: None for all. Takes one listing."""
    there = {name.removesuffix(".json") for name in objects.list(RECORDS)}
    wanted = there if identities is None else there & set(identities)
    return _parsed(prefix, {each: content for each, content in _contents(objects, wanted).items() if content})


def earlier_attempts(objects: Objects) -> set[str]:
    """Return the identities that were ever attempted, with one listing."""
    return {name.removesuffix(".json") for name in objects.list(LEASES)}


def earlier_record(objects: Objects, prefix: str, identity: str) -> Record | None:
    """Return the record of one identity, or None. Raises CorruptRecord."""
    content = objects.read(f"{RECORDS}/{identity}.json")
    return parse_earlier(content, f"{prefix}/{RECORDS}/{identity}.json", identity) if content else None


def parse_earlier(content: bytes, where: str, identity: str) -> Record:
    """Parse a record. Raises CorruptRecord, also if it is of another identity."""
    record = parse_record(content, where)
    if record.identity != identity:
        raise CorruptRecord(f"{where} belongs to {record.identity}; it was copied or edited by hand")
    return replace(record, token=0)


def _contents(objects: Objects, identities: Collection[str]) -> dict[str, bytes]:
    names = {f"{RECORDS}/{identity}.json": identity for identity in sorted(identities)}
    return {names[name]: content for name, content in objects.read_many(list(names)).items()}


def _parsed(prefix: str, contents: dict[str, bytes]) -> tuple[dict[str, Record], dict[str, str]]:
    found, damage = dict[str, Record](), dict[str, str]()
    for identity, content in contents.items():
        try:
            found[identity] = parse_earlier(content, f"{prefix}/{RECORDS}/{identity}.json", identity)
        except CorruptRecord as error:
            damage[identity] = str(error)
    return found, damage
