"""The graph of an experiment as two inline SVG pictures: a grid of sources, and the trunk they flow into."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from marin.report.page import layers
from marin.report.page.lanes import Box, Folded, Lane, fold, fold_by_operator
from marin.report.page.model import Status, StepRow
from marin.store.numbers import write_duration

# All lengths in CSS pixels.
ROW, CELL_HEIGHT, CELL, WIDE_CELL, CELL_GAP, DOT = 19, 15, 64, 116, 8, 23
NAME_WIDTH, SLANT = 182, 0.7  # SLANT: of the column names, in radians
BOX_WIDEST, BOX_NARROWEST, BOX_HEIGHT, BOX_GAP, BOX_PITCH = 134, 112, 36, 26, 44
PAGE, PART_GAP = 1120, 26  # width of the page's text; space between unconnected parts
LETTER = 0.56  # mean advance of a sans-serif letter, in font sizes, on the generous side
MARKS = {Status.FAILED: "✕ failed", Status.STOPPED: "stopped", Status.ALIAS: "= alias", Status.RUNNING: "running"}
ORDER = (Status.FAILED, Status.STOPPED, Status.RUNNING, Status.RAN, Status.ALIAS, Status.CACHED, Status.SKIPPED)


@dataclass(frozen=True)
class Picture:
    """Inline SVGs, "" where there is nothing to draw. sources: rows of the grid, bundles counted in full."""

    grid: str
    trunk: str
    sources: int
    by_operator: bool  # one box for all steps of an operator
    with_lines: bool  # between boxes


def anchors(steps: Sequence[StepRow]) -> dict[str, str]:
    """The id of each step's row on the page: safe whatever the step is called."""
    return {step.name: f"s{index}" for index, step in enumerate(steps)}


def draw(steps: Sequence[StepRow], most: int = 1_000_000) -> Picture:
    """Pictures of the graph. Every step is in exactly one of them, by itself or in a counted bundle.

    most: bytes; what would take more is drawn by operator, then without lines.
    """
    for folded in (fold, fold_by_operator):
        picture = _picture(folded(steps), steps)
        if len(picture.grid) + len(picture.trunk) <= most:
            return picture
    return _picture(fold_by_operator(steps, with_edges=False), steps)


def _picture(folded: Folded, steps: Sequence[StepRow]) -> Picture:
    pen = _Pen(steps, with_inputs=folded.with_edges)
    return Picture(
        grid=_grid(folded, pen) if folded.lanes else "",
        trunk=_trunk(folded, pen) if folded.boxes else "",
        sources=sum(lane.sources for lane in folded.lanes),
        by_operator=folded.by_operator,
        with_lines=folded.with_edges,
    )


class _Pen:
    """Draws steps so that a hover tells what they are and a click goes to their row."""

    def __init__(self, steps: Sequence[StepRow], *, with_inputs: bool) -> None:
        self.with_inputs = with_inputs
        self.anchor = anchors(steps)
        self.number = {step.name: index for index, step in enumerate(steps)}

    def link(self, steps: Sequence[StepRow], inner: str, hint: str = "") -> str:
        """SVG that stands for these steps. data-*: numbers of the steps and of their inputs, for highlighting."""
        read = (name for step in steps for name in step.inputs) if self.with_inputs else ()
        inputs = sorted({self.number[name] for name in read if name in self.number})
        return (
            f'<a href="#{self.anchor[steps[0].name]}" class="node" '
            f'data-steps="{" ".join(str(self.number[step.name]) for step in steps)}" '
            f'data-inputs="{" ".join(map(str, inputs))}">'
            f"<title>{escape(hint or _hint(steps))}</title>{inner}</a>"
        )


def _hint(steps: Sequence[StepRow]) -> str:
    if len(steps) == 1:
        (step,) = steps
        lines = [
            step.name,
            step.status.value + ("" if step.seconds is None else f" · {write_duration(step.seconds)}"),
            step.reason,
        ]
        return "\n".join(filter(None, [*lines, step.error]))
    counts = Counter(step.status for step in steps)
    tally = ", ".join(f"{counts[status]} {status.value}" for status in ORDER if counts[status])
    names = [step.name for step in steps]
    shown = names[:12] + ([f"… and {len(names) - 12} more"] if len(names) > 12 else [])
    return "\n".join([f"{len(steps)} steps: {tally}", *shown])


def worst(steps: Sequence[StepRow]) -> Status:
    """The status that somebody should look at first."""
    return min((step.status for step in steps), key=ORDER.index)


def _shorten(text: str, pixels: float, size: float) -> str:
    letters = int(pixels / (LETTER * size))
    return text if len(text) <= letters else text[: max(letters - 1, 1)] + "…"


def _text(x: float, y: float, text: str, kind: str = "", more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{f' class="{kind}"' if kind else ""}{more}>{escape(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, kind: str, radius: float = 2) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" class="{kind}"/>'


def _svg(width: float, height: float, kind: str, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="graph {kind}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img" aria-label="{escape(title)}">' + "".join(parts) + "</svg>"
    )


def _shares(steps: Sequence[StepRow], x: float, y: float, width: float, height: float) -> str:
    """A bar split by status, for a bundle."""
    counts = Counter(step.status for step in steps)
    parts: list[str] = []
    for status in ORDER:
        if counts[status]:
            part = width * counts[status] / len(steps)
            parts.append(_rect(x, y, part, height, f"s-{status.value}", 0))
            x += part
    return "".join(parts)


def _cell(steps: Sequence[StepRow], x: float, width: float, y: float, named: bool, pen: _Pen) -> str:
    """One operator of one lane: its status as fill, its time or mark as text."""
    status = worst(steps)
    taken = sum(step.seconds or 0 for step in steps if step.status is Status.RAN)
    if len({step.status for step in steps}) > 1:
        counts = Counter(step.status for step in steps)
        text = f"{counts[status]}/{len(steps)} {status.value}"
        body = _rect(x, y, width, CELL_HEIGHT, "mixed") + _shares(steps, x, y + CELL_HEIGHT - 4, width, 4)
        body += _text(x + width / 2, y + 9, text, f"in small w-{status.value}")
        return pen.link(steps, body)
    text = write_duration(taken) if status is Status.RAN else MARKS.get(status, "")
    body = _rect(x, y, width, CELL_HEIGHT, f"s-{status.value}")
    if named:
        operator = _shorten(steps[0].op, width - 14 - 5.6 * len(text), 9.5)
        body += _text(x + 5, y + 11, operator, f"what t-{status.value}")
        body += _text(x + width - 5, y + 11, text, f"end t-{status.value}")
    elif text:
        body += _text(x + width / 2, y + 11, text, f"in t-{status.value}")
    return pen.link(steps, body)


def _grid(folded: Folded, pen: _Pen) -> str:
    """Rows are sources, columns operators; dots show which later steps read the row's result."""
    columns: dict[str, tuple[float, float]] = {}
    dots = float(NAME_WIDTH)
    heads: list[tuple[str, float, float]] = []
    roots = {next(iter(lane.cells)) for lane in folded.lanes}
    for operators in folded.columns:
        if len(operators) == 1:
            head = operators[0]
        else:
            head = "source" if roots.issuperset(operators) else " / ".join(operators)
        wide = CELL if len(operators) == 1 else WIDE_CELL
        wide = max(wide, min(round(12 * 0.66 * len(head)), WIDE_CELL))
        heads.append((head, dots, wide))
        columns |= dict.fromkeys(operators, (dots, wide))
        dots += wide + CELL_GAP
    shared = {operator for operators in folded.columns if len(operators) > 1 for operator in operators}
    dots += 14
    longest = LETTER * 10.5 * max((min(len(label), 30) for label, _ in folded.gathers), default=0)
    top = max(44.0, 18 + longest * math.sin(SLANT))
    width = dots + len(folded.gathers) * DOT + max(8, longest * math.cos(SLANT))
    height = top + len(folded.lanes) * ROW + 6
    parts: list[str] = []
    for (name, x, cell), beside in zip(heads, folded.beside, strict=True):
        title = f"<title>{escape(name)}</title>"
        parts.append(f"<g>{title}{_text(x, top - 20, _shorten(name, cell * 1.06, 12.5), 'head')}</g>")
        if beside:
            others = f"with {beside[0]}" if len(beside) == 1 else f"with {len(beside)} shared inputs"
            note = _text(x, top - 8, _shorten(others, cell, 9), "note")
            parts.append(f"<g><title>{escape(', '.join(beside))}</title>{note}</g>")
    bottom = top + len(folded.lanes) * ROW
    for index, (label, names) in enumerate(folded.gathers):
        x = dots + index * DOT + DOT / 2
        parts.append(f'<line x1="{x:g}" y1="{top - 6:g}" x2="{x:g}" y2="{bottom - 4:g}" class="rule"/>')
        turned = f' transform="rotate({-math.degrees(SLANT):.0f} {x:g} {top - 10:g})"'
        title = f"<title>{escape(', '.join(names))}</title>"
        parts.append(
            f"<g>{title}{_text(x, top - 10, label if len(label) <= 30 else label[:29] + '…', 'gather', turned)}</g>"
        )
    rows = {lane.number: top + index * ROW + CELL_HEIGHT / 2 for index, lane in enumerate(folded.lanes)}
    starts = {lane.number: columns[next(iter(lane.cells))][0] for lane in folded.lanes}
    for number, lane in enumerate(folded.lanes):
        y = top + number * ROW
        before = folded.lanes[number - 1].feeds if number else lane.feeds
        if lane.feeds != before and lane.into is None and folded.lanes[number - 1].into is None:
            parts.append(f'<line x1="0" y1="{y - 2:g}" x2="{width:g}" y2="{y - 2:g}" class="rule"/>')
        joins = None if lane.into is None else (starts[lane.into], rows[lane.into])
        parts.append(_lane(lane, y, columns, shared, dots, joins, pen))
    return _svg(width, height, "grid", "Sources by operator, and what reads them", parts)


def _lane(
    lane: Lane,
    y: float,
    columns: dict[str, tuple[float, float]],
    named: set[str],
    dots: float,
    joins: tuple[float, float] | None,
    pen: _Pen,
) -> str:
    """One row. named: operators whose cells must say what they are. joins: where the lane that it ends in begins."""
    indent = 14 if joins else 0
    name = _text(indent, y + 11.5, _shorten(lane.name, NAME_WIDTH - 8 - indent, 11.5), "name")
    parts = [f"<g><title>{escape(lane.name)}</title>{name}</g>"]
    used = [columns[operator][0] for operator in lane.cells]
    middle = y + CELL_HEIGHT / 2
    if joins:
        x, below = joins[0] - CELL_GAP / 2, joins[1]
        parts.append(f'<path d="M{min(used):g} {middle:g}H{x:g}V{below:g}h{CELL_GAP / 2:g}" class="flow"/>')
    if lane.feeds or not joins:
        end = dots + max(lane.feeds) * DOT + DOT / 2 if lane.feeds else max(used)
        parts.append(f'<path d="M{min(used):g} {middle:g}H{max(end, max(used)):g}" class="flow"/>')
    parts += [_cell(steps, *columns[operator], y, operator in named, pen) for operator, steps in lane.cells.items()]
    parts += [
        f'<circle cx="{dots + index * DOT + DOT / 2:g}" cy="{middle:g}" r="4" class="dot"/>'
        for index in sorted(lane.feeds)
    ]
    return "".join(parts)


def _trunk(folded: Folded, pen: _Pen) -> str:
    """Boxes in columns, with their edges: connected parts side by side while they fit, then below."""
    parts: list[str] = []
    x, y, bottom, width = 0.0, 0.0, 0.0, 0.0
    most = max(folded.column) + 1
    wide = min(BOX_WIDEST, max(BOX_NARROWEST, (PAGE - 2 + BOX_GAP) // most - BOX_GAP))
    for nodes in layers.components(len(folded.boxes), folded.edges):
        part, part_width, part_height = _component(folded, nodes, wide, pen)
        if x and x + part_width > PAGE:
            x, y = 0.0, bottom + PART_GAP
        parts.append(f'<g transform="translate({x:g} {y:g})">{part}</g>')
        x += part_width + PART_GAP
        bottom = max(bottom, y + part_height)
        width = max(width, x - PART_GAP)
    return _svg(width, bottom, "trunk", "Steps after the sources", parts)


def _component(folded: Folded, nodes: Sequence[int], wide: float, pen: _Pen) -> tuple[str, float, float]:
    """SVG, width and height of boxes that hang together. wide: of one box."""
    index = {node: position for position, node in enumerate(nodes)}
    column = [folded.column[node] for node in nodes]
    edges = [(index[start], index[end]) for start, end in folded.edges if start in index]
    row, passing = layers.rows(column, edges)
    deepest = max([*row, *(place for path in passing.values() for place in path)])

    def left(place: int) -> float:
        return 1 + place * (wide + BOX_GAP)

    def middle(place: float) -> float:
        return 2 + place * BOX_PITCH + BOX_HEIGHT / 2

    parts: list[str] = []
    for (start, end), path in passing.items():
        x, y = left(column[start]) + wide, middle(row[start])
        curve = f"M{x:g} {y:.1f}"
        for position, place in enumerate([*path, row[end]], column[start] + 1):
            to_x, to_y = left(position), middle(place)
            curve += f"C{x + BOX_GAP / 2:g} {y:.1f} {to_x - BOX_GAP / 2:g} {to_y:.1f} {to_x:g} {to_y:.1f}"
            x, y = to_x, to_y
            if position < column[end]:
                x += wide
                curve += f"H{x:g}"
        numbers = (pen.number[folded.boxes[nodes[node]].steps[0].name] for node in (start, end))
        parts.append(f'<path d="{curve}" class="edge" data-edge="{" ".join(map(str, numbers))}"/>')
    for node, place, at in zip(nodes, row, column, strict=True):
        parts.append(_box(folded.boxes[node], left(at), middle(place) - BOX_HEIGHT / 2, wide, pen))
    width = (max(column) + 1) * (wide + BOX_GAP) - BOX_GAP + 2
    return "".join(parts), width, deepest * BOX_PITCH + BOX_HEIGHT + 4


def _box(box: Box, x: float, y: float, wide: float, pen: _Pen) -> str:
    status = worst(box.steps)
    first = box.steps[0]
    many = len(box.steps) > 1
    taken = sum(step.seconds or 0 for step in box.steps if step.status is Status.RAN)
    right = write_duration(taken) if taken else MARKS.get(status, "")
    operators = len({step.op for step in box.steps})
    label = f"{len(box.steps)} × {first.op}" if many else first.label
    if operators > 1:
        label = f"{len(box.steps)} steps"
    arrow = f" ← {box.lane_inputs}" if box.lane_inputs else f" → {box.lanes_fed}" if box.lanes_fed else ""
    room = wide - 22 - len(right) * 5.6 - len(arrow) * 5.4
    parts = [_rect(x, y, wide, BOX_HEIGHT, f"box b-{status.value}", 4)]
    parts.append(_rect(x, y, 5, BOX_HEIGHT, f"s-{status.value}", 2))
    if many and len({step.status for step in box.steps}) > 1:
        parts.append(_shares(box.steps, x + 12, y + BOX_HEIGHT - 4, wide - 20, 3))
    parts.append(
        _text(
            x + 12, y + 13, _shorten(first.op if operators == 1 else f"{operators} others", room, 9.5) + arrow, "note"
        )
    )
    parts.append(_text(x + wide - 6, y + 13, right, f"right w-{status.value}"))
    parts.append(_text(x + 12, y + 28, _shorten(label, wide - 15, 12.4), "name"))
    return pen.link(box.steps, "".join(parts))
