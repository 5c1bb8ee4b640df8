"""Compute the difference between two experiments and its cost: pure functions on plain data.

Steps with equal identities are one step. Other steps are paired by name. Unlabelled and relabelled steps are paired by
their equal fields. A paired step either changed itself (a field, the version) or only follows its inputs.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from marin.fingerprint.fingerprint import HARMLESS, compare
from marin.report.diff.sides import DescribedExperiment, Step
from marin.report.words import grouped

# Share of equal fields from which two steps count as one that changed: with different labels, and without labels.
RENAMED, UNNAMED = 0.6, 0.5
MILESTONE = "milestone"  # the operator's name


class StepChange(StrEnum):
    """The fate of a step. REUSED: equal identity, the committed output serves. FOLLOWS: only its inputs are new."""

    REUSED = "reused"
    CHANGED = "changed"
    FOLLOWS = "follows"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True)
class StepDifference:
    """One step on both sides, or on one."""

    fate: StepChange
    old: Step | None  # None if it is not on that side
    new: Step | None
    field_changes: tuple[Change, ...] = ()
    execution_changes: tuple[Change, ...] = ()  # of fields that are no part of identity

    @property
    def step(self) -> Step:
        """The step on the new side, if it is there."""
        step = self.new or self.old
        assert step is not None
        return step

    @property
    def name(self) -> str:
        return self.step.name

    @property
    def renamed(self) -> str:
        """The step's old name; "" if the name is unchanged, or if neither side has a label."""
        old, new = self.old, self.new
        return old.name if old and new and old.name != new.name and (old.label or new.label) else ""


@dataclass(frozen=True)
class CodeChange:
    """A changed function, class or constant. builds: steps that use it on the new side (the old side if it is gone).

    drifts: those steps whose identity is on both sides. Today's code would not build their committed outputs.
    """

    unit: str
    how: str  # changed, added, removed, moved, gained: see marin.fingerprint.Change
    builds: tuple[Step, ...]
    drifts: tuple[Step, ...]


@dataclass(frozen=True)
class Difference:
    """A difference. steps: in the new side's order, then the steps that are gone."""

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
    names = {before.short: after.name for before, after in pairs}  # the new names of old steps
    compared = {after.identity: compare_steps(before, after, names) for before, after in pairs}
    kept = {before.identity for before, _ in pairs}
    steps = [
        *(compared.get(step.identity, StepDifference(StepChange.NEW, None, step)) for step in new.steps),
        *(StepDifference(StepChange.GONE, step, None) for step in old.steps if step.identity not in kept),
    ]
    return Difference(old, new, steps, _code_changes(old, new))


def compare_steps(old: Step, new: Step, names: Mapping[str, str]) -> StepDifference:
    """Compare two steps, of one side or of two. names: the new names of old steps, by short identity."""
    execution = tuple(compare_fields(old.execution, new.execution, {}))
    if old.identity == new.identity:
        return StepDifference(StepChange.REUSED, old, new, execution_changes=execution)
    changes = compare_fields(old.fields, new.fields, names)
    if old.version != new.version:
        changes.insert(0, FieldChange("version", old.version, new.version))
    return StepDifference(StepChange.CHANGED if changes else StepChange.FOLLOWS, old, new, tuple(changes), execution)


def goes_on_from(side: DescribedExperiment, step: Step) -> Step | None:
    """Return the training whose checkpoint a training begins with; None if it starts from scratch."""
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
    # Inputs come before their readers, so that a renamed input is known when its reader is compared.
    for before in list(left_old.values()):
        names = {old_step.short: after.name for old_step, after in pairs}
        scored = [(_likeness(before, after, names), after) for after in left_new.values() if after.op == before.op]
        score, after = max(scored, key=lambda pair: pair[0], default=(0.0, before))
        if score >= (RENAMED if before.label or after.label else UNNAMED):
            pair(before, after)
    return pairs


def _likeness(old: Step, new: Step, names: Mapping[str, str]) -> float:
    """Return the share of equal fields. References to paired steps count as equal."""
    every = old.fields.keys() | new.fields.keys()
    changed = {re.split(r"\W", change.place)[0] for change in compare_fields(old.fields, new.fields, names)}
    return (len(every) - len(changed)) / len(every) if every else 1.0


def _code_changes(old: DescribedExperiment, new: DescribedExperiment) -> list[CodeChange]:
    """Return code changes of steps on both sides, by name or identity. A new step's code is not reported separately."""
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
    """Totals of trainings. runs: training steps. chip_hours: of those on accelerators."""

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
    """Return the training steps that only the new side has."""
    there = {step.identity for step in difference.old.steps}
    return [step for step in difference.new.steps if step.work is not None and step.identity not in there]


@dataclass(frozen=True, kw_only=True)
class ToRun:
    """One side on a store. committed: number of steps. to_run: steps that results still need. training: their sum."""

    committed: int
    to_run: list[str]  # identities
    training: TrainingSum


def to_run(side: DescribedExperiment, committed: Collection[str]) -> ToRun:
    """Return the steps that a side still has to run, without inputs of committed steps. committed: identities."""
    needed = set(side.results.values()) - set(committed)
    for step in reversed(side.steps):  # inputs come before their readers
        if step.identity in needed:
            needed.update(set(step.inputs) - set(committed))
    missing = [step for step in side.steps if step.identity in needed]
    return ToRun(
        committed=sum(step.identity in committed for step in side.steps),
        to_run=[step.identity for step in missing],
        training=training_sum(missing),
    )


REFERENCE = re.compile(r"(?P<name>.*)#(?P<short>[0-9a-f]{12})")
ARROW = "→ "  # begins a reference after its identity was removed
NOTHING = "(not there)"
LONGEST = 60  # characters of a value in a line


@dataclass(frozen=True)
class FieldChange:
    """A changed field. place: dotted. old, new: JSON-able; NOTHING if there is no value."""

    place: str
    old: Any
    new: Any

    def __str__(self) -> str:
        if self.old == NOTHING:
            return f"{self.place}: + {_in_a_line(self.new)}"
        if self.new == NOTHING:
            return f"{self.place}: − {_in_a_line(self.old)}"
        return f"{self.place}: {_in_a_line(self.old)} → {_in_a_line(self.new)}"


@dataclass(frozen=True)
class MixtureChange:
    """Shares by source name, before and after. A new mixture has no shares before; a removed mixture has none after."""

    place: str
    old: dict[str, float]
    new: dict[str, float]

    def rows(self) -> list[tuple[str, float, float]]:
        """Return (source, share before, after) of each changed source, the largest change first."""
        names = sorted(self.new.keys() | self.old.keys())
        rows = [(name, self.old.get(name, 0.0), self.new.get(name, 0.0)) for name in names]
        changed = [row for row in rows if row[1] != row[2]]
        return sorted(changed, key=lambda row: (-abs(row[2] - row[1]), -row[1]))


type Change = FieldChange | MixtureChange


def signature(change: Change) -> str:
    """Return a text that is equal for equal changes of one value in several steps, at any place."""
    name = change.place.removesuffix(".weights").rpartition(".")[2]
    return json.dumps([name, change.old, change.new], sort_keys=True)


def compare_fields(old: Mapping[str, Any], new: Mapping[str, Any], names: Mapping[str, str]) -> list[Change]:
    """Return the changes of a step's fields.

    names: the new name of each old step, by the first 12 digits of its identity. A reference is unchanged if it names
    the same step, even if that step has another identity now.
    """
    before = _without_identities(dict(old), lambda ref: names.get(ref["short"], ref["name"]))
    after = _without_identities(dict(new), lambda ref: ref["name"])
    every = sorted(before.keys() | after.keys())
    return [change for name in every for change in _changes(name, before.get(name, NOTHING), after.get(name, NOTHING))]


def _without_identities(value: Any, name_of: Callable[[re.Match[str]], str]) -> Any:
    if isinstance(value, str):
        reference = REFERENCE.fullmatch(value)
        return value if reference is None else ARROW + name_of(reference)
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return {_without_identities(key, name_of): _without_identities(item, name_of) for key, item in items}
    if isinstance(value, list):
        return [_without_identities(item, name_of) for item in cast(list[Any], value)]
    return value


def _changes(place: str, old: Any, new: Any) -> Iterator[Change]:
    if old == new:
        return
    if _is_mixture(old) and _is_mixture(new):
        yield MixtureChange(place, _shares(old), _shares(new))
    elif isinstance(old, dict) and isinstance(new, dict):
        yield from _of_dicts(place, cast(dict[str, Any], old), cast(dict[str, Any], new))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(place, cast(list[Any], old), cast(list[Any], new))
    else:  # a value took another shape; mixtures in it are still shown as mixtures
        gone = [MixtureChange(where, shares, {}) for where, shares in _mixtures(place, old)]
        added = [MixtureChange(where, {}, shares) for where, shares in _mixtures(place, new)]
        yield from gone or added or [FieldChange(place, old, new)]


def _of_dicts(place: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    gone, added = [key for key in old if key not in new], [key for key in new if key not in old]
    # In stages and schedules, the keys are first steps. An entry that begins at another step has moved.
    are_steps = len(gone) == len(added) and all(key.isdigit() for key in [*gone, *added])
    moved = dict(zip(gone, added, strict=True)) if are_steps else {}
    for key, value in old.items():
        after = moved.get(key, key)
        if after != key:
            yield FieldChange(f"{place} from step", int(key), int(after))
        yield from _changes(f"{place}.{after.removeprefix(ARROW)}", value, new.get(after, NOTHING))
    for key in added:
        if key not in moved.values():
            yield from _changes(f"{place}.{key.removeprefix(ARROW)}", NOTHING, new[key])


def _of_lists(place: str, old: list[Any], new: list[Any]) -> Iterator[Change]:
    if len(old) == len(new) and not all(isinstance(item, str) for item in [*old, *new]):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(f"{place}[{number}]", before, after)
        return
    gone, added = [item for item in old if item not in new], [item for item in new if item not in old]
    if len(gone) == len(added) == 1:
        yield FieldChange(place, gone[0], added[0])
    elif gone or added:
        yield from (FieldChange(place, item, NOTHING) for item in gone)
        yield from (FieldChange(place, NOTHING, item) for item in added)
    else:
        yield FieldChange(place, old, new)  # another order, or another count of equal items


def _is_mixture(value: Any) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    items = cast(dict[str, Any], value).items()
    return all(key.startswith(ARROW) and isinstance(share, int | float) for key, share in items)


def _shares(mixture: dict[str, float]) -> dict[str, float]:
    """Return shares by source name: the label if it is unique."""
    full = [key.removeprefix(ARROW) for key in mixture]
    labels = [name.split("/", 1)[-1] for name in full]
    return dict(zip(labels if len(set(labels)) == len(labels) else full, mixture.values(), strict=True))


def _mixtures(place: str, value: Any) -> Iterator[tuple[str, dict[str, float]]]:
    if _is_mixture(value):
        yield place, _shares(value)
    elif isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            yield from _mixtures(f"{place}.{key}", item)


def _in_a_line(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.replace(ARROW, "")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
