"""What a ladder predicts of a task's accuracy, in two steps, with a backtest of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from marin.evaluation.families.backtest import chain, of_task, two_largest
from marin.evaluation.families.law import PARAMETERS
from marin.evaluation.families.two_step import guesses
from marin.evaluation.metric_names import in_words

CURVE = 33  # places of the accuracy curve


class Scored(Protocol):
    """A run of a rung."""

    @property
    def flops(self) -> float: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...


def task_report(
    rungs: Sequence[Sequence[Scored]], accuracy: str, loss: str, floor: float, target: float
) -> dict[str, Any]:
    """Return the prediction of an accuracy at the target, its backtest, and a sentence.

    rungs: ascending. floor: accuracy of a guess. The prediction is in doubt where the largest rungs only guess, and
    where the backtest could not be made or misses.
    """
    compute = [rung[0].flops for rung in rungs]
    losses = [[run.metrics[loss] for run in rung] for rung in rungs]
    accuracies = [[run.metrics[accuracy] for run in rung] for rung in rungs]
    made: dict[str, Any] = {"loss": loss, "floor": floor, "prediction": None, "backtest": None, "curve": []}
    made["points"] = [
        {"loss": one, "accuracy": other} for of, also in zip(losses, accuracies, strict=True)
        for one, other in zip(of, also, strict=True)
    ]  # fmt: skip
    name = in_words(accuracy)
    if guesses(two_largest(accuracies), floor):
        doubt = f"the largest rungs are not shown to do better than a guess ({floor:.2g})"
        return made | {"doubt": doubt, "sentence": f"{name}: INCONCLUSIVE, {doubt}. Add larger rungs."}
    if len(rungs) <= PARAMETERS:
        doubt = f"there are {len(rungs)} rungs; the fit needs {PARAMETERS + 1}"
        return made | {"doubt": doubt, "sentence": f"{name}: INCONCLUSIVE, {doubt}."}
    found = chain(compute, losses, accuracies, floor)
    prediction, backtest = found.predicted(target), of_task(compute, losses, accuracies, floor)
    low, high = prediction_losses(made["points"], float(found.loss.at(target)))
    places = [low + (high - low) * at / (CURVE - 1) for at in range(CURVE)]
    made |= {
        "prediction": asdict(prediction),
        "backtest": None if backtest is None else {**asdict(backtest), "holds": backtest.holds},
        "curve": [{"loss": place, "accuracy": float(found.accuracy.at(place))} for place in places],
    }
    told = f"{prediction.value:.3g} (interval {prediction.low:.3g} to {prediction.high:.3g}, at least 95 %)"
    if backtest is None:
        doubt, checked = "no backtest could be made", "without the largest rung, the others only guess"
    else:
        doubt = "" if backtest.holds else "the backtest misses"
        checked = (
            f"backtest at the largest rung: {backtest.predicted.value:.3g} ({backtest.predicted.low:.3g} to "
            f"{backtest.predicted.high:.3g}) predicted, {backtest.measured:.3g} measured"
        )
    if doubt:
        return made | {"doubt": doubt, "sentence": f"{name}: INCONCLUSIVE, {doubt}: {checked}. The fit says {told}."}
    return made | {"doubt": "", "sentence": f"{name}: {told} at the target; {checked}."}


def prediction_losses(points: Sequence[Mapping[str, float]], target: float) -> tuple[float, float]:
    """Return the ends of the losses that the curve of accuracy is drawn for."""
    losses = [point["loss"] for point in points]
    return min(*losses, target), max(losses)
