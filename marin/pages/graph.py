"""The graph of an experiment as two inline SVG pictures: a grid of sources, and the trunk they flow into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from marin.pages import layers, units
from marin.pages.lanes import Box, Folded, Lane, fold
from marin.pages.model import Status, StepRow

# All lengths in CSS pixels.
ROW, CELL_HEIGHT, CELL, CELL_GAP, DOT = 19, 15, 92, 6, 25
NAME_WIDTH, SLANT = 190, 0.62  # SLANT: rise over run of the column names, about 32 degrees
BOX_WIDTH, BOX_HEIGHT, BOX_GAP, BOX_PITCH = 136, 36, 34, 46
LETTER = 6.1  # mean advance of an 11 px sans-serif letter, on the generous side
MARKS = {Status.FAILED: "✕ failed", Status.ALIAS: "= alias", Status.RUNNING: "running"}
ORDER = (Status.FAILED, Status.RUNNING, Status.RAN, Status.ALIAS, Status.CACHED, Status.SKIPPED)


@dataclass(frozen=True)
class Picture:
    """Inline SVGs, "" where there is nothing to draw. sources: rows of the grid, bundles counted in full."""

    grid: str
    trunk: str
    sources: int
    boxes: int


def anchors(steps: Sequence[StepRow]) -> dict[str, str]:
    """The id of each step's row on the page: safe whatever the step is called."""
    return {step.name: f"step-{index}" for index, step in enumerate(steps)}


def draw(steps: Sequence[StepRow]) -> Picture:
    """Pictures of the graph. Every step is in exactly one of them, by itself or in a counted bundle."""
    folded = fold(steps)
    pen = _Pen(steps)
    return Picture(
        grid=_grid(folded, pen) if folded.lanes else "",
        trunk=_trunk(folded, pen) if folded.boxes else "",
        sources=sum(lane.sources for lane in folded.lanes),
        boxes=len(folded.boxes),
    )


class _Pen:
    """Draws steps so that a hover tells what they are and a click goes to their row."""

    def __init__(self, steps: Sequence[StepRow]) -> None:
        self.anchor = anchors(steps)
        self.number = {step.name: index for index, step in enumerate(steps)}

    def link(self, steps: Sequence[StepRow], inner: str, hint: str = "") -> str:
        """SVG that stands for these steps. data-*: numbers of the steps and of their inputs, for highlighting."""
        inputs = sorted({self.number[i] for step in steps for i in step.inputs if i in self.number})
        return (
            f'<a href="#{self.anchor[steps[0].name]}" class="node" '
            f'data-steps="{" ".join(str(self.number[step.name]) for step in steps)}" '
            f'data-inputs="{" ".join(map(str, inputs))}">'
            f"<title>{escape(hint or _hint(steps))}</title>{inner}</a>"
        )


def _hint(steps: Sequence[StepRow]) -> str:
    if len(steps) == 1:
        (step,) = steps
        lines = [step.name, " · ".join(filter(None, (step.status.value, units.seconds(step.seconds)))), step.reason]
        return "\n".join(filter(None, [*lines, step.error]))
    counts = Counter(step.status for step in steps)
    told = ", ".join(f"{counts[status]} {status.value}" for status in ORDER if counts[status])
    names = [step.name for step in steps]
    shown = names[:12] + ([f"… and {len(names) - 12} more"] if len(names) > 12 else [])
    return "\n".join([f"{len(steps)} steps: {told}", *shown])


def worst(steps: Sequence[StepRow]) -> Status:
    """The status that somebody should look at first."""
    return min((step.status for step in steps), key=ORDER.index)


def _shorten(text: str, pixels: float) -> str:
    letters = int(pixels / LETTER)
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


def _cell(steps: Sequence[StepRow], x: float, y: float, pen: _Pen) -> str:
    """One operator of one lane: its status as fill, its time or mark as text."""
    width = CELL - CELL_GAP
    status = worst(steps)
    taken = sum(step.seconds or 0 for step in steps if step.status is Status.RAN)
    if len({step.status for step in steps}) > 1:
        counts = Counter(step.status for step in steps)
        text = f"{counts[status]}/{len(steps)} {status.value}"
        body = _shares(steps, x, y, width, CELL_HEIGHT)
    else:
        text = units.seconds(taken) if status is Status.RAN else MARKS.get(status, "")
        text = f"{len(steps)} × {text}".removesuffix(" × ") if len(steps) > 1 else text
        body = _rect(x, y, width, CELL_HEIGHT, f"s-{status.value}")
    label = _text(x + width / 2, y + 11, text, f"in t-{status.value}") if text else ""
    return pen.link(steps, body + label)


def _grid(folded: Folded, pen: _Pen) -> str:
    """Rows are sources, columns operators; dots show which later steps read the row's result."""
    columns = {operator: NAME_WIDTH + index * CELL for index, operator in enumerate(folded.operators)}
    dots = NAME_WIDTH + len(columns) * CELL + 14
    longest = max((min(len(label), 30) for label, _ in folded.gathers), default=0)
    head = max(44.0, 18 + longest * LETTER * SLANT * 0.85)
    width = dots + len(folded.gathers) * DOT + max(8, longest * LETTER * 0.85)
    height = head + len(folded.lanes) * ROW + 6
    parts: list[str] = []
    for operator, x in columns.items():
        parts.append(_text(x, head - 20, operator, "head"))
        beside = folded.beside[operator]
        if beside:
            told = f"with {beside[0]}" if len(beside) == 1 else f"with {len(beside)} shared inputs"
            note = _text(x, head - 8, _shorten(told, (CELL - 8) * 1.15), "note")
            parts.append(f"<g><title>{escape(', '.join(beside))}</title>{note}</g>")
    bottom = head + len(folded.lanes) * ROW
    for index, (label, names) in enumerate(folded.gathers):
        x = dots + index * DOT + DOT / 2
        parts.append(f'<line x1="{x:g}" y1="{head - 6:g}" x2="{x:g}" y2="{bottom - 4:g}" class="rule"/>')
        turned = f' transform="rotate(-32 {x:g} {head - 10:g})"'
        title = f"<title>{escape(', '.join(names))}</title>"
        parts.append(f"<g>{title}{_text(x, head - 10, _shorten(label, 30 * LETTER), 'gather', turned)}</g>")
    for number, lane in enumerate(folded.lanes):
        y = head + number * ROW
        before = folded.lanes[number - 1].feeds if number else lane.feeds
        if lane.feeds != before:
            parts.append(f'<line x1="0" y1="{y - 2:g}" x2="{width:g}" y2="{y - 2:g}" class="rule"/>')
        parts.append(_lane(lane, y, columns, dots, pen))
    return _svg(width, height, "grid", "Sources by operator, and what reads them", parts)


def _lane(lane: Lane, y: float, columns: dict[str, int], dots: float, pen: _Pen) -> str:
    name = _text(0, y + 11.5, _shorten(lane.name, NAME_WIDTH - 8), "name")
    parts = [f"<g><title>{escape(lane.name)}</title>{name}</g>"]
    used = [columns[operator] for operator in lane.cells]
    middle = y + CELL_HEIGHT / 2
    end = dots + (max(lane.feeds) * DOT + DOT / 2 if lane.feeds else -14)
    parts.append(
        f'<line x1="{min(used):g}" y1="{middle:g}" x2="{max(end, max(used)):g}" y2="{middle:g}" class="flow"/>'
    )
    parts += [_cell(steps, columns[operator], y, pen) for operator, steps in lane.cells.items()]
    parts += [
        f'<circle cx="{dots + index * DOT + DOT / 2:g}" cy="{middle:g}" r="4" class="dot"/>'
        for index in sorted(lane.feeds)
    ]
    return "".join(parts)


def _trunk(folded: Folded, pen: _Pen) -> str:
    """Boxes in columns by depth, with their edges."""
    row, passing = layers.rows(folded.depth, folded.edges)
    inner = max(row, default=0.0)
    for path in passing.values():
        inner = max([inner, *path])
    width = (max(folded.depth) + 1) * (BOX_WIDTH + BOX_GAP) - BOX_GAP + 2
    height = inner * BOX_PITCH + BOX_HEIGHT + 4

    def left(column: int) -> float:
        return 1 + column * (BOX_WIDTH + BOX_GAP)

    def middle(place: float) -> float:
        return 2 + place * BOX_PITCH + BOX_HEIGHT / 2

    parts: list[str] = []
    for (start, end), path in passing.items():
        x, y = left(folded.depth[start]) + BOX_WIDTH, middle(row[start])
        curve = f"M{x:g} {y:.1f}"
        for column, place in enumerate([*path, row[end]], folded.depth[start] + 1):
            to_x, to_y = left(column), middle(place)
            curve += f"C{x + BOX_GAP / 2:g} {y:.1f} {to_x - BOX_GAP / 2:g} {to_y:.1f} {to_x:g} {to_y:.1f}"
            x, y = to_x, to_y
            if column < folded.depth[end]:
                x += BOX_WIDTH
                curve += f"H{x:g}"
        numbers = (pen.number[folded.boxes[node].steps[0].name] for node in (start, end))
        parts.append(f'<path d="{curve}" class="edge" data-edge="{" ".join(map(str, numbers))}"/>')
    for index, box in enumerate(folded.boxes):
        parts.append(_box(box, left(folded.depth[index]), middle(row[index]) - BOX_HEIGHT / 2, pen))
    return _svg(width, height, "trunk", "Steps after the sources", parts)


def _box(box: Box, x: float, y: float, pen: _Pen) -> str:
    status = worst(box.steps)
    first = box.steps[0]
    many = len(box.steps) > 1
    taken = sum(step.seconds or 0 for step in box.steps if step.status is Status.RAN)
    right = units.seconds(taken) if taken else MARKS.get(status, "")
    if many:
        label = f"{len(box.steps)} × {first.op}"
    else:
        label = first.label
    about = first.op
    if box.lane_inputs:
        about += f" ← {box.lane_inputs} source{'s' * (box.lane_inputs > 1)}"
    elif box.lanes_fed:
        about += f" → {box.lanes_fed} source{'s' * (box.lanes_fed > 1)}"
    parts = [_rect(x, y, BOX_WIDTH, BOX_HEIGHT, f"box b-{status.value}", 4)]
    parts.append(_rect(x, y, 5, BOX_HEIGHT, f"s-{status.value}", 2))
    if many and len({step.status for step in box.steps}) > 1:
        parts.append(_shares(box.steps, x + 12, y + BOX_HEIGHT - 4, BOX_WIDTH - 20, 3))
    parts.append(_text(x + 12, y + 13, _shorten(about, BOX_WIDTH - 22 - len(right) * 5), "note"))
    parts.append(_text(x + BOX_WIDTH - 6, y + 13, right, f"right w-{status.value}"))
    parts.append(_text(x + 12, y + 28, _shorten(label, BOX_WIDTH - 14), "name"))
    return pen.link(box.steps, "".join(parts))
