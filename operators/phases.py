"""Cut a run into phases, each with its own recipe, data and machines; a phase begins where the one before ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from marin import BatchSchedule, ExecutorStep, Lifetime, Resources, Shuffle, Stages, Tokens
from marin.errors import BadField
from marin.steps.lifetime import FOREVER
from marin.training.model import ModelShape, Recompute
from marin.training.optimizer import Optimizer
from marin.training.schedule import Schedule
from operators.start import Fork, OptimizerState, WarmStart
from operators.train import Milestone, Train


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of a run, up to the optimizer step ``until``. A field that is None keeps the value of the phase before.

    schedule, data, batch: by step of the whole run; give them only if the plan itself changed. model: another
    architecture is a warm start. clip_history: a step of this run; the clip takes its history from the checkpoint of
    that step. label: the label of the phase's training; "" for the run's label with the phase's first step.
    """

    until: int
    label: str = ""
    model: ModelShape | None = None
    optimizer: Optimizer | None = None
    schedule: Schedule | None = None
    data: Stages[ExecutorStep[Tokens]] | None = None
    batch: BatchSchedule | None = None
    shuffle: Shuffle | None = None
    recompute: Recompute | None = None
    resources: Resources | None = None
    optimizer_state: OptimizerState = OptimizerState.KEPT
    clip_history: int | None = None


CHANGES = ("model", "optimizer", "schedule", "data", "batch", "shuffle", "recompute", "resources")


@dataclass(frozen=True)
class PhasedRun:
    """One training for each phase, in order."""

    trainings: tuple[Train, ...]

    @property
    def last(self) -> Train:
        return self.trainings[-1]

    def at(self, step: int, *, lifetime: Lifetime = FOREVER) -> Milestone:
        """Return the checkpoint after ``step`` optimizer steps, from the phase that makes step ``step``."""
        run = next((run for run in self.trainings if run.first_step < step <= run.end_step), self.last)
        return run.at(step, lifetime=lifetime)


def phased(run: Train, phases: Sequence[Phase]) -> PhasedRun:
    """Return ``run`` cut into phases. The last phase must end where the run ends; without phases the run is one phase.

    Raises BadField for phases that do not follow each other, and the errors of Train.
    """
    if not phases:
        return PhasedRun((run,))
    if phases[-1].until != run.end_step:
        raise BadField(
            f"{run.called()}: its phases end at step {phases[-1].until}, but the run ends at {run.end_step}; wanted "
            "the same step"
        )
    trainings: list[Train] = []
    for phase in phases:
        before = trainings[-1] if trainings else None
        first = run.first_step if before is None else before.end_step
        changed: dict[str, Any] = {name: given for name in CHANGES if (given := getattr(phase, name)) is not None}
        label = phase.label or (run.label if before is None else f"{run.label}-{first}")
        if before is None:
            made = replace(run, label=label, end_step=phase.until, **changed)
        else:
            start = _start(phase, before, PhasedRun(tuple(trainings)))
            made = replace(before, label=label, first_step=first, end_step=phase.until, start=start, **changed)
        trainings.append(made)
    return PhasedRun(tuple(trainings))


def _start(phase: Phase, before: Train, so_far: PhasedRun) -> WarmStart | Fork:
    other = phase.model is not None and phase.model.architecture is not before.model.architecture
    return (WarmStart if other else Fork)(
        before.at(before.end_step),
        phase.optimizer_state,
        clip_history=None if phase.clip_history is None else so_far.at(phase.clip_history),
    )
