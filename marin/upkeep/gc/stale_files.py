"""Control files that nothing goes by any more: of runs that ended, of attempts and outputs that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from marin.plan.outside_data import listing
from marin.store.in_use import RECENT, Needs
from marin.store.layout import ACTIONS, CODE, LEASES, MADE_BY, OUTSIDE, RECORDS, STAMPS, SUPERSEDED, USES, state_name
from marin.store.record import BuiltFrom, Record, WorkInProgress
from marin.upkeep.gc.garbage import DAY, Garbage, GarbageKind
from marin.upkeep.gc.survey import STALE, StoreSurvey


def leftovers(held: StoreSurvey, needs: Needs, gone: set[str], now: float, older_than: float) -> list[Garbage]:
    """older_than: seconds; an hour at least, because what they are for may come after them. gone: directories that go
    as well."""
    older_than = max(older_than, STALE)

    def old(folder: str, fits: Callable[[str], bool]) -> list[str]:
        files = held.times.folder(folder)
        return [
            name for name, each in files.items() if each.modified and now - each.modified > older_than and fits(name)
        ]

    lasting = {run.name for run in held.lasting(now)}
    over = max(older_than, RECENT * DAY)
    ended = {run.name for run in held.runs if run.name not in lasting and now - held.began(run) > over}
    stamped = {each.directory.replace("/", "--") for each in held.attempts if each.directory not in gone}
    there = {record.identity for record in held.all_records()}
    code = _unnamed(old(CODE, _is_whole), lambda made: made.code, held, needs)
    lists = _unnamed(old(OUTSIDE, _is_whole), lambda made: listing(made.outside), held, needs)
    found = [
        _piece("needs of runs that ended", USES, old(USES, lambda name: name.partition(".")[0] in ended), held),
        _piece("stamps of outputs that are gone", STAMPS, old(STAMPS, lambda name: name not in stamped), held),
        _piece("actions of outputs that are gone", ACTIONS, old(ACTIONS, lambda name: name[-64:] not in there), held),
        _piece("sources of code that made nothing that is known", CODE, code, held, by_digest=True),
        _piece("lists of outside data of nothing that is known", OUTSIDE, lists, held, by_digest=True),
    ]
    for folder in (RECORDS, LEASES, SUPERSEDED, USES, STAMPS, ACTIONS, CODE, OUTSIDE):
        half = [
            name for name in old(folder, lambda name: not _is_whole(name)) if now - held.times[f"{folder}/{name}"] > DAY
        ]
        found.append(_piece(f"half-written files in {folder}", folder, half, held))
    return [piece for piece in found if piece.objects]


def _is_whole(name: str) -> bool:
    return not name.startswith(".")


def _piece(name: str, folder: str, names: Iterable[str], held: StoreSurvey, *, by_digest: bool = False) -> Garbage:
    """by_digest: the files are called by digests, which a run may say that it needs."""
    files = held.times.folder(folder)
    every = sorted(names)
    return Garbage(
        kind=GarbageKind.LEFTOVERS,
        name=name,
        bytes=sum(files[each].size for each in every),
        files=len(every),
        since=min((files[each].modified for each in every), default=None),
        objects=tuple(f"{folder}/{each}" for each in every),
        code=tuple(each.removesuffix(".json") for each in every) if by_digest else (),
    )


def _unnamed(
    files: Iterable[str], digest_of: Callable[[BuiltFrom | Record], str], held: StoreSurvey, needs: Needs
) -> list[str]:
    """Of files that are called by a digest those that no output, replaced ones included, no work in progress and no
    acceptance names."""
    digests = {file.removesuffix(".json") for file in files}
    digests -= {digest_of(record) for record in held.all_records()} | set(needs.code)
    if digests:
        digests -= {digest_of(record) for record in held.superseded}
        digests -= {digest_of(begun) for begun in _begun(held)}
        accepted = held.store.accepted_identities() if digests else set[str]()
        digests -= {digest_of(entry) for identity in accepted for entry in held.store.acceptances(identity)}
    return [f"{digest}.json" for digest in digests]


def _begun(held: StoreSurvey) -> list[WorkInProgress]:
    """What made the work in progress. Raises CorruptRecord."""
    markers = [f"{state_name(identity)}/{MADE_BY}" for identity in held.in_progress]
    found: list[WorkInProgress] = []
    for name, content in held.store.objects.read_many(markers).items():
        remedy = "delete that folder and the step starts over"
        found.append(WorkInProgress.parse_file(content, f"{held.store.prefix}/{name}", "state marker", remedy))
    return found
