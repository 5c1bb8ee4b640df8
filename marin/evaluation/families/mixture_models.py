"""Regressions from the shares of a mixture to a metric, and the one that predicts held-out proxies best.

Shapes: K proxies, M sources. shares: (K, M), rows sum to 1. metric: (K,), lower is better.
"""

# pyright: basic
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from marin.evaluation.families.shares import FOLDS

ROBUST = 0.02  # residual from which Huber's loss is linear, as Olmix
GAPS = (
    0.03,
    0.1,
    0.3,
    1.0,
    3.0,
    10.0,
)  # first guesses of the floor: so many ranges of the metric below its least value
SHORT, LONG = 12, 100  # evaluations of each first guess, and of the best of them
RIDGES = tuple(10.0**power for power in range(-6, 3))
TREES, RATE, DEPTH = 100, 0.1, 3

type Array = npt.NDArray[np.float64]


class Model(ABC):
    """A fitted regression."""

    @abstractmethod
    def predict(self, shares: Array) -> Array:
        """Return the metric of each mixture (K,)."""


class SmoothModel(Model):
    """A regression that is convex in the shares, so that a solver by gradients finds the optimum."""

    @abstractmethod
    def gradient(self, shares: Array) -> Array:
        """Return the derivatives of the metric by the shares of one mixture (M,)."""


@dataclass(frozen=True)
class Linear(SmoothModel):
    """metric = offset + slopes · shares, by ridge regression (Liu et al. 2024, RegMix, §3.2)."""

    offset: float
    slopes: Array

    def predict(self, shares: Array) -> Array:
        return self.offset + shares @ self.slopes

    def gradient(self, shares: Array) -> Array:
        return self.slopes


@dataclass(frozen=True)
class LogLinear(SmoothModel):
    """metric = floor + exp(rates · shares).

    Data Mixing Laws (Ye et al. 2024, arXiv 2403.16952, eq. 7) and Olmix (Chen et al. 2026, arXiv 2602.12237). Shares
    sum to 1, so the rates hold the factor of the exponential. The floor may be negative, because metrics of which more
    is better come negated.
    """

    floor: float
    rates: Array

    def predict(self, shares: Array) -> Array:
        return self.floor + np.exp(np.minimum(shares @ self.rates, 50.0))

    def gradient(self, shares: Array) -> Array:
        return np.exp(min(float(shares @ self.rates), 50.0)) * self.rates


@dataclass(frozen=True)
class Trees(Model):
    """Gradient-boosted regression trees, as RegMix (there LightGBM; here scikit-learn)."""

    fitted: Any

    def predict(self, shares: Array) -> Array:
        return self.fitted.predict(shares)


def fit_linear(shares: Array, metric: Array, start: Model | None = None) -> Linear:
    from sklearn.linear_model import RidgeCV

    fitted = RidgeCV(alphas=RIDGES).fit(shares, metric)
    return Linear(float(fitted.intercept_), np.asarray(fitted.coef_, np.float64))


def fit_log_linear(shares: Array, metric: Array, start: Model | None = None) -> LogLinear:
    """Return the least sum of Huber losses over several first guesses of the floor. start: a fit to begin with instead.

    Huber's loss, because noise depends on the mixture: Marin measured a deviation of 0.0016 bits per byte between seeds
    at the natural shares of Nemotron-CC and StarCoder, and 0.041 for StarCoder alone (issue 2345).
    """
    from scipy.optimize import least_squares

    width = float(np.ptp(metric)) or 1.0
    lowest = float(metric.min()) - 1e-3 * width

    def residual(parameters: Array) -> Array:
        return parameters[0] + np.exp(np.minimum(shares @ parameters[1:], 50.0)) - metric

    def jacobian(parameters: Array) -> Array:
        return np.column_stack(
            [np.ones(len(metric)), np.exp(np.minimum(shares @ parameters[1:], 50.0))[:, None] * shares]
        )

    if isinstance(start, LogLinear):
        guesses = [np.concatenate([[start.floor], start.rates])]
    else:
        guesses = []
        for gap in GAPS:
            floor = lowest - gap * width
            rates, *_ = np.linalg.lstsq(shares, np.log(metric - floor), rcond=None)
            guesses.append(np.concatenate([[floor], rates]))

    def fitted(guess: Array, most: int) -> Any:
        return least_squares(residual, guess, jac=jacobian, loss="huber", f_scale=ROBUST, max_nfev=most, ftol=1e-7)  # pyright: ignore

    first = min((fitted(guess, SHORT) for guess in guesses), key=lambda one: float(one.cost))
    best = fitted(first.x, LONG)
    return LogLinear(float(best.x[0]), np.asarray(best.x[1:], np.float64))


def fit_trees(shares: Array, metric: Array, start: Model | None = None) -> Trees:
    from sklearn.ensemble import GradientBoostingRegressor

    grown = GradientBoostingRegressor(n_estimators=TREES, learning_rate=RATE, max_depth=DEPTH, random_state=0)
    return Trees(grown.fit(shares, metric))


FAMILIES: Mapping[str, Callable[..., Model]] = {
    "log-linear": fit_log_linear,
    "linear": fit_linear,
    "trees": fit_trees,
}


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A family of models on proxies that its fits did not see.

    rank: Spearman's correlation of predicted and actual values. p: of a correlation as high if there were none. error:
    root mean squared, in the unit of the metric. of_spread: error over the standard deviation of the metric. predicted:
    (K,), each by the fit without its fold.
    """

    rank: float
    p: float
    error: float
    of_spread: float
    predicted: Array


def cross_validated(shares: Array, metric: Array, *, seed: int) -> dict[str, Checked]:
    """Return each family's predictions of held-out proxies, by FOLDS-fold cross-validation. seed: of the folds."""
    order = np.random.default_rng(seed).permutation(len(metric))
    predicted = {name: np.empty(len(metric)) for name in FAMILIES}
    for fold in np.array_split(order, FOLDS):
        rest = np.setdiff1d(order, fold)
        for name, fit in FAMILIES.items():
            predicted[name][fold] = fit(shares[rest], metric[rest]).predict(shares[fold])
    return {name: checked(made, metric) for name, made in predicted.items()}


def checked(predicted: Array, metric: Array) -> Checked:
    from scipy.stats import spearmanr

    error, spread = float(np.sqrt(np.mean((predicted - metric) ** 2))), float(metric.std())
    if np.ptp(predicted) == 0 or spread == 0:
        rank, p = 0.0, 1.0
    else:
        found: Any = spearmanr(predicted, metric, alternative="greater")
        rank, p = float(found.statistic), float(found.pvalue)
    return Checked(rank=rank, p=p, error=error, of_spread=error / spread if spread else 1.0, predicted=predicted)


def chosen(by_family: Mapping[str, Checked], metric: Array) -> str:
    """Return the first of FAMILIES whose error on held-out proxies is within a standard error of the least.

    The standard error is of the mean difference of squared errors over proxies (Breiman et al. 1984, the rule of one
    standard error). Olmix found log-linear best with few proxies, and trees ahead only with more than 118.
    """
    squares = {name: (found.predicted - metric) ** 2 for name, found in by_family.items()}
    best = min(FAMILIES, key=lambda name: by_family[name].error)
    for name in FAMILIES:
        apart = squares[name] - squares[best]
        if name == best or apart.mean() <= apart.std(ddof=1) / np.sqrt(len(apart)):
            return name
    raise AssertionError("the best family is one of them")
