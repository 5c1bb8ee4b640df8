"""What differs between two experiments, and what that costs: pure, on plain data.

Steps are one where their identities are; else they are paired by name, and unlabelled or relabelled ones by what they
have in common. A paired step changed itself (a field, the version) or only follows what it reads.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from marin.fingerprint.fingerprint import HARMLESS, compare
from marin.report.diff.field_changes import Change, FieldChange, compare_fields
from marin.report.diff.sides import DescribedExperiment, Step
from marin.report.words import grouped

# Share of equal fields from which two steps are one that changed: of different labels, and where there is none.
RENAMED, UNNAMED = 0.6, 0.5
MILESTONE = "milestone"  # the operator's name


class StepChange(StrEnum):
    """REUSED: the same identity, so what is committed serves. FOLLOWS: only what it reads is new."""

    REUSED = "reused"
    CHANGED = "changed"
    FOLLOWS = "follows"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True)
class StepDifference:
    """One step on both sides, or on one."""

    fate: StepChange
    old: Step | None  # None where it is not on that side
    new: Step | None
    field_changes: tuple[Change, ...] = ()
    execution_changes: tuple[Change, ...] = ()  # of fields that are no part of identity

    @property
    def step(self) -> Step:
        """On the new side, if it is there."""
        step = self.new or self.old
        assert step is not None
        return step

    @property
    def name(self) -> str:
        return self.step.name

    @property
    def renamed(self) -> str:
        """What it was called; "" if the same, or if it has no label on either side."""
        old, new = self.old, self.new
        return old.name if old and new and old.name != new.name and (old.label or new.label) else ""


@dataclass(frozen=True)
class CodeChange:
    """A function, class or constant. builds: steps on the new side (for one no longer used: the old) that it builds.

    drifts: those of them whose identity is on both sides, so that a committed output would not be made like that today.
    """

    unit: str
    how: str  # changed, added, removed, moved, gained: see marin.fingerprint.Change
    builds: tuple[Step, ...]
    drifts: tuple[Step, ...]


@dataclass(frozen=True)
class Difference:
    """steps: the new side's order, then what is gone."""

    old: DescribedExperiment
    new: DescribedExperiment
    steps: list[StepDifference]
    code: list[CodeChange]

    def having(self, *fates: StepChange) -> list[StepDifference]:
        return [step for step in self.steps if step.fate in fates]

    @property
    def is_empty(self) -> bool:
        old, new = self.old, self.new
        same_question = (old.issue, old.question, old.results) == (new.issue, new.question, new.results)
        same = (s.fate is StepChange.REUSED and not s.execution_changes and not s.renamed for s in self.steps)
        return same_question and all(same) and not self.code


def compare_sides(old: DescribedExperiment, new: DescribedExperiment) -> Difference:
    pairs = _paired(old.steps, new.steps)
    names = {before.short: after.name for before, after in pairs}  # of the old side's steps, as the new side says
    compared = {after.identity: compare_steps(before, after, names) for before, after in pairs}
    kept = {before.identity for before, _ in pairs}
    steps = [
        *(compared.get(step.identity, StepDifference(StepChange.NEW, None, step)) for step in new.steps),
        *(StepDifference(StepChange.GONE, step, None) for step in old.steps if step.identity not in kept),
    ]
    return Difference(old, new, steps, _code_changes(old, new))


def compare_steps(old: Step, new: Step, names: Mapping[str, str]) -> StepDifference:
    """Of two sides, or two steps of one. names: of the old side's steps, as the new side says, by short identity."""
    execution = tuple(compare_fields(old.execution, new.execution, {}))
    if old.identity == new.identity:
        return StepDifference(StepChange.REUSED, old, new, execution_changes=execution)
    changes = compare_fields(old.fields, new.fields, names)
    if old.version != new.version:
        changes.insert(0, FieldChange("version", old.version, new.version))
    return StepDifference(StepChange.CHANGED if changes else StepChange.FOLLOWS, old, new, tuple(changes), execution)


def goes_on_from(side: DescribedExperiment, step: Step) -> Step | None:
    """The training whose checkpoint a training begins with; None for one from scratch."""
    by_identity = {each.identity: each for each in side.steps}
    read = [by_identity[identity] for identity in step.inputs]
    sources = [*read, *(by_identity[behind] for each in read if each.op == MILESTONE for behind in each.inputs)]
    return next((each for each in sources if each.work is not None), None)


def _paired(old: list[Step], new: list[Step]) -> list[tuple[Step, Step]]:
    pairs: list[tuple[Step, Step]] = []
    left_old, left_new = {step.identity: step for step in old}, {step.identity: step for step in new}

    def pair(before: Step, after: Step) -> None:
        pairs.append((before, after))
        del left_old[before.identity], left_new[after.identity]

    for identity in [identity for identity in left_old if identity in left_new]:
        pair(left_old[identity], left_new[identity])
    named = {step.name: step for step in left_new.values() if step.label}
    for before in list(left_old.values()):
        if before.label and before.name in named:
            pair(before, named[before.name])
    # Inputs come before what reads them, so that "reads the same, renamed" is known when the reader is looked at.
    for before in list(left_old.values()):
        names = {old_step.short: after.name for old_step, after in pairs}
        scored = [(_likeness(before, after, names), after) for after in left_new.values() if after.op == before.op]
        score, after = max(scored, key=lambda pair: pair[0], default=(0.0, before))
        if score >= (RENAMED if before.label or after.label else UNNAMED):
            pair(before, after)
    return pairs


def _likeness(old: Step, new: Step, names: Mapping[str, str]) -> float:
    """Share of equal fields, what follows counted as equal."""
    every = old.fields.keys() | new.fields.keys()
    changed = {re.split(r"\W", change.place)[0] for change in compare_fields(old.fields, new.fields, names)}
    return (len(every) - len(changed)) / len(every) if every else 1.0


def _code_changes(old: DescribedExperiment, new: DescribedExperiment) -> list[CodeChange]:
    """Of steps on both sides by name or identity; a new operator's code is no news beside the step itself."""
    before = {step.identity: step for step in old.steps} | {step.name: step for step in old.steps if step.label}
    both = [(was, step) for step in new.steps if (was := before.get(step.identity) or before.get(step.name))]

    @functools.cache
    def changes(was: str, now: str) -> list[tuple[str, str]]:
        return [(change.name, change.kind) for change in compare(old.fingerprint(was), new.fingerprint(now))]

    builds = grouped((change, (was, now)) for was, now in both for change in changes(was.code, now.code))
    return [
        CodeChange(
            unit,
            how,
            builds=tuple(now for _, now in built),
            drifts=tuple(now for was, now in built if was.identity == now.identity and how not in HARMLESS),
        )
        for (unit, how), built in builds.items()
    ]


@dataclass(frozen=True, kw_only=True)
class TrainingSum:
    """runs: training steps. chip_hours: of those that run on accelerators."""

    runs: int
    steps: int
    tokens: int
    flops: float
    chip_hours: float


def training_sum(steps: Iterable[Step]) -> TrainingSum:
    trained = [(step.work, step.chip_hours or 0.0) for step in steps if step.work is not None]
    return TrainingSum(
        runs=len(trained),
        steps=sum(work.steps for work, _ in trained),
        tokens=sum(work.tokens for work, _ in trained),
        flops=sum(work.flops for work, _ in trained),
        chip_hours=sum(hours for _, hours in trained),
    )


def trained_anew(difference: Difference) -> list[Step]:
    """Training steps of the new side that the old one does not have."""
    there = {step.identity for step in difference.old.steps}
    return [step for step in difference.new.steps if step.work is not None and step.identity not in there]


@dataclass(frozen=True, kw_only=True)
class ToRun:
    """One side on a store. committed: how many of its steps. to_run: what its results still need. training: of that."""

    committed: int
    to_run: list[str]  # identities
    training: TrainingSum


def to_run(side: DescribedExperiment, committed: Collection[str]) -> ToRun:
    """committed: identities in the store. What lies behind a committed output is not needed."""
    needed = set(side.results.values()) - set(committed)
    for step in reversed(side.steps):  # what it reads comes before it
        if step.identity in needed:
            needed.update(set(step.inputs) - set(committed))
    missing = [step for step in side.steps if step.identity in needed]
    return ToRun(
        committed=sum(step.identity in committed for step in side.steps),
        to_run=[step.identity for step in missing],
        training=training_sum(missing),
    )
