"""What an experiment page shows, as plain values. Whoever ran the experiment fills them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


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
    notes: Sequence[str] = ()  # drift, acceptance, revocation
    log: str = ""  # path or URL
    error: str = ""

    @property
    def label(self) -> str:
        """The name without its operator."""
        return self.name.removeprefix(f"{self.op}/")


@dataclass(frozen=True, kw_only=True)
class MixtureStage:
    """Shares of the sources from an optimizer step on; they sum to one. published: percentages as printed, "21.49"."""

    first_step: int
    shares: Mapping[str, float]
    published: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class SourceUse:
    """How much of a source one arm reads, over all its stages. epochs: sequences over those available."""

    sequences: int
    epochs: float


@dataclass(frozen=True, kw_only=True)
class MixtureTable:
    """The data of one arm, stage by stage. arm: "" for a stretch that the arms share."""

    arm: str
    stages: Sequence[MixtureStage]
    use: Mapping[str, SourceUse] = field(default_factory=dict[str, SourceUse])


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that changed at an optimizer step: batch, mixture, architecture."""

    step: int
    text: str


@dataclass(frozen=True, kw_only=True)
class TrainingCurve:
    """Metrics of one run, all arrays equally long; leave out what was not measured.

    step: optimizer steps, ascending. tokens: trained on so far, all phases. loss: nats per token.
    arm: "" for a run that the arms share.
    """

    name: str
    step: Sequence[int]
    loss: Sequence[float]
    arm: str = ""
    learning_rate: Sequence[float] = ()
    grad_norm: Sequence[float] = ()
    tokens: Sequence[int] = ()
    events: Sequence[Event] = ()


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A named stretch of a run: optimizer steps [first, end)."""

    first: int
    end: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A measured value, with its 95 % interval when there is one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One metric for several models. values: by column name."""

    name: str
    values: Mapping[str, Estimate]
    better: Better = Better.NEITHER
    unit: str = ""
    digits: int = 3
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class EvaluationTable:
    """Metrics (rows) of models or arms (columns). note: items, few-shot, format, seeds."""

    title: str
    columns: Sequence[str]
    rows: Sequence[MetricRow]
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
    """Lines over a common axis. levels: named horizontal reference values."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    levels: Mapping[str, float] = field(default_factory=dict[str, float])
    events: Sequence[Event] = ()
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One row of an interval plot. group: rows of one group stand together under its name."""

    label: str
    estimate: Estimate
    arm: str = ""
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class IntervalPlot:
    """Dots with intervals. expected: what no effect would look like, drawn as a line.

    ranges: the intervals are ranges that need not be symmetric, printed from end to end.
    """

    title: str
    x_label: str
    rows: Sequence[Interval]
    expected: float | None = 0.0
    digits: int = 3
    ranges: bool = False
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class BarPlot:
    """Bars by category, one per series in each. values: series name → one value per category."""

    title: str
    y_label: str
    categories: Sequence[str]
    values: Mapping[str, Sequence[float]]
    digits: int = 2
    note: str = ""


Plot = SeriesPlot | IntervalPlot | BarPlot


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A section that argues one finding. verdict: the sentence that somebody will quote."""

    title: str
    finding: Finding
    verdict: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()


@dataclass(frozen=True, kw_only=True)
class StageTiming:
    """Cost of one stage of the pipeline in this run."""

    stage: str
    steps: int
    seconds: float
    peak_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What the experiment cost as planned, whoever paid for it. None: not known."""

    tokens: int | None = None
    flops: float | None = None
    chip_hours: float | None = None
    wall_seconds: float | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class TrustNote:
    """Why an output is not simply to be believed: drifted, revoked, accepted, unverified."""

    step: str
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ExperimentPage:
    """Everything on one experiment's page. created: printed as given. headline: the answer first.

    arms: names in the order of their colours; the same names are used by mixtures, runs, tables and plots.
    """

    title: str
    question: str
    scale: str
    created: str
    issue: int | None = None
    issue_url: str = ""
    git_revision: str = ""
    git_dirty: bool = False
    command: str = ""
    prefix: str = ""
    headline: Sequence[str] = ()
    arms: Sequence[str] = ()
    steps: Sequence[StepRow] = ()
    mixtures: Sequence[MixtureTable] = ()
    runs: Sequence[TrainingCurve] = ()
    phases: Sequence[Phase] = ()
    evaluations: Sequence[EvaluationTable] = ()
    evidence: Sequence[Evidence] = ()
    timings: Sequence[StageTiming] = ()
    totals: Totals = field(default_factory=Totals)
    trust: Sequence[TrustNote] = ()

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """(input, step) by name, for inputs that are steps of this page, each once."""
        known = {step.name for step in self.steps}
        return tuple(
            (source, step.name) for step in self.steps for source in dict.fromkeys(step.inputs) if source in known
        )
