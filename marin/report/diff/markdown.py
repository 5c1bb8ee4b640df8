"""Write a difference for reviewers in Markdown: for a pull request, a pipe, and by rich for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from marin.report.diff.difference import (
    Difference,
    FieldChange,
    MixtureChange,
    StepChange,
    StepDifference,
    TrainingSum,
    compare_steps,
    goes_on_from,
    signature,
    to_run,
    trained_anew,
    training_sum,
)
from marin.report.words import escaped, grouped
from marin.store.numbers import counted, listed, write_chip_hours, write_count, write_flops, write_tokens

NAMES = 8  # steps in one line
ROWS = 10  # of one mixture
OWN = frozenset({"first_step", "end_step", "start", "watch", "version"})  # fields that any two trainings may differ in
SEVERAL = 4  # steps of one operator that are named one by one
WORDS = {
    StepChange.REUSED: "reused",
    StepChange.CHANGED: "changed",
    StepChange.FOLLOWS: "with changed inputs only",
    StepChange.NEW: "new",
    StepChange.GONE: "gone",
}
HOW = {  # what happened to a function, class or constant
    "added": "now used",
    "removed": "no longer used",
    "moved": "moved or renamed, the code is the same",
    "gained": "added with since(), at its default",
}


def report(
    title: str,
    difference: Difference,
    store: str = "",
    committed: Collection[str] = (),
    drifted: Collection[str] = (),
    *,
    every: bool = False,
) -> str:
    """Return the report. store: prefix, "" for none. committed, drifted: identities there. every: shorten nothing."""
    if difference.is_empty:
        parts = [[line(f"no difference: the same {len(difference.steps)} steps, fields and code")]]
    else:
        operators = _counted(each.step.op for each in difference.having(StepChange.FOLLOWS))
        follow = [line(operators)] if operators else []
        parts = [
            _summary(difference),
            _section("Changed", _changed(difference, every)),
            _section("New", _by_label(difference.having(StepChange.NEW), every)),
            _section("Gone", _by_label(difference.having(StepChange.GONE), every)),
            _section("New trainings, compared with the trainings that they continue", _gone_on(difference, every)),
            _section("Changed inputs only (a step runs only if the bytes of an input change)", follow),
            _section("Code", _code(difference, every)),
            _section("Not part of identity", _execution(difference, every)),
            _section("Training", _costs(difference)),
        ]
    return document(title, *parts, _section(f"On the store {store}", _store(difference, store, committed, drifted)))


def document(title: str, *parts: Iterable[str]) -> str:
    lines = [f"### {title}", "", *(text for part in parts for text in part)]
    kept = [text for number, text in enumerate(lines) if text or lines[number - 1]]  # one empty line at a time
    return "\n".join(kept).rstrip() + "\n"


def line(text: str, *, deep: bool = False) -> str:
    """Return a list item. deep: belongs to the line above it."""
    return f"{'  ' if deep else ''}- {escaped(text)}"


def _section(title: str, lines: Iterable[str]) -> list[str]:
    """Return a section; nothing without lines."""
    found = list(lines)
    return ["", f"#### {escaped(title)}", "", *found] if found else []


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table. The first column is text; the others are numbers, flush right."""
    yield ""
    for row in (columns, ["---", *("---:" for _ in columns[1:])], *rows):
        yield f"| {' | '.join(map(escaped, row))} |"
    yield ""


def _summary(difference: Difference) -> Iterator[str]:
    old, new = difference.old, difference.new
    counts = Counter(step.fate for step in difference.steps)
    tally = ", ".join(f"{counts[fate]} {WORDS[fate]}" for fate in StepChange if counts[fate])
    yield line(f"{len(old.steps)} → {len(new.steps)} steps: {tally}")
    same = [name for name in new.results if old.results.get(name) == new.results[name]]
    results = {
        "new results": [name for name in new.results if name not in old.results] if old.steps else [],
        "removed results": [name for name in old.results if name not in new.results] if new.steps else [],
        "unchanged results": same if len(same) < len(new.results) else [],
    }
    yield from (line(f"{what}: {', '.join(names)}") for what, names in results.items() if names)
    if old.steps and new.steps and old.issue != new.issue:
        yield line(f"issue: {old.issue} → {new.issue}")
    if old.steps and new.steps and old.question != new.question:
        yield line("the wording of the question changed")


def _changed(difference: Difference, every: bool) -> Iterator[str]:
    """Yield steps that changed alike together. A change that was shown for one step is only referred to later."""
    changed = sorted(difference.having(StepChange.CHANGED), key=lambda step: step.step.work is None)
    shown_of: dict[str, str] = {}
    for group in grouped((frozenset(map(signature, step.field_changes)), step) for step in changed).values():
        first = group[0]
        marks = [signature(change) for change in first.field_changes]
        before = list(dict.fromkeys(shown_of[mark] for mark in marks if mark in shown_of))
        fresh = [change for mark, change in zip(marks, first.field_changes, strict=True) if mark not in shown_of]
        also = f", {'and ' if fresh else ''}as {_names(before, every)}" if before else ""
        yield line(f"{_called(group, difference, every)}{also}")
        for change in fresh:
            yield from [line(str(change), deep=True)] if isinstance(change, FieldChange) else _mixture(change, every)
        for mark in marks:
            shown_of.setdefault(mark, first.name)


def _called(group: list[StepDifference], difference: Difference, every: bool) -> str:
    operators = {step.step.op for step in group}
    whole = [step for step in difference.new.steps if step.op in operators]
    if len(operators) == 1 and len(group) == len(whole) > SEVERAL and not every:
        return f"all {len(group)} {operators.pop()} steps"
    return _names([f"{step.name} (was {step.renamed})" if step.renamed else step.name for step in group], every)


def _mixture(change: MixtureChange, every: bool) -> Iterator[str]:
    place = change.place.removesuffix(".weights")
    before, found, rest = place.rpartition(".at.")
    place = f"from step {int(rest):,} ({before})" if found and rest.isdigit() else place
    fate = "" if change.old and change.new else " (new)" if change.new else " (gone)"
    yield line(f"mixture {place}{fate}", deep=True)
    rows = change.rows()
    shown = rows if every else rows[:ROWS]
    cells = [(name, _share(old), _share(new), _signed(100 * (new - old), ".2f")) for name, old, new in shown]
    yield from _table(("source", "before %", "after %", "points"), cells)
    if rest := rows[len(shown) :]:
        most = max(abs(after - before) for _, before, after in rest) * 100
        yield line(f"and {len(rest)} more sources, each by at most {most:.2f} points", deep=True)


def _share(share: float) -> str:
    return f"{share * 100:.2f}" if share else "–"


def _signed(change: float, form: str) -> str:
    return f"{change:+{form}}".replace("-", "−")


def _gone_on(difference: Difference, every: bool) -> Iterator[str]:
    """Yield how each new training differs from the one that it continues."""
    for new in [each.step for each in difference.having(StepChange.NEW)]:
        if new.work is None or (before := goes_on_from(difference.new, new)) is None:
            continue
        first, end = (new.fields.get(name) for name in ("first_step", "end_step"))
        steps = f", steps {first:,} to {end:,}" if isinstance(first, int) and isinstance(end, int) else ""
        yield line(f"{new.name} continues {before.name}{steps}")
        yield from list(apart(compare_steps(before, new, {}), every)) or [line("no change", deep=True)]


def apart(step: StepDifference, every: bool) -> Iterator[str]:
    """Yield the fields in which a training differs from another, without first and last step; then the machines.

    A stage that the other training does not have is compared with the stage before.
    """
    shares: dict[str, float] = {}  # of the stage before
    for change in step.field_changes:
        if isinstance(change, MixtureChange):
            follows = shares and not change.old and change.new
            yield from _mixture(MixtureChange(change.place, shares, change.new) if follows else change, every)
            shares = change.new or shares
        elif change.place.partition(".")[0] not in OWN:
            yield line(str(change), deep=True)
    for change in step.execution_changes:
        if change.place.startswith("resources") and isinstance(change, FieldChange):
            yield line(str(change), deep=True)


def _by_label(differences: list[StepDifference], every: bool) -> Iterator[str]:
    """Yield "megamath/qa, megamath/web: download, filter, tokenize", because sources pass the same stages."""
    operators = grouped((each.step.label or each.name, each.step.op) for each in differences)
    for (first, *more), names in grouped((tuple(stages), label) for label, stages in operators.items()).items():
        if more:
            yield line(f"{_names(names, every)}: {', '.join([first, *more])}")
        else:
            yield line(_names([f"{first}/{name.removeprefix(f'{first}/')}" for name in names], every))


def _code(difference: Difference, every: bool) -> Iterator[str]:
    drifting = {step.identity for change in difference.code for step in change.drifts}
    alike = grouped(((each.how, frozenset(step.identity for step in each.builds)), each) for each in difference.code)
    for changes in alike.values():
        change = changes[0]
        kept = "all" if len(change.drifts) == len(change.builds) else f"{len(change.drifts)} of them"
        drifts = f", {kept} with the same identity" if change.drifts else ""
        units = _names([each.unit for each in changes], every)
        used = _counted(step.op for step in change.builds)
        yield line(f"{units} {HOW.get(change.how, change.how)}: used by {used}{drifts}")
    if drifting:
        yield line(
            f"{len(drifting)} steps keep their identity although their code changed; if their outputs are committed, a "
            "run stops until you raise a version, rebuild them, or accept the drift"
        )


def _execution(difference: Difference, every: bool) -> Iterator[str]:
    """Yield changes of machines and speed, which leave outputs as they are."""
    changes = ((str(change), step.name) for step in difference.steps for change in step.execution_changes)
    for change, names in grouped(changes).items():
        yield line(f"{_names(names, every)}: {change}")
    if renamed := [f"{step.renamed} → {step.name}" for step in difference.having(StepChange.REUSED) if step.renamed]:
        yield line(f"renamed: {_names(renamed, every)}")


def _costs(difference: Difference) -> Iterator[str]:
    before, after = training_sum(difference.old.steps), training_sum(difference.new.steps)
    if not before.runs and not after.runs:
        return
    if before == after:
        yield line(f"{counted(after.runs, 'training run')}, {write_tokens(after.tokens)}{_hours(after)}: as before")
    else:
        rows = [
            ("training runs", f"{before.runs}", f"{after.runs}", _more(before.runs, after.runs)),
            ("steps", f"{before.steps:,}", f"{after.steps:,}", _more(before.steps, after.steps)),
            ("tokens", write_count(before.tokens), write_count(after.tokens), _by(before.tokens, after.tokens)),
            (
                "FLOPs",
                *(write_flops(each.flops).split()[0] for each in (before, after)),
                _by(before.flops, after.flops),
            ),
        ]
        hours = before.chip_hours, after.chip_hours
        yield from _table(
            ("", "before", "after", "change"),
            [*rows, *([("chip-hours", *(f"{each:,.0f}" for each in hours), _more(*hours))] if any(hours) else [])],
        )
    if difference.old.steps and (anew := trained_anew(difference)):
        yield line(f"new trainings: {_names([step.name for step in anew], False)}{_hours(training_sum(anew))}")


def _hours(cost: TrainingSum) -> str:
    return f" — {write_chip_hours(cost.chip_hours)}" if cost.chip_hours else ""


def _more(before: float, after: float) -> str:
    return _signed(after - before, ",.0f") if after != before else ""


def _by(before: float, after: float) -> str:
    return "" if before == after else _signed((after - before) / before, ".1%") if before else "new"


def _store(difference: Difference, store: str, committed: Collection[str], drifted: Collection[str]) -> Iterator[str]:
    for name, side in (("before", difference.old), ("after", difference.new)) if store else ():
        if side.steps:
            left = to_run(side, committed)
            runs = left.training.runs
            trained = f", {counted(runs, 'training run')}{_hours(left.training)}" if runs else ""
            there = f"{left.committed} of {len(side.steps)} steps committed"
            yield line(f"{name}: {there}, {len(left.to_run)} to run{trained}")
    if store and drifted:
        yield line(f"{len(drifted)} committed outputs were built by the earlier code and have drifted")


def _counted(operators: Iterable[str]) -> str:
    """Return "filter × 25, train × 2"."""
    return ", ".join(op if count == 1 else f"{op} × {count}" for op, count in Counter(operators).items())


def _names(names: Sequence[str], every: bool) -> str:
    return listed(names, len(names) if every or len(names) <= NAMES else NAMES - 1)
