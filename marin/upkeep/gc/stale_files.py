"""Find control files that nothing refers to any more: of runs that ended, of attempts and outputs that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from marin.plan.outside_data import listing
from marin.store.in_use import RECENT, Needs
from marin.store.layout import ACTIONS, CLAIMS, CODE, ENDS, MADE_BY, OUTSIDE, STAMPS, SUPERSEDED, USES, state_name
from marin.store.record import BuiltFrom, Record, WorkInProgress
from marin.upkeep.gc.garbage import DAY, Garbage, GarbageKind
from marin.upkeep.gc.survey import STALE, StoreSurvey


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
    code = _unnamed(old(CODE, _is_whole), lambda made: made.code, survey, needs)
    lists = _unnamed(old(OUTSIDE, _is_whole), lambda made: listing(made.outside), survey, needs)
    found = [
        _piece("needs of runs that ended", USES, old(USES, lambda name: name.partition(".")[0] in ended), survey),
        _piece("stamps of outputs that are gone", STAMPS, old(STAMPS, lambda name: name not in stamped), survey),
        _piece("actions of outputs that are gone", ACTIONS, old(ACTIONS, lambda name: name[-64:] not in there), survey),
        _piece("sources of code that built no known output", CODE, code, survey),
        _piece("lists of outside data that no known output read", OUTSIDE, lists, survey),
    ]
    for folder in (CLAIMS, ENDS, SUPERSEDED, USES, STAMPS, ACTIONS, CODE, OUTSIDE):
        half = old(folder, lambda name: not _is_whole(name), max(older_than, DAY))
        found.append(_piece(f"half-written files in {folder}", folder, half, survey))
    return [piece for piece in found if piece.objects]


def _is_whole(name: str) -> bool:
    return not name.startswith(".")


def _piece(name: str, folder: str, names: Iterable[str], survey: StoreSurvey) -> Garbage:
    """Return garbage of files in one folder."""
    files = survey.files(folder)
    every = sorted(names)
    return Garbage(
        kind=GarbageKind.LEFTOVERS,
        name=name,
        bytes=sum(files[each].size for each in every),
        files=len(every),
        since=min((files[each].modified for each in every), default=None),
        objects=tuple(f"{folder}/{each}" for each in every),
    )


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
        digests -= {digest_of(begun) for begun in _begun(survey)}
        accepted = survey.store.acceptances.every() if digests else {}
        digests -= {digest_of(entry) for entries in accepted.values() for entry in entries}
    return [f"{digest}.json" for digest in digests]


def _begun(survey: StoreSurvey) -> list[WorkInProgress]:
    """Return the markers of all work in progress. Raises CorruptRecord."""
    markers = [f"{state_name(identity)}/{MADE_BY}" for identity in survey.in_progress]
    found: list[WorkInProgress] = []
    for name, content in survey.store.objects.read_many(markers).items():
        remedy = "delete that folder and the step starts over"
        found.append(WorkInProgress.parse_file(content, f"{survey.store.prefix}/{name}", "state marker", remedy))
    return found
