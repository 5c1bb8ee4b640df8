"""One thing that ``marin gc`` may take away, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from marin.errors import CorruptRecord
from marin.store.in_use import SHORT, Needs
from marin.store.layout import FAILURE
from marin.store.record import Record
from marin.store.store import Store
from marin.upkeep.gc.survey import files_below

DAY = 86400.0  # seconds


class GarbageKind(StrEnum):
    EXPIRED = "expired"  # an output whose lifetime is over
    UNREACHABLE = "unreachable"  # an output of no experiment that was named
    NAMED = "named"  # an output that somebody named
    REPLACED = "replaced"  # what a rebuild replaced, or an earlier gc was killed at
    UNFINISHED = "unfinished"  # an attempt that never committed
    WORK = "work"  # in progress
    LEFTOVERS = "leftovers"  # control files nothing refers to any more


@dataclass(frozen=True, kw_only=True)
class Garbage:
    """Something that goes whole or not at all."""

    kind: GarbageKind
    name: str  # as people call it
    identities: tuple[str, ...] = ()
    why: str = ""
    bytes: int = 0
    files: int = 0
    since: float | None = None  # when it was last made, read or touched: seconds since 1970 by the store's clock
    records: tuple[Record, ...] = ()  # that go with it
    folders: tuple[str, ...] = ()  # the first holds the data of the records
    objects: tuple[str, ...] = ()  # control files
    fenced: tuple[str, ...] = ()  # identities whose lease is taken first, because a writer of it may wake up
    code: tuple[str, ...] = ()  # digests, where the objects are called by them

    @property
    def needs(self) -> Needs:
        """As a run would name it."""
        return Needs(
            identities=[identity[:SHORT] for identity in self.identities],
            attempts=list(self.folders),
            code=list(self.code),
        )

    @property
    def key(self) -> tuple[GarbageKind, str, tuple[str, ...]]:
        """Equal in two looks at one store for one and the same thing."""
        return self.kind, "" if self.folders else self.name, self.folders


def extents(store: Store, pieces: Iterable[Garbage]) -> list[Garbage]:
    """With bytes and files, and with the time of the newest file where none is known: a listing for each, side by side.

    Never old where the store tells no times; an empty folder is what a removal left that was cut short.
    """
    from marin.store.files.transfer import side_by_side

    return side_by_side(lambda piece: _extent(store, piece), pieces)


def _extent(store: Store, piece: Garbage) -> Garbage:
    found = {
        f"{folder}/{name}": entry for folder in piece.folders for name, entry in files_below(store, folder).items()
    }
    newest = max((entry.modified for entry in found.values()), default=0.0) or float("inf")
    return replace(
        piece,
        why=piece.why or _ending(store, [folder for folder in piece.folders if f"{folder}/{FAILURE}" in found]),
        bytes=sum(entry.size for entry in found.values()),
        files=len(found),
        since=piece.since if piece.since is not None else newest if found else 0.0,
    )


def _ending(store: Store, failures: Iterable[str]) -> str:
    """How an attempt ended that never committed. failures: its directory, if it left word of that."""
    for attempt in failures:
        with suppress(CorruptRecord):
            failure = store.failure(attempt)
            if failure is not None and failure.stopped:
                return "stopped"
        return "failed"
    return "did not finish"
