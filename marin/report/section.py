"""What an experiment's page shows of one output: a section of blocks, plain values that the page draws.

An operator ``my_ops/judge.py`` brings its section in ``my_ops/pages/judge.py``, as one or both of

    def section(step: Judge, output: Directory, page: Page) -> Section | None: ...
    def together(made: Mapping[str, Made | None], page: Page) -> Section | None: ...

``section`` is called for each result and for what results read; ``together`` once, with every output of the operator by
its label (None: deleted since). Neither is part of the operator's code: to reword a page changes no output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from marin.store.files.directory import Directory


class Finding(Enum):
    """What the evidence says about the effect that it was collected for."""

    FOUND = "found"
    ABSENT = "not found"
    UNCLEAR = "inconclusive"


class Tone(Enum):
    """What a tag means for the reader."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"  # not known, not comparable
    PLAIN = "plain"


class Tag(str):
    """A cell that is a verdict in a word or two, in the colour of its tone."""

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
    """A cell that draws a value, and from where to where it may be; a dot alone where nobody knows.

    scale: cells of a column with the same one share an axis, drawn from the least to the largest of them and 0. arm:
    gives its colour. mirrored: drawn with the lower values to the right, where lower is better.
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


type Cell = str | Interval | Share | Difference


@dataclass(frozen=True)
class Column:
    """arm: whose numbers these are. hint: what the name means, on hover. digits: after the point, of drawn numbers.

    ranges: intervals are ranges that need not be symmetric, printed from end to end. band: values closer to 0 than this
    do not matter, drawn behind the intervals.
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
    """columns: the first one names the rows. rows: as many cells each. folded: closed until somebody opens it."""

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
    """A passage that is marked, with what stands around it."""

    title: str
    before: str
    text: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line. arm: gives it that arm's colour. low, high: a band around y."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    arm: str = ""
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Lines over a common axis. ticks: what stands at places of x, where that is not the number. line: a height that
    counts, drawn across."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    ticks: Mapping[float, str] = field(default_factory=dict[float, str])
    line: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Image:
    """A picture that the operator wrote, by any library: SVG or PNG. No script in it runs."""

    title: str
    content: bytes
    kind: str = "image/svg+xml"


type Block = Text | Table | Quote | Curves | Image


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Something to see at an optimizer step of a training, on its loss curve. bad: somebody should act."""

    run: str  # label of the training
    step: int
    text: str
    bad: bool = False


@dataclass(frozen=True, kw_only=True)
class Section:
    """title: its heading. The other fields go to other places of the page, too.

    answer: one sentence that answers the experiment's question, without names of metrics as paths; for the first card.
    more: further sentences of the answer. picture: the answer drawn, beside it, in few rows. doubts: why not to believe
    it yet; for the second card. next: what would tell more. finding, verdict: of a section that argues one thing; the
    page repeats them below the cards.
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
        """Of the verdict: what stands beside the answer."""
        return re.split(r"(?<=[.!?])\s+(?=[A-Z\d])", self.verdict, maxsplit=1)[0]


class Made(NamedTuple):
    """An output, and what its record says of it."""

    output: Directory
    facts: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Page:
    """The page that a section is for. training_data: a sentence on what was trained on as it came."""

    arms: tuple[str, ...]  # names of what the experiment compares, in the order of their colours
    store: str
    training_data: str = ""
