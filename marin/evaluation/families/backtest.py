"""Backtest a ladder's predictions: fit without the largest rung, predict it, and compare."""

# pyright: basic
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from marin.evaluation.families import law, two_step
from marin.evaluation.families.law import LEAST_RUNGS, PowerLaw, Range
from marin.evaluation.families.two_step import EACH, Sigmoid


@dataclass(frozen=True, kw_only=True)
class Backtest:
    """measured: what the largest rung reached. predicted: what the smaller rungs say of it."""

    compute: float
    predicted: Range
    measured: float

    @property
    def holds(self) -> bool:
        return self.measured in self.predicted

    @property
    def error(self) -> float:
        """Predicted − measured, relative to measured."""
        return self.predicted.value / self.measured - 1 if self.measured else 0.0


def of_loss(compute: Sequence[float], runs: Sequence[Sequence[float]]) -> Backtest | None:
    """Backtest the law of compute. None for too few rungs. runs: by rung, ascending, the loss of each seed."""
    if len(compute) < LEAST_RUNGS:
        return None
    smaller = law.fit(compute[:-1], runs[:-1])
    return Backtest(
        compute=compute[-1], predicted=smaller.predicted(compute[-1], len(runs[-1])), measured=fmean(runs[-1])
    )


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Compute to the task's loss, and the loss to accuracy."""

    loss: PowerLaw
    accuracy: Sigmoid

    def predicted(self, compute: float, runs: int = 1) -> Range:
        return self.accuracy.predicted(self.loss.predicted(compute, runs, EACH))


def chain(
    compute: Sequence[float], losses: Sequence[Sequence[float]], accuracies: Sequence[Sequence[float]], floor: float
) -> Chain:
    """Fit both steps: the law to rungs, the sigmoid to single runs."""
    return Chain(
        loss=law.fit(compute, losses),
        accuracy=two_step.fit(
            [one for rung in losses for one in rung], [one for rung in accuracies for one in rung], floor
        ),
    )


def of_task(
    compute: Sequence[float], losses: Sequence[Sequence[float]], accuracies: Sequence[Sequence[float]], floor: float
) -> Backtest | None:
    """Backtest both steps at once. None for too few rungs, and where the smaller rungs only guess."""
    if len(compute) < LEAST_RUNGS or two_step.guesses(two_largest(accuracies[:-1]), floor):
        return None
    smaller = chain(compute[:-1], losses[:-1], accuracies[:-1], floor)
    return Backtest(
        compute=compute[-1], predicted=smaller.predicted(compute[-1], len(losses[-1])), measured=fmean(accuracies[-1])
    )


def two_largest(accuracies: Sequence[Sequence[float]]) -> list[float]:
    """Return the accuracies of the runs of the two largest rungs."""
    return [one for rung in accuracies[-2:] for one in rung]
