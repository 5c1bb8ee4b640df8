"""Predict a task's accuracy from its loss (Bhagia et al. 2024, arXiv 2412.04403): first the loss, then the accuracy.

Step 2 is floor + (1 − floor) / (1 + exp(k · (L − middle))). floor: the accuracy of a guess. The top is 1: at loss 0 the
right answer has all probability. Bhagia et al. fit both ends; a ladder's few runs near the floor do not determine them.

The interval of a chain joins the intervals of both steps, each at 97.5 %, so it holds at least 95 % (Bonferroni).
"""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, stdtr, stdtrit

from marin.evaluation.families.law import Range

EACH = 0.975  # level of each step
LEAST_POINTS = 4
ABOVE = 0.05  # p-value below which accuracies are shown to lie above a guess

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Sigmoid:
    """covariance: of (k, middle). freedom: degrees of, of the residuals. spread: their standard deviation."""

    floor: float
    k: float
    middle: float
    covariance: Floats
    spread: float
    freedom: int

    def at(self, loss: npt.ArrayLike) -> Floats:
        return self.floor + (1 - self.floor) * expit(-self.k * (np.asarray(loss, np.float64) - self.middle))

    def predicted(self, loss: Range) -> Range:
        """Return the accuracy of a further run whose loss lies in this range, at EACH."""
        ends = [self._interval(each) for each in np.linspace(loss.low, loss.high, 21)]
        low, high = min(low for low, _ in ends), max(high for _, high in ends)
        return Range(value=float(self.at(loss.value)), low=max(low, 0.0), high=min(high, 1.0))

    def _interval(self, loss: float) -> tuple[float, float]:
        """Return the interval of one run: of the curve on the scale of the logit, and of a run around it."""
        slope = np.array([-(loss - self.middle), self.k])
        t = float(stdtrit(self.freedom, (1 + EACH) / 2))
        half = t * math.sqrt(float(slope @ self.covariance @ slope))
        center = -self.k * (loss - self.middle)
        own = t * self.spread
        low, high = (self.floor + (1 - self.floor) * float(expit(center + sign * half)) for sign in (-1, 1))
        return low - own, high + own


def guesses(accuracy: Sequence[float], floor: float) -> bool:
    """Return whether these accuracies are not shown to lie above a guess (one-sided t test)."""
    held = np.asarray(accuracy, np.float64)
    if len(held) < 2 or held.std() == 0:
        return bool(held.mean() <= floor)
    t = (held.mean() - floor) / (held.std(ddof=1) / math.sqrt(len(held)))
    return float(stdtr(len(held) - 1, -t)) > ABOVE


def fit(loss: Sequence[float], accuracy: Sequence[float], floor: float) -> Sigmoid:
    """Fit accuracy against loss over runs, by least squares. Raises ValueError for fewer than LEAST_POINTS runs."""
    from scipy.optimize import least_squares

    x, y = np.asarray(loss, np.float64), np.asarray(accuracy, np.float64)
    if len(x) < LEAST_POINTS:
        raise ValueError(f"{len(x)} runs; accuracy against loss needs {LEAST_POINTS}")

    def rest(theta: Floats) -> Floats:
        return floor + (1 - floor) * expit(-math.exp(theta[0]) * (x - theta[1])) - y

    width = max(float(np.ptp(x)), 1e-6)
    starts = [(math.log(k / width), float(x.min()) + at * width) for k in (0.5, 2, 8) for at in (-3, -1, 0, 0.5, 1)]
    bounds = ([math.log(1e-3 / width), -10.0], [math.log(1e3 / width), float(x.max()) + 3 * width])
    found = min((least_squares(rest, start, bounds=bounds) for start in starts), key=lambda each: float(each.cost))
    k, middle = math.exp(found.x[0]), float(found.x[1])
    freedom = len(x) - 2
    variance = 2 * float(found.cost) / freedom
    jacobian = found.jac * np.array([1 / k, 1.0])  # of log k, then of k
    return Sigmoid(
        floor=floor, k=k, middle=middle, covariance=variance * np.linalg.pinv(jacobian.T @ jacobian),
        spread=math.sqrt(variance), freedom=freedom,
    )  # fmt: skip
