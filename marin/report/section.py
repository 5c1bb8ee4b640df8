"""Sections of an experiment's page. A section shows one output as blocks: plain values that the page draws.

An operator ``my_ops/judge.py`` brings its section in ``my_ops/pages/judge.py``, as one or both of

    def section(step: Judge, output: Directory, page: Page) -> Section | None: ...
    def together(made: Mapping[str, Made | None], page: Page) -> Section | None: ...

``section`` is called for each result and for each input of a result. ``together`` is called once, with every output of
the operator by label (None: deleted since). Neither belongs to the operator's code: rewording a page changes no output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from marin.store.files.directory import Directory


class Finding(Enum):
    """The verdict of the evidence about the effect that it was collected for."""

    FOUND = "found"
    ABSENT = "not found"
    UNCLEAR = "inconclusive"


class Tone(Enum):
    """The meaning of a tag for the reader."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"  # not known, not comparable
    PLAIN = "plain"


class Tag(str):
    """A cell with a verdict in a word or two, in the colour of its tone."""

    tone: Tone

    def __new__(cls, text: str, tone: Tone = Tone.PLAIN) -> Tag:
        made = super().__new__(cls, text)
        made.tone = tone
        return made


class Bold(str):
    """A cell that stands out."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A cell that draws a value with its interval. Without low and high, it draws a dot alone.

    scale: cells of a column with the same scale share an axis, which spans their values and 0. arm: gives the colour.
    mirrored: draws lower values to the right, for metrics where lower is better.
    """

    value: float
    low: float | None = None
    high: float | None = None
    arm: str = ""
    scale: str = ""
    mirrored: bool = False


@dataclass(frozen=True, kw_only=True)
class Share:
    """A cell that draws a share, from 0 to 1, as percent."""

    value: float
    arm: str = ""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A cell that draws a number as a bar to either side of 0."""

    value: float
    arm: str = ""


@dataclass(frozen=True)
class Shade:
    """A cell of a heat map. depth: how dark it is, from 0 to 1."""

    text: str
    depth: float


type Cell = str | Interval | Share | Difference | Shade


@dataclass(frozen=True)
class Column:
    """A column of a table. arm: owner of its numbers. hint: meaning of the name, on hover. digits: decimal places.

    ranges: intervals are ranges that need not be symmetric, printed from end to end. band: smallest difference from 0
    that matters, drawn behind the intervals.
    """

    name: str
    arm: str = ""
    hint: str = ""
    digits: int = 3
    ranges: bool = False
    band: float = 0.0


@dataclass(frozen=True)
class Heading:
    """A row that names the rows below it."""

    text: str
    arm: str = ""


type Row = Sequence[Cell] | Heading


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table. columns: the first names the rows. rows: one cell a column. folded: closed until somebody opens it."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Quote:
    """A marked passage with the text around it."""

    title: str
    before: str
    text: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line, or dots alone. arm: gives it that arm's colour. low, high: a band around y."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    arm: str = ""
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dots: bool = False


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Lines over a common axis. ticks: texts in place of numbers on the x axis. line: a height to mark with a line
    across."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    ticks: Mapping[float, str] = field(default_factory=dict[float, str])
    line: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Image:
    """A picture that the operator wrote with any library: SVG or PNG. No script in the picture runs."""

    title: str
    content: bytes
    kind: str = "image/svg+xml"


type Block = Text | Table | Quote | Curves | Image


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A mark at an optimizer step on a training's loss curve. bad: somebody should act."""

    run: str  # label of the training
    step: int
    text: str
    bad: bool = False


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a page. title: its heading. Other fields also go to other places of the page.

    answer: one sentence that answers the experiment's question, without paths of metrics; for the first card. more:
    further sentences of the answer. picture: the answer drawn in a few rows, beside the answer. doubts: reasons to
    doubt the answer; for the second card. next: experiments that would tell more. finding, verdict: for a section that
    argues one thing; the page repeats them below the cards.
    """

    title: str
    answer: str = ""
    more: Sequence[str] = ()
    picture: Table | None = None
    doubts: Sequence[str] = ()
    next: Sequence[str] = ()
    finding: Finding | None = None
    verdict: str = ""
    blocks: Sequence[Block] = ()
    marks: Sequence[Mark] = ()

    @property
    def first_sentence(self) -> str:
        """The first sentence of the verdict, shown beside the answer."""
        return re.split(r"(?<=[.!?])\s+(?=[A-Z\d])", self.verdict, maxsplit=1)[0]


class Made(NamedTuple):
    """An output and the facts in its record. The facts may be read without the output."""

    output: Directory
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Trouble:
    """A section that could not be drawn, with the error."""

    step: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """The page that a section is for. training_data: a sentence on decontamination of the training data."""

    arms: tuple[str, ...]  # names of the compared arms, in the order of their colours
    store: str
    training_data: str = ""
