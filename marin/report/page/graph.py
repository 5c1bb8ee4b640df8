"""The graph of an experiment: boxes joined by lines, and a table of sources by operator for boxes of several steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple

from marin.executor.run_results import Status
from marin.report.page.model import StepRow
from marin.report.words import grouped
from marin.store.numbers import listed

FEW = 4  # steps; an operator with at most so many has a box for each
MOST_BOXES, MOST_ROWS = 60, 40
LONG, OF_ALL, OF_COLUMN = 1.0, 1 / 8, 4  # seconds, share of all time, multiple of the median; above: dark
USUAL = 0.8  # share of the rows that pass a column; if so many have a cell there, a missing one is marked
ORDER = (Status.FAILED, Status.STOPPED, Status.RUNNING, Status.RAN, Status.ALIAS, Status.CACHED, Status.SKIPPED)


class Cell(NamedTuple):
    """Steps of one operator in one row. Without steps, the cell marks a gap where such rows usually have steps."""

    steps: Sequence[int]
    status: Status = Status.SKIPPED
    seconds: float = 0.0
    is_long: bool = False


type Row = tuple[str, Sequence[Cell | None]]  # a name, and a cell a column


@dataclass(frozen=True)
class Picture:
    boxes: dict[str, Any]  # for the script of pages
    columns: Sequence[str]
    groups: Sequence[tuple[str, Sequence[Row]]]  # the steps that read the rows, and the rows
    sources: int


def worst(steps: Sequence[StepRow]) -> Status:
    """Return the status that somebody should look at first."""
    return min((step.status for step in steps), key=ORDER.index)


def draw(steps: Sequence[StepRow]) -> Picture:
    """Draw every step in one box; steps that share a box are also in the table. steps: each after its inputs."""
    number = {step.name: at for at, step in enumerate(steps)}
    inputs = [[n for name in step.inputs if (n := number.get(name, at)) < at] for at, step in enumerate(steps)]
    boxes = _boxes(steps, inputs)
    titles = [
        (_operators(steps, box), steps[box[0]].label if len(box) == 1 else f"{len(box):,} steps") for box in boxes
    ]
    box_of = {at: index for index, box in enumerate(boxes) for at in box}
    edges = {(box_of[read], box_of[at]) for at, found in enumerate(inputs) for read in found}
    taken = [_seconds(steps, box) for box in boxes]
    least = max(LONG, sum(taken) * OF_ALL)
    drawn = [
        [*title, box[0], worst([steps[at] for at in box]).value, seconds, int(seconds > least)]
        for box, title, seconds in zip(boxes, titles, taken, strict=True)
    ]
    columns, rows_by_reader, sources = _table(steps, inputs, boxes, box_of)
    readers = [f"{name} of {op}" if name.endswith(" steps") else f"{op}/{name}" for op, name in titles]
    groups = [(listed([readers[box] for box in found], 4), rows) for found, rows in rows_by_reader]
    return Picture({"boxes": drawn, "edges": _reduced(edges)}, columns, groups, sources)


def _operators(steps: Sequence[StepRow], box: Sequence[int]) -> str:
    return listed(sorted({steps[at].op for at in box}), 2)


def _seconds(steps: Sequence[StepRow], of: Sequence[int]) -> float:
    return sum(steps[at].seconds or 0.0 for at in of)


def _folded[T](items: Sequence[T], keys: Sequence[Callable[[T], Hashable]], most: int) -> list[list[T]]:
    """Group items by the first key that leaves at most ``most`` groups, or else by the last key."""
    groups = (grouped((key(item), item) for item in items) for key in keys[:-1])
    last = keys[-1]
    found = next((each for each in groups if len(each) <= most), None) or grouped((last(item), item) for item in items)
    return list(found.values())


def _boxes(steps: Sequence[StepRow], inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the steps of each box.

    Steps of one operator share a box if the same number of that operator's steps comes before each one. An operator
    with few steps has a box for each step.
    """
    number = Counter(step.op for step in steps)
    after: list[dict[str, int]] = []  # by operator, how many of its steps lie on the way to this step
    for step, read in zip(steps, inputs, strict=True):
        found: dict[str, int] = {}
        for at in read:
            found |= {op: count for op, count in after[at].items() if count > found.get(op, 0)}
        after.append(found | ({step.op: found.get(step.op, 0) + 1} if number[step.op] > 1 else {}))
    level = [(step.op, found.get(step.op, 1)) for step, found in zip(steps, after, strict=True)]
    size, largest = Counter(level), {op for op, _ in number.most_common(MOST_BOXES - 1)}
    keys: list[Callable[[int], Hashable]] = [
        lambda at: level[at] if size[level[at]] > (FEW if inputs[at] else 1) else at,
        lambda at: level[at],
        lambda at: steps[at].op if steps[at].op in largest else None,
    ]
    return _folded(range(len(steps)), keys, MOST_BOXES)


def _reduced(edges: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the edges without those that a longer path implies."""
    after: dict[int, set[int]] = defaultdict(set)
    for start, end in edges:
        after[start] |= {end} - {start}
    for start, end in sorted(edges):
        reached, pending = set[int](), list(after[start] - {end})
        while pending and end not in reached:
            if (at := pending.pop()) not in reached:
                reached.add(at)
                pending += after[at]
        after[start] -= {end} & reached
    return sorted((start, end) for start, ends in after.items() for end in ends)


def _table(
    steps: Sequence[StepRow], inputs: Sequence[Sequence[int]], boxes: Sequence[list[int]], of: dict[int, int]
) -> tuple[list[str], list[tuple[tuple[int, ...], list[Row]]], int]:
    """Return (columns, rows by the boxes that read them, number of labels).

    A column is a box of several steps; boxes that begin the graph share one column. Rows are labels.
    """
    depth: list[int] = []
    for read in inputs:
        depth.append(1 + max((depth[at] for at in read), default=0))
    many = sorted((box for box in boxes if len(box) > 1), key=lambda box: fmean(depth[at] for at in box))
    roots = [box for box in many if all(depth[at] == 1 for at in box)]
    columns = [roots] * (len(roots) > 1) + [[box] for box in many if len(roots) < 2 or box not in roots]
    names = ["source" if len(held) > 1 else _operators(steps, held[0]) for held in columns]
    places = ((steps[at].label, (column, at)) for column, held in enumerate(columns) for box in held for at in box)
    rows = {label: grouped(found) for label, found in grouped(places).items()}  # by label, steps by column
    readers: dict[str, set[int]] = defaultdict(set)  # boxes
    for at, read in enumerate(inputs):
        for label in {steps[each].label for each in read} - {steps[at].label}:
            readers[label].add(of[at])

    def read_by(label: str) -> tuple[int, ...]:
        return tuple(sorted(readers[label]))

    def look(label: str) -> Hashable:
        return read_by(label), tuple((at, worst([steps[n] for n in found])) for at, found in rows[label].items())

    passed = Counter(at for row in rows.values() for at in range(min(row), max(row) + 1))
    held = Counter(at for row in rows.values() for at in row)
    usual = [median(_seconds(steps, row[at]) for row in rows.values() if at in row) for at in range(len(names))]
    found: list[tuple[tuple[int, ...], Row]] = []
    for labels in _folded(list(rows), [str, look, read_by, lambda _: None], MOST_ROWS):
        cells = grouped((at, n) for label in labels for at, members in rows[label].items() for n in members)
        drawn: list[Cell | None] = []
        for at, median_seconds in enumerate(usual):
            if at in cells:
                seconds = _seconds(steps, cells[at])
                is_long = seconds > max(LONG, OF_COLUMN * median_seconds * len(labels))
                drawn.append(Cell(cells[at], worst([steps[n] for n in cells[at]]), seconds, is_long))
            else:
                is_gap = min(cells) < at < max(cells) and held[at] >= USUAL * passed[at]
                drawn.append(Cell(()) if is_gap else None)
        name = labels[0] if len(labels) == 1 else f"{len(labels):,} × {labels[0]} …"
        found.append((read_by(labels[0]), (name, drawn)))
    return names, sorted(grouped(found).items()), len(rows)
