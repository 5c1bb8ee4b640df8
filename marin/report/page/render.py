"""Render the page of an experiment: one static, self-contained HTML file."""

from __future__ import annotations

import base64
import inspect
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from urllib.parse import quote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from marin.executor.run_results import Status
from marin.report.page import figures, graph, steps
from marin.report.page.model import ExperimentPage
from marin.report.section import (
    Bold,
    Cell,
    Column,
    Difference,
    Finding,
    Heading,
    Image,
    Interval,
    Section,
    Shade,
    Share,
    Table,
    Tag,
    Trouble,
)
from marin.report.words import fixed, grouped, signed
from marin.store.layout import slug
from marin.store.numbers import counted, write_duration

COLOURS = 6  # different colours for arms on the page
DARKEST = 55  # percent of colour in a heat map's best cell, on which text stays readable


def render(page: ExperimentPage, head: str = "") -> str:
    """Return the page as HTML. Equal pages give equal texts; no label can inject markup. head: HTML for its head."""
    arms = list(page.arms)

    def arm_class(arm: str) -> str:
        """Return the CSS class with the arm's colour; "" if this is no arm."""
        return f"arm-{arms.index(arm) % COLOURS}" if arm in arms else ""

    counts = Counter(step.status for step in page.steps)
    made = [each for each in page.sections if isinstance(each, Section)]
    marks = [mark for each in made for mark in each.marks]
    training = figures.training(page.runs, page.phases, arms, marks)
    # A paragraph ends at an empty line, or before a line that begins with "Arms:" or the like.
    parts = re.split(r"\n\s*\n|\n(?=[A-Z]\w+:\s)", inspect.cleandoc(page.question))
    paragraphs = [" ".join(part.split()) for part in parts if part.strip()]
    asked = next((each for each in paragraphs if each.startswith("Question:")), "".join(paragraphs[:1]))
    answer = [*page.answer, *(line for each in made if each.answer for line in (each.answer, *each.more))]
    found = [each for kind in Finding for each in made if each.finding is kind and not each.answer]
    first = [each for each in page.sections if isinstance(each, Trouble) or each.answer]
    others = [*found, *(each for each in made if not each.answer and each.finding is None)]
    place = _places([*first, *others])
    apart = Counter(subject for step in page.steps if (subject := steps.subject_apart(step)))
    families = dict.fromkeys(name for strip in page.strips for name, _ in strip.parts if name != "others")
    template = _templates().get_template("experiment.html")
    return template.render(
        page=page,
        head=Markup(head),
        arm_class=arm_class,
        anchor={step.name: f"s{at}" for at, step in enumerate(page.steps)},  # safe for any step name
        issue_link=page.issue_url if urlsplit(page.issue_url).scheme in ("http", "https") else "",
        asked=asked,
        question=[each for each in paragraphs if each != asked],
        answer=answer,
        pictures=[each.picture for each in made if each.answer and each.picture is not None],
        # Reasons to doubt the answer, worst first; then outputs with a claim that somebody can act on.
        doubts=[
            *(line for each in made for line in each.doubts),
            *page.doubts,
            *(f"{each.title.partition(':')[0]}: found" for each in found if each.finding is Finding.FOUND),
            *(f"{counted(count, 'output')}: {subject}" for subject, count in apart.items()),
        ],
        found=found,
        next_steps=[*(line for each in made for line in each.next), *page.next_steps],
        first=first,
        others=others,
        place=place,
        id=id,
        families=list(families),
        drawn=drawn_table,
        image=image_source,
        tally=[(status.value, counts[status]) for status in graph.ORDER if counts[status]],
        contents=_contents(page, place, first, others, training=bool(training or page.trainings)),
        failed=counts[Status.FAILED],
        errors=list(grouped((step.error, step) for step in page.steps if step.status is Status.FAILED).values()),
        skipped=counts[Status.SKIPPED],
        trust=steps.shared(page.steps),
        named=partial(steps.named, steps=page.steps),
        room=steps.ROOM,
        cut=steps.cut,
        training=training,
        thinned=any("mean" in run for run in training.get("runs", ())),
        most_points=figures.MOST_POINTS,
        lines=partial(figures.lines, arms=arms),
        packed=figures.packed,
        script=Markup(figures.script()),
        figure_style=Markup(figures.style()),
        picture=graph.draw(page.steps),
        columns=steps.columns(page.steps, page.prefix),
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("marin.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        duration=write_duration,
        breakable=_breakable,
        file_link=_file_link,
    )
    return environment


def _breakable(name: str) -> Markup:
    """Return a step's name, escaped, that may wrap after each slash."""
    return Markup("/<wbr>").join(name.split("/"))


def _places(sections: Sequence[Section | Trouble]) -> dict[int, str]:
    """Return the id of each section's heading: its name, with a number if another section has the same name."""
    names = [slug(each.title.partition(":")[0].lower()) if isinstance(each, Section) else "" for each in sections]
    return {
        id(each): f"about-{name}{f'-{at}' if name in names[:at] else ''}"
        for at, (each, name) in enumerate(zip(sections, names, strict=True))
    }


def _file_link(path: str) -> str:
    """Return a link to a file on this machine; "" for a file in a remote store."""
    return f"file://{quote(path, errors='surrogateescape')}" if path.startswith("/") else ""


def _contents(
    page: ExperimentPage,
    place: dict[int, str],
    first: Sequence[Section | Trouble],
    others: Sequence[Section],
    *,
    training: bool,
) -> list[tuple[str, str]]:
    def named(sections: Sequence[Section | Trouble]) -> list[tuple[str, str, bool]]:
        return [(place[id(each)], each.title.partition(":")[0], True) for each in sections if isinstance(each, Section)]

    entries = [
        ("failures", "Failures", any(step.status is Status.FAILED for step in page.steps)),
        ("answer", "Answer", True),
        *named(first),
        ("training", "Training", training),
        *named(others),
        ("mixtures", "Mixtures", bool(page.mixtures)),
        ("graph", "Graph", bool(page.steps)),
        ("steps", "Steps", bool(page.steps)),
        ("provenance", "Provenance", True),
    ]
    return [(anchor, name) for anchor, name, there in entries if there]


LONG = 28  # characters; longer texts wrap
NUMBER = re.compile(r"[+\-−±<>≈≤]?\s?\d[\d,.\s]*(e[+\-−]?\d+)?\s?(%|[kKMBT]|[a-zA-Zµ]{1,3})?(\s?±\s?[\d.e\-−]+)?\*?")
NOTHING = ("", "—", "–")
UNKNOWN = "–"
DRAWN = ("interval", "share", "difference", "shade")  # kinds of columns


@dataclass(frozen=True, kw_only=True)
class DrawnCell:
    """A cell as the template draws it. kind: its CSS class. more: paler text beside the main one.

    places: CSS variables with the positions of drawn marks, in percent of the cell's width.
    """

    kind: str
    text: str
    more: str = ""
    places: str = ""
    arm: str = ""


@dataclass(frozen=True, kw_only=True)
class DrawnTable:
    kinds: list[str]  # one for each column
    rows: list[list[DrawnCell] | Heading]
    is_drawn: bool  # whether a cell holds more than text


def drawn_table(table: Table) -> DrawnTable:
    """Return the table as the template draws it. Raises ValueError if a row and the columns differ in number."""
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
    """Return the CSS class of a column."""
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
    """Return the range in which cells are drawn, by scale. Shares and differences share one that includes 0."""
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
        case Shade():
            return DrawnCell(kind="shade", text=cell.text, places=f"--depth:{DARKEST * cell.depth:.0f}%")
        case Tag():
            return DrawnCell(kind=f"told tone-{cell.tone.value}", text=cell)
        case Bold():
            return DrawnCell(kind=f"{kind} bold", text=cell)
        case _:  # a text stays a text in a column of drawn cells
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
    """Return the position in percent of the axis, with some room left at both ends."""
    low, high = axis
    room *= (high - low) or 1.0
    share = (value - low + room) / ((high - low + 2 * room) or 1.0)
    return f"{100 * min(max(share, 0.0), 1.0):.1f}"


def image_source(image: Image) -> str:
    """Return the picture as a ``data:`` address."""
    return f"data:{image.kind};base64,{base64.b64encode(image.content).decode()}"
