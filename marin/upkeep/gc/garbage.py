"""Garbage: a thing that ``marin gc`` may delete, whole or not at all."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from marin.errors import CorruptRecord
from marin.store.layout import FAILURE
from marin.store.record import Record
from marin.store.store import Store
from marin.upkeep.gc.survey import files_below


class GarbageKind(StrEnum):
    EXPIRED = "expired"  # an output whose lifetime is over
    UNREACHABLE = "unreachable"  # an output that belongs to none of the named experiments
    NAMED = "named"  # an output that a person named
    REPLACED = "replaced"  # an output that a rebuild replaced, or that a killed gc left half deleted
    UNFINISHED = "unfinished"  # an attempt that never committed
    WORK = "work"  # in progress
    LEFTOVERS = "leftovers"  # control files that nothing refers to any more


@dataclass(frozen=True, kw_only=True)
class Garbage:
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


def with_extent(store: Store, piece: Garbage) -> Garbage:
    """Return a piece of one folder with its bytes, files and, if unknown, the time of the newest file.

    A piece without times is never old. An empty folder counts as old: an interrupted removal left it.
    """
    (folder,) = piece.folders
    found = files_below(store, folder)
    newest = max((entry.modified for entry in found.values()), default=0.0) or float("inf")
    return replace(
        piece,
        why=piece.why or _ending(store, folder, found),
        bytes=sum(entry.size for entry in found.values()),
        files=len(found),
        since=piece.since if piece.since is not None else newest if found else 0.0,
    )


def _ending(store: Store, attempt: str, files: Collection[str]) -> str:
    """Return how an uncommitted attempt ended. files: everything in its directory."""
    if FAILURE not in files:
        return "did not finish"
    with suppress(CorruptRecord):
        failure = store.failure(attempt)
        if failure is not None and failure.stopped:
            return "stopped"
    return "failed"
