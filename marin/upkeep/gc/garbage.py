"""Garbage: a thing that ``marin gc`` may delete, whole or not at all."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from marin.store.record import Record


class GarbageKind(StrEnum):
    EXPIRED = "expired"  # an output whose lifetime is over
    UNREACHABLE = "unreachable"  # an output that belongs to none of the named experiments
    NAMED = "named"  # an output that a person named
    REPLACED = "replaced"  # an output that a rebuild replaced, or that a killed gc left half deleted
    UNFINISHED = "unfinished"  # an attempt that never committed
    WORK = "work"  # in progress
    LEFTOVERS = "leftovers"  # control files that nothing refers to any more


class Garbage(Struct, frozen=True, kw_only=True):
    """A thing that gc deletes whole or not at all."""

    kind: GarbageKind
    name: str  # for people
    identities: tuple[str, ...] = ()
    why: str = ""
    bytes: int = 0
    files: int = 0
    since: float | None = None  # when it was last built, read or touched: seconds since 1970 by the store's clock
    records: tuple[Record, ...] = ()  # to delete with it
    folders: tuple[str, ...] = ()  # one at most; it holds the data of the records
    objects: tuple[str, ...] = ()  # control files
    fenced: tuple[str, ...] = ()  # identities whose open attempt gc ends first, because its holder may wake up
    hard: bool = False  # it goes even if an output that stays was built from it
