"""Select the garbage that ``marin gc`` may delete, and the reasons why other outputs stay. Decides from a survey."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from marin.errors import BadField
from marin.steps.experiment import Experiment
from marin.steps.lifetime import Rule, parse_lifetime
from marin.store.files.transfer import side_by_side
from marin.store.in_use import RECENT, Needs
from marin.store.in_use import SHORT as NEEDED
from marin.store.layout import state_name
from marin.store.lineage import ADOPT, Output
from marin.store.record import Record
from marin.upkeep.gc.garbage import DAY, Garbage, GarbageKind, leftovers, with_extent
from marin.upkeep.gc.survey import SHORT, StoreSurvey

OLDER_THAN = 7.0  # days
WORK = 30.0  # days that work in progress stays at least: it may be weeks of training that waits for machines


class KeepReason(StrEnum):
    """The reason why an output stays, the strongest reason first."""

    NEEDED = "a run needs it, or did within a day"
    RESULT = "a result of an experiment that was named"
    PINNED = "pinned"
    REPLACEMENT = "the replacement of a revoked output"
    REACHED = "part of an experiment that was named"
    SHARED = "another output shares its files"
    READ = "something that stays was made from it"
    LASTING = "its lifetime is not over"
    FOREVER = "kept for good"


@dataclass(frozen=True)
class Roots:
    """The steps, results and pins of experiments, which gc keeps."""

    steps: frozenset[str] = frozenset()  # identities
    results: frozenset[str] = frozenset()  # identities
    pins: frozenset[str] = frozenset()  # directories


def roots_of(experiments: Iterable[Experiment]) -> Roots:
    every = list(experiments)
    steps = [step for experiment in every for step in experiment.steps()]
    return Roots(
        steps=frozenset(step.identity for step in steps),
        results=frozenset(step.identity for experiment in every for step in experiment.results.values()),
        pins=frozenset(step.pin.at for step in steps if step.pin is not None),
    )


@dataclass(frozen=True)
class Selection:
    goes: list[Garbage]
    stays: Counter[KeepReason] = field(default_factory=Counter[KeepReason])  # number of outputs by reason
    bytes: int = 0  # of the outputs that stay
    unknown: tuple[str, ...] = ()  # directories named like attempts of steps never begun here; they stay
    named: dict[str, KeepReason] = field(default_factory=dict[str, KeepReason])  # why named outputs stay


@dataclass(frozen=True, kw_only=True)
class GcOptions:
    """The options of a gc.

    at_once: wait no days, not even the day during which an ended run may be started again. Work in progress still
    waits, unless ``kinds`` names only work in progress.
    """

    roots: Roots = Roots()
    older_than: float = OLDER_THAN  # days
    unreachable: bool = False  # take also outputs that no root reaches
    kinds: frozenset[GarbageKind] = frozenset(GarbageKind)  # take only these
    at_once: bool = False
    named: frozenset[str] = frozenset()  # outputs to delete unless an output that stays was built from them
    though_read: bool = False  # delete them in that case, too


def find_garbage(survey: StoreSurvey, options: GcOptions, now: float) -> Selection:
    """Return the garbage of a store, and why its other outputs stay. Raises BadField if all would be unreachable.

    now: in seconds since 1970, by the store's clock.
    """
    if options.unreachable and not any(record.identity in options.roots.steps for record in survey.records.values()):
        raise BadField(
            f"--unreachable: none of the {len(options.roots.steps)} steps of the named experiments is in the store "
            f"{survey.store.prefix}, so every output would go. Check --prefix, --experiment and --scale"
        )
    found = _Search(survey, options, now).found()
    return replace(found, goes=[piece for piece in found.goes if piece.kind in options.kinds])


class _Search:
    def __init__(self, survey: StoreSurvey, options: GcOptions, now: float) -> None:
        self.survey, self.options, self.roots, self.now = survey, options, options.roots, now
        self.older_than = 0.0 if options.at_once else options.older_than * DAY
        recent, lasting = 0.0 if options.at_once else RECENT * DAY, {run.name for run in survey.lasting(now)}
        runs = (run for run in survey.runs if run.name in lasting or now - survey.began(run) < recent)
        self.needs = Needs.union(run.needs for run in runs)
        self.needed, self.read = set(self.needs.identities), set(self.needs.attempts)
        self.shorts = {identity[:SHORT] for identity in self.needed}
        standing = [entry.replacement for entry in survey.revocations.all if entry.replacement is not None]
        self.instead = survey.with_data({entry.at for entry in standing})
        self.pins = survey.with_data(self.roots.pins)
        self.by_directory: dict[str, list[Record]] = {}
        for record in survey.records.values():
            self.by_directory.setdefault(record.attempt, []).append(record)
        self.last_read = _last_reads(survey)

    def found(self) -> Selection:
        """Return everything that may go. Outputs with one directory go together or not at all."""
        why = self._reasons()
        stays = {identity: reason for identity, reason in why.items() if isinstance(reason, KeepReason)}
        outputs, size = list[Garbage](), 0
        for records in self.by_directory.values():
            ended = [each for record in records if isinstance(each := why[record.identity], _Ended)]
            if ended:
                outputs.append(_piece(records, max(ended, key=lambda each: each.last)))
            else:
                size += records[0].bytes
        attempts, unknown = self._attempts()
        gone = {folder for piece in [*outputs, *attempts] for folder in piece.folders}
        objects = leftovers(self.survey, self.needs, gone, self.now, self.older_than)
        named = {identity: reason for identity, reason in stays.items() if identity in self.options.named}
        goes = [*outputs, *attempts, *self._work(), *objects]
        return Selection(goes, Counter(stays.values()), size, unknown, named)

    def _reasons(self) -> dict[str, KeepReason | _Ended]:
        """Return why each output stays or may go, by identity."""
        why = {record.identity: self._why(record) for record in self.survey.records.values()}
        pending: list[Record] = []

        def keep(records: list[Record], reason: KeepReason) -> None:
            pending.extend(records)
            why.update({each.identity: reason for each in records if isinstance(why[each.identity], _Ended)})

        for records in self.by_directory.values():
            if not all(isinstance(why[record.identity], _Ended) for record in records):
                keep(records, KeepReason.SHARED)
            elif any(self.survey.is_held(record.identity, self.now) for record in records):
                keep(records, KeepReason.NEEDED)
        made = {Output(record.identity, record.root): record for record in self.survey.records.values()}
        while pending:  # what stays keeps what it was built from
            for each in pending.pop().inputs:
                read = made.get(Output(each.identity, each.root))
                ended = why[read.identity] if read is not None else None
                if read is not None and isinstance(ended, _Ended) and not ended.hard:
                    keep(self.by_directory[read.attempt], KeepReason.READ)
        return why

    def _why(self, record: Record) -> KeepReason | _Ended:
        """Return why an output stays or may go, as far as no other output decides that."""
        identity, directory = record.identity, record.attempt
        if identity[:NEEDED] in self.needed or directory in self.read:
            return KeepReason.NEEDED
        if identity in self.roots.results:
            return KeepReason.RESULT
        if directory in self.pins:
            return KeepReason.PINNED
        if directory in self.instead:
            return KeepReason.REPLACEMENT
        read = self.last_read.get(Output(identity, record.root), 0.0)
        made = self.survey.made(record)
        last = max(made, read)
        if identity in self.options.named:
            return _Ended(GarbageKind.NAMED, "named", last, hard=self.options.though_read)
        # Nobody can rebuild adopted outputs.
        unreachable = self.options.unreachable and identity not in self.roots.steps and record.op != ADOPT
        if unreachable and self.now - last > self.older_than:
            run = record.provenance
            by = f"{run.experiment} · {run.who}" if run.experiment else run.who
            return _Ended(GarbageKind.UNREACHABLE, f"made for {by}", last, hard=True)
        lifetime = parse_lifetime(record.lifetime)
        if lifetime.rule is Rule.FOREVER:
            return KeepReason.REACHED if identity in self.roots.steps else KeepReason.FOREVER
        last = last if lifetime.rule is Rule.UNUSED else made
        if self.now - last <= lifetime.days * DAY:
            return KeepReason.LASTING
        return _Ended(GarbageKind.EXPIRED, lifetime.describe(), last, hard=lifetime.rule is Rule.UNUSED)

    def _attempts(self) -> tuple[list[Garbage], tuple[str, ...]]:
        """Return the attempts to delete that have no record, and directories of unknown steps."""
        kept = {*self.pins, *self.instead, *self.read}
        unknown: list[str] = []
        possible: list[Garbage] = []
        past = {record.attempt: record for record in self.survey.past if not record.alias_of}
        for attempt in self.survey.orphan_attempts:
            identities = self.survey.by_short.get(attempt.short, [])
            if not identities:  # no run began this step here
                unknown.append(attempt.directory)
                continue
            if attempt.directory in kept or attempt.short in self.shorts:
                continue
            claims = self.survey.claims
            open_ones = [each for each in identities if each in claims and claims[each].attempt == attempt.directory]
            if any(self.survey.is_held(identity, self.now) for identity in open_ones):
                continue
            replaced = past.get(attempt.directory)
            collected = replaced is not None and replaced.identity in self.survey.inventory.collected
            now = self.survey.records.get(replaced.identity) if replaced is not None else None
            since = 0.0 if collected else self.survey.made(now) if now is not None else None
            possible.append(
                Garbage(
                    kind=GarbageKind.REPLACED if replaced is not None else GarbageKind.UNFINISHED,
                    name=attempt.name,
                    identities=tuple(identities),
                    why="made again since" if now is not None else "its record is gone" if replaced is not None else "",
                    since=since,
                    folders=(attempt.directory,),
                    fenced=tuple(open_ones),
                )
            )
        return self._old(possible, self.older_than), tuple(unknown)

    def _work(self) -> list[Garbage]:
        possible: list[Garbage] = []
        for identity in sorted(self.survey.in_progress):
            record = self.survey.records.get(identity)
            wanted = identity in self.roots.steps and record is None
            if identity[:NEEDED] in self.needed or self.survey.is_held(identity, self.now) or wanted:
                continue
            possible.append(
                Garbage(
                    kind=GarbageKind.WORK,
                    name=record.name if record is not None else self.survey.name_of(identity),
                    identities=(identity,),
                    why="of an abandoned rebuild" if record is not None else "not continued",
                    folders=(state_name(identity),),
                    fenced=(identity,) if identity in self.survey.claims else (),
                )
            )
        alone = self.options.at_once and self.options.kinds == frozenset({GarbageKind.WORK})
        return self._old(possible, 0.0 if alone else max(self.older_than, WORK * DAY))

    def _old(self, possible: list[Garbage], least: float) -> list[Garbage]:
        """Return the pieces that are old, with their extent. Pieces without a time have the time of their files."""
        found = side_by_side(functools.partial(with_extent, self.survey.store), possible)
        return [piece for piece in found if not least or self.now - (piece.since or 0.0) > least]


def _piece(records: list[Record], ended: _Ended) -> Garbage:
    """Return the outputs of one directory as garbage."""
    return Garbage(
        kind=ended.kind,
        name=records[0].name,
        identities=tuple(record.identity for record in records),
        why=ended.why,
        bytes=records[0].bytes,
        files=records[0].files,
        since=ended.last,
        records=tuple(records),
        folders=(records[0].attempt,),
    )


@dataclass(frozen=True)
class _Ended:
    """The reason why an output may go. hard: it goes even if an output that stays was built from it."""

    kind: GarbageKind
    why: str
    last: float
    hard: bool


def _last_reads(survey: StoreSurvey) -> dict[Output, float]:
    """Return when a commit last read each output. A replaced or deleted record keeps the time of its commit."""
    every = list(survey.records.values())
    if any(parse_lifetime(record.lifetime).rule is Rule.UNUSED for record in every):
        every += survey.past
    last: dict[Output, float] = {}
    for record in every:
        made = survey.made(record)
        for each in record.inputs:
            output = Output(each.identity, each.root)
            last[output] = max(last.get(output, 0.0), made)
    return last
