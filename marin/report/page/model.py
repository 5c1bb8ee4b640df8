"""What an experiment page shows, as plain values. Whoever ran the experiment fills them in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Status(Enum):
    """What became of a step in this run."""

    CACHED = "cached"
    ALIAS = "alias"  # equal operator and input contents existed under another identity; nothing ran
    RAN = "ran"
    RUNNING = "running"
    FAILED = "failed"
    STOPPED = "stopped"  # with its run, by a person or a scheduler
    SKIPPED = "skipped"  # a dependency failed, or the step was not asked for


class Better(Enum):
    """Which direction of a metric is an improvement."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class Finding(Enum):
    """What the evidence says about the effect that it was collected for."""

    FOUND = "found"
    ABSENT = "not found"
    UNCLEAR = "inconclusive"


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One step. name: ``op/label``. inputs: names of other steps. seconds: of the run that made the output."""

    name: str
    op: str
    identity: str
    status: Status
    reason: str = ""
    seconds: float | None = None
    inputs: Sequence[str] = ()
    output: str = ""  # path or URL
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    log: str = ""  # path or URL
    error: str = ""

    @property
    def label(self) -> str:
        """The name without its operator."""
        return self.name.removeprefix(f"{self.op}/")


class SourceUse(NamedTuple):
    """How much of a source a run read."""

    sequences: int
    epochs: float  # sequences over those that the source has


@dataclass(frozen=True, kw_only=True)
class MixtureTable:
    """The data of one arm, stage by stage."""

    arm: str  # "" for a stretch that the arms share
    stages: Mapping[int, Mapping[str, float]]  # shares of the sources, which sum to one, by the first optimizer step
    use: Mapping[str, SourceUse] = field(default_factory=dict[str, SourceUse])


class Event(NamedTuple):
    """Something that changed or happened at an optimizer step: batch, mixture, a spike. bad: went wrong."""

    step: int
    text: str
    bad: bool = False


@dataclass(frozen=True, kw_only=True)
class TrainingCurve:
    """Metrics of one run, all arrays equally long; leave out what was not measured."""

    name: str
    step: Sequence[int]  # optimizer steps, ascending
    loss: Sequence[float]  # nats per token
    arm: str = ""  # "" for a run that the arms share
    learning_rate: Sequence[float] = ()
    grad_norm: Sequence[float] = ()
    tokens: Sequence[int] = ()  # trained on so far, all phases
    tokens_per_second: Sequence[float] = ()
    seconds: Sequence[float] = ()  # that each step took
    events: Sequence[Event] = ()
    findings: Sequence[tuple[bool, str]] = ()  # what its metrics show: whether somebody should act, and a sentence
    profile: str = ""  # path or URL of what Perfetto opens


@dataclass(frozen=True, kw_only=True)
class Account:
    """A training as it was planned and as it went: cells by column, ready to print, without those that nobody knows."""

    name: str
    arm: str = ""  # "" for a run that the arms share
    after: str = ""  # the training whose checkpoint it begins with
    planned: Mapping[str, str] = field(default_factory=dict[str, str])
    happened: Mapping[str, str] = field(default_factory=dict[str, str])


class Setting(NamedTuple):
    """A field of training runs. values: by run, as texts."""

    name: str
    values: Mapping[str, str]


class Phase(NamedTuple):
    """A named stretch of a run: optimizer steps [first, end)."""

    first: int
    end: int
    name: str


class Difference(NamedTuple):
    """One column minus the baseline, with its 95 % interval."""

    verdict: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One metric for several models. values, differences: by column name. role: what the experiment has it for.

    starred: columns whose value is no measure of what the model can do, because it was trained on these items.
    """

    name: str
    values: Mapping[str, float]
    better: Better = Better.NEITHER
    unit: str = ""
    digits: int = 3
    role: str = ""
    differences: Mapping[str, Difference] = field(default_factory=dict[str, Difference])
    starred: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class EvaluationTable:
    """Metrics (rows) of models or arms (columns). note: items, few-shot, format, seeds."""

    title: str
    columns: Sequence[str]
    rows: Sequence[MetricRow]
    baseline: str = ""  # the column that differences are to
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Any small table: cells are texts, ready to print."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


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
class SeriesPlot:
    """Lines over a common axis. ticks: what stands at places of x, where that is not the number. line: a height that
    counts, drawn across."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    ticks: Mapping[float, str] = field(default_factory=dict[float, str])
    line: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One row of an interval plot: a value, and from where to where it may be.

    group: rows of one group stand together under its name.
    """

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    arm: str = ""
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class IntervalPlot:
    """Dots with intervals, and a line at 0, where there is no effect.

    ranges: the intervals are ranges that need not be symmetric, printed from end to end. band: effects closer to 0 than
    this do not matter.
    """

    title: str
    x_label: str
    rows: Sequence[Interval]
    digits: int = 3
    ranges: bool = False
    band: float = 0.0
    note: str = ""


Plot = SeriesPlot | IntervalPlot


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A section that argues one finding. verdict: the sentence that somebody will quote."""

    title: str
    finding: Finding
    verdict: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()

    @property
    def first_sentence(self) -> str:
        """Of the verdict: what stands beside the answer."""
        return re.split(r"(?<=[.!?])\s+(?=[A-Z\d])", self.verdict, maxsplit=1)[0]


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """A passage that is marked, with what stands around it."""

    title: str
    before: str
    text: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Decontamination:
    """What decontamination took out of training text."""

    sentence: str
    tables: Sequence[Table]
    excerpts: Sequence[Excerpt]


class TrustNote(NamedTuple):
    """Why an output is not simply to be believed: drifted, revoked, accepted, unverified.

    is_general: it says the same of any number of steps, and none of them stands apart for it.
    """

    step: str
    kind: str
    text: str
    is_general: bool = False


@dataclass(frozen=True, kw_only=True)
class ExperimentPage:
    """Everything on one experiment's page."""

    title: str
    question: str
    scale: str
    created: str  # printed as given
    issue: int | None = None
    issue_url: str = ""
    git_revision: str = ""
    git_dirty: bool = False
    command: str = ""
    prefix: str = ""
    dashboard: str = ""  # of the cluster that the steps ran on
    headline: Sequence[str] = ()  # the answer first
    picture: IntervalPlot | SeriesPlot | None = None  # what the answer rests on
    next_steps: Sequence[str] = ()  # what would answer more
    arms: Sequence[str] = ()  # in the order of their colours; mixtures, runs, tables and plots use the same names
    steps: Sequence[StepRow] = ()
    mixtures: Sequence[MixtureTable] = ()
    runs: Sequence[TrainingCurve] = ()
    accounts: Sequence[Account] = ()  # of all trainings, those without a curve, too
    phases: Sequence[Phase] = ()
    settings: Sequence[Setting] = ()  # of the runs, without their data
    evaluations: Sequence[EvaluationTable] = ()
    evidence: Sequence[Evidence] = ()
    decontamination: Decontamination | None = None
    # What the experiment costs as planned, whoever paid for it; None: not known.
    tokens: int | None = None
    flops: float | None = None
    chip_hours: float | None = None
    wall_seconds: float | None = None
    trust: Sequence[TrustNote] = ()
