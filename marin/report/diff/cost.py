"""What a difference costs: training on either side, what it trains anew, and what a store holds of it already."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from marin.report.diff.difference import Difference
from marin.report.diff.experiments import DescribedExperiment, Step


@dataclass(frozen=True, kw_only=True)
class TrainingSum:
    """runs: training steps. chip_hours: of those that run on accelerators."""

    runs: int
    steps: int
    tokens: int
    flops: float
    chip_hours: float


def training_sum(steps: Iterable[Step]) -> TrainingSum:
    trained = [(step, step.work) for step in steps if step.work is not None]
    return TrainingSum(
        runs=len(trained),
        steps=sum(work.steps for _, work in trained),
        tokens=sum(work.tokens for _, work in trained),
        flops=sum(work.flops for _, work in trained),
        chip_hours=sum(step.chip_hours or 0.0 for step, _ in trained),
    )


def trained_anew(difference: Difference) -> list[Step]:
    """Training steps of the new side that the old one does not have."""
    there = {step.identity for step in difference.old.steps}
    return [step for step in difference.new.steps if step.work is not None and step.identity not in there]


@dataclass(frozen=True, kw_only=True)
class ToRun:
    """One side on a store: what is committed of it, and what its results still need."""

    committed: list[Step]
    missing: list[Step]

    @property
    def training(self) -> TrainingSum:
        return training_sum(self.missing)


def to_run(side: DescribedExperiment, committed: Collection[str]) -> ToRun:
    """committed: identities in the store. What lies behind a committed output is not needed."""
    by_identity = {step.identity: step for step in side.steps}
    needed: set[str] = set()
    pending = list(side.results.values())
    while pending:
        identity = pending.pop()
        if identity in needed or identity in committed:
            continue
        needed.add(identity)
        pending += by_identity[identity].inputs
    return ToRun(
        committed=[step for step in side.steps if step.identity in committed],
        missing=[step for step in side.steps if step.identity in needed],
    )
