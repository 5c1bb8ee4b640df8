"""A difference as a reviewer reads it: blocks that become a terminal's text or a pull request's Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from marin.report.diff.cost import TrainingSum, to_run, trained_anew, training_sum
from marin.report.diff.difference import (
    CodeChange,
    Difference,
    StepChange,
    StepDifference,
    between,
    goes_on_from,
)
from marin.report.diff.experiments import Step
from marin.report.diff.field_changes import FieldChange, MixtureChange, signature
from marin.store.numbers import counted, listed, write_chip_hours, write_count, write_flops, write_tokens

NAMES = 8  # of steps in one line
ROWS = 10  # of one mixture
OWN = frozenset({"first_step", "end_step", "start", "watch"})  # of a training: where it begins and ends
SEVERAL = 4  # steps of one operator that are named each
HOW = {  # what happened to a function, class or constant
    "added": "now used",
    "removed": "no longer used",
    "moved": "moved, the code is the same",
    "gained": "added with since(), at its default",
}


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Line:
    """deep: belongs to the line above it."""

    text: str
    deep: bool = False


@dataclass(frozen=True)
class Grid:
    """The first column is text, the others are numbers, flush right."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


type Block = Heading | Line | Grid


def report(
    difference: Difference, store: str = "", committed: Collection[str] = (), *, every: bool = False
) -> list[Block]:
    """store: its prefix, "" for none. every: nothing is shortened."""
    if difference.is_empty:
        same = len(difference.steps)
        return [Line(f"nothing differs: the same {same} steps, fields and code"), *_store(difference, store, committed)]
    return [
        Line(_summary(difference)),
        *_results(difference),
        *_changed(difference, every),
        *_new_and_gone(difference, every),
        *_gone_on(difference, every),
        *_follows(difference),
        *_code(difference, every),
        *_execution(difference, every),
        *_costs(difference),
        *_store(difference, store, committed),
    ]


def _summary(difference: Difference) -> str:
    counts = {fate: len(difference.having(fate)) for fate in StepChange}
    words = {
        StepChange.REUSED: "reused as they are",
        StepChange.CHANGED: "changed",
        StepChange.FOLLOWS: "only follow what they read",
        StepChange.NEW: "new",
        StepChange.GONE: "gone",
    }
    tally = ", ".join(f"{count} {words[fate]}" for fate, count in counts.items() if count)
    return f"{len(difference.old.steps)} → {len(difference.new.steps)} steps: {tally}"


def _results(difference: Difference) -> list[Block]:
    old, new = difference.old, difference.new
    gone = [name for name in old.results if name not in new.results]
    added = [name for name in new.results if name not in old.results]
    blocks: list[Block] = []
    if added and old.steps:
        blocks.append(Line(f"new results: {', '.join(added)}"))
    if gone and new.steps:
        blocks.append(Line(f"results gone: {', '.join(gone)}"))
    same = [name for name in new.results if old.results.get(name) == new.results[name]]
    if same and len(same) < len(new.results):
        blocks.append(Line(f"results untouched: {', '.join(same)}"))
    if old.steps and new.steps and old.issue != new.issue:
        blocks.append(Line(f"issue: {old.issue} → {new.issue}"))
    if old.steps and new.steps and old.question != new.question:
        blocks.append(Line("the question is worded otherwise"))
    return blocks


def _changed(difference: Difference, every: bool) -> list[Block]:
    """Steps that changed alike together; what is shown of one is not shown of its readers again."""
    changed = sorted(difference.having(StepChange.CHANGED), key=lambda step: step.new is None or step.new.work is None)
    groups: dict[frozenset[str], list[StepDifference]] = {}
    for step in changed:
        groups.setdefault(frozenset(_signatures(step)), []).append(step)
    blocks: list[Block] = [Heading("Changed")] if groups else []
    shown_of: dict[str, str] = {}
    for group in groups.values():
        first = group[0]
        before = list(dict.fromkeys(shown_of[mark] for mark in _signatures(first) if mark in shown_of))
        fresh = [change for change in first.field_changes if signature(change) not in shown_of]
        also = f", {'and ' if fresh else ''}as {_names(before, every)}" if before else ""
        blocks.append(Line(f"{_called(group, difference, every)}{also}"))
        for change in fresh:
            blocks += [Line(str(change), deep=True)] if isinstance(change, FieldChange) else _mixture(change, every)
        for mark in _signatures(first):
            shown_of.setdefault(mark, first.name)
    return blocks


def _called(group: list[StepDifference], difference: Difference, every: bool) -> str:
    operators = {step.new.op for step in group if step.new is not None}
    whole = [step for step in difference.new.steps if step.op in operators]
    if len(operators) == 1 and len(group) == len(whole) > SEVERAL and not every:
        return f"all {len(group)} {operators.pop()} steps"
    return _names([f"{step.name} (was {step.renamed})" if step.renamed else step.name for step in group], every)


def _signatures(step: StepDifference) -> list[str]:
    return [signature(change) for change in step.field_changes]


def _mixture(change: MixtureChange, every: bool) -> list[Block]:
    where = f"mixture {_stage(change.place)}"
    if not change.old or not change.new:
        where += " (new)" if change.new else " (gone)"
    rows = change.rows()
    shown = rows if every else rows[:ROWS]
    table = [(name, _share(before), _share(after), _points(after - before)) for name, before, after in shown]
    blocks: list[Block] = [Line(where, deep=True), Grid(("source", "before %", "after %", "points"), table)]
    rest = rows[len(shown) :]
    if rest:
        most = max(abs(after - before) for _, before, after in rest) * 100
        blocks.append(Line(f"and {len(rest)} more sources, each by at most {most:.2f} points", deep=True))
    return blocks


def _stage(place: str) -> str:
    before, found, rest = place.removesuffix(".weights").rpartition(".at.")
    return f"from step {int(rest):,} ({before})" if found and rest.isdigit() else place.removesuffix(".weights")


def _share(share: float) -> str:
    return f"{share * 100:.2f}" if share else "–"


def _points(change: float) -> str:
    return f"{change * 100:+.2f}".replace("-", "−")


def _new_and_gone(difference: Difference, every: bool) -> list[Block]:
    blocks: list[Block] = []
    for fate, title in ((StepChange.NEW, "New"), (StepChange.GONE, "Gone")):
        steps = [step.new or step.old for step in difference.having(fate)]
        lines = _by_label([step for step in steps if step is not None], every)
        if lines:
            blocks += [Heading(title), *(Line(line) for line in lines)]
    return blocks


def _gone_on(difference: Difference, every: bool) -> list[Block]:
    """Of each new training, what it does otherwise than the one that it goes on from."""
    blocks: list[Block] = []
    for step in difference.having(StepChange.NEW):
        if step.new is None or step.new.work is None:
            continue
        if (before := goes_on_from(difference.new, step.new)) is not None:
            blocks.append(Line(f"{step.name} goes on from {before.name}{_steps(step.new)}"))
            blocks += apart(between(difference.new, before, step.new), every) or [Line("as it was", deep=True)]
    return [Heading("New trainings, against what they go on from"), *blocks] if blocks else []


def _steps(step: Step) -> str:
    first, end = (step.fields.get(name) for name in ("first_step", "end_step"))
    return f", steps {first:,} to {end:,}" if isinstance(first, int) and isinstance(end, int) else ""


def apart(step: StepDifference, every: bool) -> list[Block]:
    """The fields of a training that differ from another's, but for where it begins and ends; then machines.

    A stage that the other does not have is set against the one before it.
    """
    blocks: list[Block] = []
    shares: dict[str, float] = {}  # of the stage before
    for change in step.field_changes:
        if isinstance(change, MixtureChange):
            follows = shares and not change.old and change.new
            blocks += _mixture(MixtureChange(change.place, shares, change.new) if follows else change, every)
            shares = change.new or shares
        elif change.place.partition(".")[0] not in OWN:
            blocks.append(Line(str(change), deep=True))
    for change in step.execution_changes:
        if change.place.startswith("resources") and isinstance(change, FieldChange):
            blocks.append(Line(str(change), deep=True))
    return blocks


def _by_label(steps: list[Step], every: bool) -> list[str]:
    """ "megamath/qa, megamath/web: download, filter, tokenize": sources pass the same stages."""
    operators: dict[str, list[str]] = {}
    for step in steps:
        operators.setdefault(step.label or step.name, []).append(step.op)
    labels: dict[tuple[str, ...], list[str]] = {}
    for label, stages in operators.items():
        labels.setdefault(tuple(stages), []).append(label)
    lines: list[str] = []
    for stages, names in labels.items():
        if len(stages) == 1:
            full = [
                name if "/" in name and name.startswith(f"{stages[0]}/") else f"{stages[0]}/{name}" for name in names
            ]
            lines.append(_names(full, every))
        else:
            lines.append(f"{_names(names, every)}: {', '.join(stages)}")
    return lines


def _follows(difference: Difference) -> list[Block]:
    steps = difference.having(StepChange.FOLLOWS)
    if not steps:
        return []
    return [
        Heading("Only follow what they read (and run only if those bytes change)"),
        Line(_counted(step.new.op for step in steps if step.new is not None)),
    ]


def _code(difference: Difference, every: bool) -> list[Block]:
    if not difference.code:
        return []
    drifting = {step.identity for change in difference.code for step in change.drifts}
    blocks: list[Block] = [Heading("Code")]
    alike: dict[tuple[str, frozenset[str]], list[CodeChange]] = {}
    for change in difference.code:
        alike.setdefault((change.how, frozenset(step.identity for step in change.builds)), []).append(change)
    for changes in alike.values():
        change = changes[0]
        kept = "all" if len(change.drifts) == len(change.builds) else f"{len(change.drifts)} of them"
        drifts = f", {kept} at the same identity" if change.drifts else ""
        units = _names([each.unit for each in changes], every)
        used = _counted(step.op for step in change.builds)
        blocks.append(Line(f"{units} {HOW.get(change.how, change.how)}: used by {used}{drifts}"))
    if drifting:
        blocks.append(
            Line(
                f"{len(drifting)} steps keep their identity but are built by other code: where they are committed, a "
                "run stops until a version is raised, they are rebuilt, or the drift is accepted"
            )
        )
    return blocks


def _execution(difference: Difference, every: bool) -> list[Block]:
    """Where and how fast; what is made stays the same."""
    alike: dict[str, list[str]] = {}
    for step in difference.steps:
        for change in step.execution_changes:
            alike.setdefault(str(change), []).append(step.name)
    renamed = [f"{step.renamed} → {step.name}" for step in difference.having(StepChange.REUSED) if step.renamed]
    lines = [f"{_names(names, every)}: {change}" for change, names in alike.items()]
    lines += [f"renamed: {_names(renamed, every)}"] if renamed else []
    return [Heading("Not part of identity"), *(Line(line) for line in lines)] if lines else []


def _costs(difference: Difference) -> list[Block]:
    before, after = training_sum(difference.old.steps), training_sum(difference.new.steps)
    if not before.runs and not after.runs:
        return []
    if before == after:
        same = f"{counted(after.runs, 'training run')}, {write_tokens(after.tokens)}{_hours(after)}: as before"
        return [Heading("Training"), Line(same), *_anew(difference)]
    rows = [
        ("training runs", f"{before.runs}", f"{after.runs}", _plus(after.runs - before.runs)),
        ("steps", f"{before.steps:,}", f"{after.steps:,}", _plus(after.steps - before.steps)),
        ("tokens", write_count(before.tokens), write_count(after.tokens), _share_of(before.tokens, after.tokens)),
        (
            "FLOPs",
            *(write_flops(cost.flops).split()[0] for cost in (before, after)),
            _share_of(before.flops, after.flops),
        ),
    ]
    if before.chip_hours or after.chip_hours:
        change = _plus(after.chip_hours - before.chip_hours)
        rows.append(("chip-hours", f"{before.chip_hours:,.0f}", f"{after.chip_hours:,.0f}", change))
    return [Heading("Training"), Grid(("", "before", "after", "change"), rows), *_anew(difference)]


def _anew(difference: Difference) -> list[Block]:
    anew = trained_anew(difference)
    if not anew or not difference.old.steps:
        return []
    return [Line(f"trained anew: {_names([step.name for step in anew], False)}{_hours(training_sum(anew))}")]


def _hours(cost: TrainingSum) -> str:
    return f" — {write_chip_hours(cost.chip_hours)}" if cost.chip_hours else ""


def _plus(change: float) -> str:
    return f"{change:+,.0f}".replace("-", "−") if change else ""


def _share_of(before: float, after: float) -> str:
    if before == after:
        return ""
    return f"{(after - before) / before:+.1%}".replace("-", "−") if before else "new"


def _store(difference: Difference, store: str, committed: Collection[str]) -> list[Block]:
    if not store:
        return []
    blocks: list[Block] = [Heading(f"On the store {store}")]
    for name, side in (("before", difference.old), ("after", difference.new)):
        if not side.steps:
            continue
        left = to_run(side, committed)
        training = left.training
        runs = f", {counted(training.runs, 'training run')}{_hours(training)}" if training.runs else ""
        blocks.append(
            Line(
                f"{name}: {len(left.committed)} of {len(side.steps)} steps committed, {len(left.missing)} to run{runs}"
            )
        )
    drifting = {step.identity for change in difference.code for step in change.drifts} & set(committed)
    if drifting:
        blocks.append(Line(f"{len(drifting)} committed outputs were built by the code of before: they drift"))
    return blocks


def _counted(operators: Iterable[str]) -> str:
    """ "filter × 25, train × 2" """
    return ", ".join(op if count == 1 else f"{op} × {count}" for op, count in Counter(operators).items())


def _names(names: Sequence[str], every: bool) -> str:
    return listed(names, len(names) if every or len(names) <= NAMES else NAMES - 1)
