"""From the blocks of a section to what a template prints: how wide a column is, where in its cell an interval lies."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from marin.report.section import Bold, Cell, Column, Difference, Heading, Image, Interval, Share, Table, Tag
from marin.report.units import fixed, signed

LONG = 28  # letters; longer texts wrap
NUMBER = re.compile(r"[+\-−±<>≈≤]?\s?\d[\d,.\s]*(e[+\-−]?\d+)?\s?(%|[kKMBT]|[a-zA-Zµ]{1,3})?(\s?±\s?[\d.e\-−]+)?\*?")
NOTHING = ("", "—", "–")
UNKNOWN = "–"
DRAWN = ("interval", "share", "difference")  # kinds of columns


@dataclass(frozen=True, kw_only=True)
class DrawnCell:
    """kind: its CSS class. more: stands beside the text, paler. places: CSS variables of what is drawn, in percent of
    the cell's width."""

    kind: str
    text: str
    more: str = ""
    places: str = ""
    arm: str = ""


@dataclass(frozen=True, kw_only=True)
class DrawnTable:
    kinds: list[str]  # of the columns
    rows: list[list[DrawnCell] | Heading]
    is_drawn: bool  # whether a cell holds more than text


def drawn_table(table: Table) -> DrawnTable:
    """Raises ValueError for a row of more or fewer cells than there are columns."""
    for row in table.rows:
        if not isinstance(row, Heading) and len(row) != len(table.columns):
            raise ValueError(f"a row of {table.title!r} has {len(row)} cells; wanted {len(table.columns)}")
    cells = [row for row in table.rows if not isinstance(row, Heading)]
    columns = [[row[at] for row in cells] for at in range(len(table.columns))]
    kinds = [_kind(column) for column in columns]
    axes = [_axes(column, about) for column, about in zip(columns, table.columns, strict=True)]
    rows = [
        row
        if isinstance(row, Heading)
        else [
            _drawn(cell, kind, about, axis)
            for cell, kind, about, axis in zip(row, kinds, table.columns, axes, strict=True)
        ]
        for row in table.rows
    ]
    return DrawnTable(kinds=kinds, rows=rows, is_drawn=any(kind in ("interval", "difference") for kind in kinds))


def _kind(cells: Sequence[Cell]) -> str:
    """The CSS class of a column."""
    drawn = {type(cell).__name__.lower() for cell in cells if not isinstance(cell, str)}
    if drawn:
        return min(drawn)
    texts = [str(cell) for cell in cells if cell]
    if any(isinstance(cell, Tag) for cell in cells):
        return "told"
    if texts and all(NUMBER.fullmatch(text) or text in NOTHING for text in texts):
        return "number"
    return "long" if any(len(text) > LONG for text in texts) else "short"


type _Axis = tuple[float, float]


def _axes(cells: Iterable[Cell], about: Column) -> dict[str, _Axis]:
    """From where to where cells are drawn, by scale; of shares and differences, in percent and around 0."""
    ends: dict[str, list[float]] = {}
    for cell in cells:
        match cell:
            case Interval():
                side = -1 if cell.mirrored else 1
                values = (cell.value, cell.low, cell.high)
                known = [side * value for value in values if value is not None and math.isfinite(value)]
                ends.setdefault(cell.scale, [0.0, -about.band, about.band]).extend(known)
            case Share() | Difference():
                ends.setdefault("", [0.0]).append(cell.value)
            case _:
                pass
    return {scale: (min(values), max(values)) for scale, values in ends.items()}


def _drawn(cell: Cell, kind: str, about: Column, axes: dict[str, _Axis]) -> DrawnCell:
    match cell:
        case Interval():
            return _interval(cell, about, axes[cell.scale])
        case Share():
            text = f"{100 * cell.value:.{about.digits}f}"
            return DrawnCell(kind="share", text=text, places=f"--w:{_at(cell.value, axes[''], 0.0)}", arm=cell.arm)
        case Difference():
            axis = axes[""]
            low, high = sorted((0.0, cell.value))
            places = f"--a:{_at(low, axis)};--b:{_at(high, axis)};--z:{_at(0.0, axis)}"
            return DrawnCell(kind="difference", text=signed(cell.value, about.digits), places=places, arm=cell.arm)
        case Tag():
            return DrawnCell(kind=f"told tone-{cell.tone.value}", text=cell)
        case Bold():
            return DrawnCell(kind=f"{kind} bold", text=cell)
        case _:  # a text in a column that draws is a text all the same
            return DrawnCell(kind="number" if kind in DRAWN else kind, text=cell)


def _interval(cell: Interval, about: Column, axis: _Axis) -> DrawnCell:
    if not math.isfinite(cell.value):
        return DrawnCell(kind="interval", text=UNKNOWN)
    side = -1 if cell.mirrored else 1
    written = fixed if about.ranges else signed
    places = {"z": 0.0, "v": side * cell.value}
    more = ""
    if cell.low is not None and cell.high is not None and math.isfinite(cell.low) and math.isfinite(cell.high):
        places["a"], places["b"] = sorted((side * cell.low, side * cell.high))
        more = f"[{written(cell.low, about.digits)}, {written(cell.high, about.digits)}]"
    if about.band:
        places["m"], places["n"] = -about.band, about.band
    style = ";".join(f"--{name}:{_at(value, axis)}" for name, value in places.items())
    text = signed(cell.value, about.digits)
    return DrawnCell(kind="interval", text=text, more=more, places=style, arm=cell.arm)


def _at(value: float, axis: _Axis, room: float = 0.02) -> str:
    """In percent of the axis, which leaves some room at both of its ends."""
    low, high = axis
    room *= (high - low) or 1.0
    share = (value - low + room) / ((high - low + 2 * room) or 1.0)
    return f"{100 * min(max(share, 0.0), 1.0):.1f}"


def image_source(image: Image) -> str:
    """As an address that holds the picture."""
    return f"data:{image.kind};base64,{base64.b64encode(image.content).decode()}"
