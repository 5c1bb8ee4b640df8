"""The planned course of a run: the phase of each step, and the planned changes at each step.

Rows of metrics.jsonl carry both, so that a reader of the metrics alone knows the plan.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from marin.data.by_step import active_within
from marin.training.optimizer import Optimizer
from marin.training.schedule import Schedule
from marin.training.spec import TrainingSpec

LARGEST = 4  # sources of a mixture by name


def phase(schedule: Schedule, step: int) -> str:
    """Return the learning rate's phase at a step: warmup, hold, decay, rewarmup, or floor after the last decay."""
    ramps = schedule.ramps()
    ramp = ramps[bisect_right([each.start for each in ramps], step) - 1]
    if step >= ramp.end:
        return "hold" if ramp.last == 1 else "floor"
    if ramp.last < ramp.first:
        return "decay"
    return "warmup" if ramp.start == 0 else "rewarmup"


def guards(recipe: Optimizer) -> dict[str, Any]:
    """Return the guards against divergence, for the run's first row; None, False or 0 is off."""
    return {
        "max_grad_norm": recipe.max_grad_norm,
        "clip_update_norm": recipe.clip_update_norm is not None,
        "skip_bad_steps": recipe.skip_bad_steps is not None,
        "z_loss": recipe.z_loss,
        "ema": recipe.ema,
    }


def changes(spec: TrainingSpec) -> dict[int, list[str]]:
    """Return the planned changes in words, by the first step that they affect, without the run's own first step."""
    found: dict[int, list[str]] = {}

    def add(step: int, text: str) -> None:
        if spec.first_step < step < spec.end_step:
            found.setdefault(step, []).append(text)

    for ramp in spec.schedule.ramps():
        for step in (ramp.start, ramp.end):
            before, now = phase(spec.schedule, max(step - 1, 0)), phase(spec.schedule, step)
            if (text := f"learning rate: {before} → {now}") not in found.get(step, []) and before != now:
                add(step, text)
    sizes = active_within(spec.batch, spec.first_step, spec.end_step)
    for (_, before), (step, now) in zip(sizes.items(), list(sizes.items())[1:], strict=False):
        add(step, f"batch: {before:,} → {now:,} sequences")
    for step, shares in active_within(spec.stages, spec.first_step, spec.end_step).items():
        add(step, f"data: {_mixture(shares)}{_over(spec, step)}")
    return found


def begun_with(report: Mapping[str, Any] | None) -> list[str]:
    """Return, in words, the changes from the checkpoint that the run begins with."""
    return in_words(report["changed"] if report is not None else {})


def in_words(changed: Mapping[str, Sequence[Any]]) -> list[str]:
    return [f"{field}: {then} → {now}" for field, (then, now) in changed.items()]


def _over(spec: TrainingSpec, step: int) -> str:
    over = spec.interpolations.get(step)
    return f", over {over:,} steps" if over else ""


def _mixture(shares: Mapping[str, float]) -> str:
    ordered = sorted(shares.items(), key=lambda share: -share[1])
    named = ", ".join(f"{name} {share:.0%}" for name, share in ordered[:LARGEST])
    return named + (f", {len(ordered) - LARGEST} more" if len(ordered) > LARGEST else "")
