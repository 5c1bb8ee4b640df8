"""Garbage: a thing that ``marin gc`` may delete, whole or not at all. Also control files that nothing refers to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from marin.errors import CorruptRecord
from marin.plan.outside_data import listing
from marin.store.files.transfer import side_by_side
from marin.store.in_use import RECENT, Needs
from marin.store.layout import ACTIONS, CLAIMS, CODE, ENDS, FAILURE, OUTSIDE, STAMPS, SUPERSEDED, USES
from marin.store.record import BuiltFrom, Record
from marin.store.store import Store
from marin.upkeep.gc.survey import STALE, StoreSurvey, files_below

DAY = 86400.0  # seconds


class GarbageKind(StrEnum):
    EXPIRED = "expired"  # an output whose lifetime is over
    UNREACHABLE = "unreachable"  # an output that belongs to none of the named experiments
    NAMED = "named"  # an output that a person named
    REPLACED = "replaced"  # an output that a rebuild replaced, or that a killed gc left half deleted
    UNFINISHED = "unfinished"  # an attempt that never committed
    WORK = "work"  # in progress
    LEFTOVERS = "leftovers"  # control files that nothing refers to any more


type Key = tuple[GarbageKind, str, tuple[str, ...], tuple[str, ...]]


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

    @property
    def key(self) -> Key:
        """Return what stays equal from one survey to the next."""
        return self.kind, self.name, self.identities, self.folders


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


def leftovers(survey: StoreSurvey, needs: Needs, gone: set[str], now: float, older_than: float) -> list[Garbage]:
    """Return the control files that nothing refers to.

    older_than: seconds, at least an hour, because a file may exist before the output that it belongs to. gone: the
    directories that gc is about to delete.
    """
    older_than = max(older_than, STALE)

    def old(folder: str, fits: Callable[[str], bool], least: float = older_than) -> list[str]:
        files = survey.files(folder).items()
        return [name for name, each in files if each.modified and now - each.modified > least and fits(name)]

    lasting = {run.name for run in survey.lasting(now)}
    over = max(older_than, RECENT * DAY)
    ended = {run.name for run in survey.runs if run.name not in lasting and now - survey.began(run) > over}
    stamped = {each.directory.replace("/", "--") for each in survey.attempts if each.directory not in gone}
    there = {record.identity for record in survey.records.values()}
    found: list[Garbage] = []

    def add(name: str, folder: str, names: list[str]) -> None:
        files = [survey.files(folder)[each] for each in names]
        if files:
            found.append(
                Garbage(
                    kind=GarbageKind.LEFTOVERS,
                    name=name,
                    bytes=sum(each.size for each in files),
                    files=len(files),
                    since=min(each.modified for each in files),
                    objects=tuple(f"{folder}/{each}" for each in sorted(names)),
                )
            )

    add("needs of runs that ended", USES, old(USES, lambda name: name.partition(".")[0] in ended))
    add("stamps of outputs that are gone", STAMPS, old(STAMPS, lambda name: name not in stamped))
    add("actions of outputs that are gone", ACTIONS, old(ACTIONS, lambda name: name[-64:] not in there))
    code = _unnamed(old(CODE, _is_whole), lambda made: made.code, survey, needs)
    add("sources of code that built no known output", CODE, code)
    lists = _unnamed(old(OUTSIDE, _is_whole), lambda made: listing(made.outside), survey, needs)
    add("lists of outside data that no known output read", OUTSIDE, lists)
    for folder in (CLAIMS, ENDS, SUPERSEDED, USES, STAMPS, ACTIONS, CODE, OUTSIDE):
        half = old(folder, lambda name: not _is_whole(name), max(older_than, DAY))
        add(f"half-written files in {folder}", folder, half)
    return found


def _is_whole(name: str) -> bool:
    return not name.startswith(".")


def _unnamed(
    files: Iterable[str], digest_of: Callable[[BuiltFrom | Record], str], survey: StoreSurvey, needs: Needs
) -> list[str]:
    """Return the files named by a digest that no output, work in progress or acceptance names.

    Replaced outputs count as well.
    """
    digests = {file.removesuffix(".json") for file in files}
    digests -= {digest_of(record) for record in survey.records.values()} | set(needs.code)
    if digests:
        digests -= {digest_of(record) for record in survey.past}
        markers = side_by_side(survey.store.state_marker, survey.in_progress)
        digests -= {digest_of(begun) for begun in markers if begun is not None}
        accepted = survey.store.acceptances.every() if digests else {}
        digests -= {digest_of(entry) for entries in accepted.values() for entry in entries}
    return [f"{digest}.json" for digest in digests]
