"""What a store holds, whichever experiment made it, and finding an output by the name that a person gives."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from marin.errors import AmbiguousName, BadPrefix, CorruptRecord, UnknownStep
from marin.numbers import write_bytes
from marin.store.collector import paused
from marin.store.committed import Committed
from marin.store.layout import OWN
from marin.store.record import Record
from marin.store.store import Store

SHORTEST = 6  # digits of an identity that name it
CANDIDATES = 10  # listed when a name fits several


@dataclass(frozen=True)
class Inventory:
    """records: every committed output, newest first. damage: why a record, or the lease that stands for one, cannot be
    read, by identity."""

    store: Store
    records: list[Record]
    damage: dict[str, str]

    def unknown(self, name: str) -> UnknownStep | CorruptRecord:
        """The error for a name that no output has."""
        return unknown(name, [record.name for record in self.records], self.store.prefix, self.damage.values())

    def by_identity(self) -> dict[str, Record]:
        return {record.identity: record for record in self.records}


@paused()
def read_inventory(store: Store) -> Inventory:
    """Listings, and reads side by side. Raises BadPrefix where there is no store."""
    must_exist(store)
    committed = Committed(store)
    records = list(committed.records.values())
    records.sort(key=lambda record: (record.provenance.started, record.name), reverse=True)
    return Inventory(store, records, committed.damage)


def must_exist(store: Store) -> None:
    """Raises BadPrefix: a command that looks must not take a misspelt prefix for an empty store."""
    if not store.objects.list(OWN):
        raise BadPrefix(f"there is no store at {store.prefix}; --prefix names the one to look at")


def outputs_called(name: str, records: Iterable[Record], prefix: str) -> list[Record]:
    """Outputs by ``op/label``, label, operator, identity (or its first digits), or the path of their directory."""
    every = list(records)
    inside = name.removeprefix(f"{prefix}/").strip("/")
    ways: tuple[Callable[[Record], bool], ...] = (
        lambda record: name == record.name,
        lambda record: name == record.label,
        lambda record: name == record.op,
        lambda record: len(name) >= SHORTEST and record.identity.startswith(name),
        lambda record: inside == record.attempt or inside.startswith(f"{record.attempt}/"),
    )
    for fits in ways:
        if found := [record for record in every if fits(record)]:
            return found
    return []


def output_called(inventory: Inventory, name: str, *, latest: bool = False) -> Record:
    """The one output that a name means. latest: the newest where several fit.

    Raises UnknownStep with near misses, CorruptRecord if it may be one that cannot be read, AmbiguousName with the
    candidates.
    """
    found = outputs_called(name, inventory.records, inventory.store.prefix)
    if not found:
        raise inventory.unknown(name)
    if len({record.root for record in found}) == 1 or latest:
        return found[0]
    lines = [
        f"{record.name}  {record.identity[:12]}  {record.provenance.started}  {write_bytes(record.bytes)}"
        for record in found
    ]
    raise ambiguous(name, lines, "newest first; give the identity")


def unknown(name: str, names: Iterable[str], prefix: str, unreadable: Collection[str]) -> UnknownStep | CorruptRecord:
    """The error for a name that nothing in the store has, as far as its records can be read."""
    every = sorted(set(names))
    if unreadable:
        more = [f"and {len(unreadable) - CANDIDATES} more"] if len(unreadable) > CANDIDATES else []
        lines = "\n".join(f"  {text}" for text in [*list(unreadable)[:CANDIDATES], *more])
        return CorruptRecord(
            f"nothing that can be read in the store {prefix} is called {name!r}. What cannot:\n{lines}"
        )
    if not every:
        return UnknownStep(f"nothing is called {name!r}: the store {prefix} holds no output yet")
    return UnknownStep(f"nothing in the store {prefix} is called {name!r}; {hint(name, every)}")


def hint(name: str, names: Iterable[str]) -> str:
    """Near misses of a name (or of its operator or label alone), or what there is."""
    every = sorted(set(names) - {""})
    parts = {part for held in every for part in held.split("/", 1)} if "/" not in name else set[str]()
    near = (
        difflib.get_close_matches(name, [*every, *(parts - set(every))], n=3, cutoff=0.5)
        or [held for held in every if name in held][:3]
    )
    if near:
        return f"did you mean {' or '.join(near)}?"
    more = f" and {len(every) - CANDIDATES} more" if len(every) > CANDIDATES else ""
    return f"there are {', '.join(every[:CANDIDATES])}{more}" if every else "there is none"


def ambiguous(name: str, candidates: Sequence[str], advice: str) -> AmbiguousName:
    more = [f"and {len(candidates) - CANDIDATES} more"] if len(candidates) > CANDIDATES else []
    listed = "\n".join(f"  {line}" for line in [*candidates[:CANDIDATES], *more])
    return AmbiguousName(f"{name!r} fits {len(candidates)} ({advice}, or --latest):\n{listed}")


def held_by(record: Record, field: str) -> str:
    """What a record says about ``op``, ``label``, ``kind`` or ``experiment``."""
    return record.provenance.experiment if field == "experiment" else str(getattr(record, field))
