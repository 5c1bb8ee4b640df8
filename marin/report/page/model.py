"""What an experiment page shows, as plain values. Whoever ran the experiment fills them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from marin.executor.run_results import Status
from marin.report.claims import Claim
from marin.report.page.trainings import Stretch, Training
from marin.report.section import Section, Table


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One step. name: ``op/label``. inputs: names of other steps. seconds: of the run that made the output."""

    name: str
    op: str
    identity: str
    status: Status  # one that did not run is skipped, whatever for
    reason: str = ""
    seconds: float | None = None
    inputs: Sequence[str] = ()
    output: str = ""  # path or URL
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    log: str = ""  # path or URL
    error: str = ""
    claims: Sequence[Claim] = ()  # of its output

    @property
    def label(self) -> str:
        """The name without its operator."""
        return self.name.removeprefix(f"{self.op}/")


@dataclass(frozen=True)
class Strip:
    """A mixture as one bar. parts: families of sources and their shares, the largest first."""

    name: str
    parts: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Trouble:
    """A section that could not be made."""

    step: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ExperimentPage:
    """Everything on one experiment's page."""

    title: str
    question: str
    issue: int | None = None
    issue_url: str = ""
    prefix: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict[str, str])  # printed as given, by what it is
    answer: Sequence[str] = ()  # the sentence that answers the question, then others; a section's, where one has it
    doubts: Sequence[str] = ()  # reasons not to believe the answer, beside those of sections
    next_steps: Sequence[str] = ()  # what would answer more, beside what sections say
    arms: Sequence[str] = ()  # in the order of their colours; runs and blocks use the same names
    sections: Sequence[Section | Trouble] = ()
    steps: Sequence[StepRow] = ()
    runs: Sequence[Training] = ()  # those that wrote metrics
    phases: Sequence[Stretch] = ()
    trainings: Sequence[Table] = ()  # as planned and as it went, and what they differ in
    strips: Sequence[Strip] = ()
    mixtures: Sequence[Table] = ()
    # By what it is: what the experiment costs as planned, whoever paid for it, and how long this run took.
    cost: Mapping[str, str] = field(default_factory=dict[str, str])
