"""Notes on trainings whose activations cannot fit their chips, before anything runs. An estimate refuses nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from marin.data.by_step import active_within
from marin.data.mixture import BatchSchedule
from marin.steps.resources import Resources
from marin.steps.step import ExecutorStep
from marin.store.numbers import listed
from marin.training.activations import least_activation_bytes
from marin.training.costs import Costs
from marin.training.model import ModelShape, Precision, Recompute

NAMED = 3  # trainings


@runtime_checkable
class TrainsOnChips(Protocol):
    """A training whose memory follows from its fields."""

    model: ModelShape
    batch: BatchSchedule
    seq_len: int
    first_step: int
    end_step: int
    precision: Precision
    recompute: Recompute
    tensor: int
    sequences_per_device: int | None
    resources: Resources

    @property
    def costs(self) -> Costs: ...


def what_does_not_fit(steps: Iterable[ExecutorStep[Any]]) -> list[str]:
    """Return a sentence for each group of trainings that need the same memory, more than their chips have."""
    found: dict[str, list[str]] = {}
    for step in steps:
        if isinstance(step, TrainsOnChips) and (text := _too_large(step)):
            found.setdefault(text, []).append(step.name)
    return [f"memory: {text}: {listed(names, NAMED)}" for text, names in found.items()]


def _too_large(step: TrainsOnChips) -> str | None:
    chips = step.resources.accelerator
    if chips is None or not chips.memory_gb:
        return None
    batches = active_within(step.batch.at, step.first_step, step.end_step).values()
    share, common = (size * step.tensor // chips.chips for size in (max(batches), math.gcd(*batches)))

    def gigabytes(sequences: int) -> float:
        """Return the gigabytes on each chip. A training in micro-batches also holds the sum of the gradients."""
        summed = step.costs.gradient_bytes if sequences < share else 0
        activations = least_activation_bytes(
            step.model, sequences * step.seq_len, step.precision, step.recompute, tensor=step.tensor
        )
        return ((step.costs.memory_bytes + summed) / chips.slice_chips + activations) / 1e9

    each = step.sequences_per_device or share
    if gigabytes(each) <= chips.memory_gb:
        return None
    said = f"at least {gigabytes(each):,.0f} GB on each chip of {chips}, which has {chips.memory_gb:g}"
    fits = [fewer for fewer in range(1, each) if common % fewer == 0 and gigabytes(fewer) <= chips.memory_gb]
    if fits:
        return f"{said}; sequences_per_device={max(fits)} needs at least {gigabytes(max(fits)):,.0f}"
    layers = "" if step.recompute is not Recompute.NOTHING else "recompute=Recompute.LAYERS, "
    return f"{said}; give it {layers}a shorter seq_len, or more chips"
