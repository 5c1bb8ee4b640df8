"""The content of an experiment page, as plain values. ``collect`` fills them in from a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from marin.executor.run_results import Status
from marin.report.claims import Claim
from marin.report.page.trainings import Stretch, Training
from marin.report.section import Section, Table, Trouble


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One step. name: ``op/label``. inputs: names of other steps. seconds: of the run that wrote the output."""

    name: str
    op: str
    identity: str
    status: Status  # a step that did not run counts as skipped, for any reason
    reason: str = ""
    seconds: float | None = None
    inputs: Sequence[str] = ()
    output: str = ""  # path or URL
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    log: str = ""  # path or URL
    error: str = ""
    claims: Sequence[Claim] = ()  # about its output

    @property
    def label(self) -> str:
        """The name without its operator."""
        return self.name.removeprefix(f"{self.op}/")


@dataclass(frozen=True)
class Strip:
    """A mixture as one bar. parts: families of sources and their shares, the largest first."""

    name: str
    parts: Sequence[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class ExperimentPage:
    """Everything on one experiment's page."""

    title: str
    question: str
    issue: int | None = None
    issue_url: str = ""
    prefix: str = ""
    doubts: Sequence[str] = ()  # reasons to doubt the answer; sections may have more
    provenance: Mapping[str, str] = field(default_factory=dict[str, str])  # printed as given, by name
    answer: Sequence[str] = ()  # first the sentence that answers the question, then others; sections may have more
    next_steps: Sequence[str] = ()  # ways to learn more; sections may have more
    arms: Sequence[str] = ()  # in the order of their colours; runs and blocks use the same names
    sections: Sequence[Section | Trouble] = ()
    steps: Sequence[StepRow] = ()
    runs: Sequence[Training] = ()  # trainings that wrote metrics
    phases: Sequence[Stretch] = ()
    trainings: Sequence[Table] = ()  # plan and outcome of each training, and the fields that differ
    strips: Sequence[Strip] = ()
    mixtures: Sequence[Table] = ()
    # By name: the planned cost of the whole experiment, earlier runs included, and how long this run took.
    cost: Mapping[str, str] = field(default_factory=dict[str, str])
