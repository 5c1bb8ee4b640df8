"""The best mixture of fitted models, within bounds and within what was sampled.

Shapes: K proxies, M sources, C candidates.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marin.evaluation.families.mixture_models import Array, Model, SmoothModel

CANDIDATES = 20_000  # mixtures that are tried where a model has no gradient
AVERAGED = 128  # best candidates whose mean is taken, as RegMix' notebook (of 100,000; its paper says 100 of 1,000,000)
TINY = 1e-12
OUTSIDE = 1e-4  # distance from the convex hull at which a mixture counts as outside


@dataclass(frozen=True, kw_only=True)
class Goal:
    """The function that is minimised: Σ weight · metric + penalty · KL(shares ‖ natural).

    Olmix (Chen et al. 2026, arXiv 2602.12237) recommends a penalty of 0.05 for metrics in bits per byte. models,
    weights: of each metric. natural, bounds: (M,). sampled: (K, M), shares of the proxies.
    """

    models: Sequence[Model]
    weights: Sequence[float]
    natural: Array
    bounds: Array
    sampled: Array
    penalty: float

    def predict(self, shares: Array) -> Array:
        """Return Σ weight · metric of each mixture (K,), without the penalty."""
        parts = zip(self.weights, self.models, strict=True)
        return np.sum([weight * model.predict(shares) for weight, model in parts], axis=0)

    def value(self, shares: Array) -> Array:
        logs = np.log(np.maximum(shares, TINY) / self.natural)
        return self.predict(shares) + self.penalty * (shares * logs).sum(axis=1)

    def gradient(self, shares: Array) -> Array:
        """Return the derivatives of ``value`` at one mixture (M,). All models must be smooth."""
        smooth = [model for model in self.models if isinstance(model, SmoothModel)]
        parts = zip(self.weights, smooth, strict=True)
        found = np.sum([weight * model.gradient(shares) for weight, model in parts], axis=0)
        return found + self.penalty * (np.log(np.maximum(shares, TINY) / self.natural) + 1)


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """shares: (M,), within the convex hull of the proxies. reach: 1 if the optimum by the bounds alone lies there too,
    else the share of the way from natural to it that does."""

    shares: Array
    reach: float


def optimum(goal: Goal, *, seed: int, candidates: int = CANDIDATES, averaged: int = AVERAGED) -> Optimum:
    """Return the shares with the lowest goal among mixtures of the proxies, and whether the bounds alone allow lower.

    Convex combinations of proxies are the mixtures that the proxies say something about.
    """
    if not all(isinstance(model, SmoothModel) for model in goal.models):
        return Optimum(shares=_exact(_by_candidates(goal, seed, candidates, averaged)), reach=1.0)
    found = _within_bounds(goal)
    if _is_within(goal.sampled, found):
        return Optimum(shares=found, reach=1.0)
    return Optimum(shares=_within_hull(goal), reach=reach_within(goal.sampled, goal.natural, found))


def reach_within(sampled: Array, start: Array, end: Array) -> float:
    """Return the largest t ≤ 1 for which start + t · (end − start) lies in the convex hull of ``sampled`` (K, M).

    start: a mixture within the hull.
    """
    low, high = 0.0, 1.0
    if _is_within(sampled, end):
        return 1.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if _is_within(sampled, start + middle * (end - start)) else (low, middle)
    return low


def _is_within(sampled: Array, shares: Array) -> bool:
    """Whether the shares are a convex combination of ``sampled``, by non-negative least squares.

    Not by a linear program: HiGHS took 300 times as long on a busy machine.
    """
    from scipy.optimize import nnls

    _, apart = nnls(np.vstack([sampled.T, np.ones(len(sampled))]), np.append(shares, 1.0))
    return float(apart) < OUTSIDE


def _within_bounds(goal: Goal) -> Array:
    """Sequential least squares from the natural mixture and from the best proxy; the goal is convex."""
    starts = (goal.natural, goal.sampled[int(goal.value(goal.sampled).argmin())])
    found = [_exact(_solved(goal, start, np.eye(len(start)), goal.bounds)) for start in starts]
    return min([goal.natural, *found], key=lambda shares: float(goal.value(shares[None])[0]))


def _within_hull(goal: Goal) -> Array:
    """As ``_within_bounds``, over weights of the natural mixture and the proxies."""
    corners = np.vstack([goal.natural, goal.sampled])
    start = np.full(len(corners), 0.1 / len(corners))
    start[int(goal.value(corners).argmin())] += 0.9
    shares = _exact(_solved(goal, start, corners, np.ones(len(corners))) @ corners)
    return min([*corners, shares], key=lambda one: float(goal.value(one[None])[0]))


def _solved(goal: Goal, start: Array, corners: Array, most: Array) -> Array:
    """Return weights of the corners, at most ``most`` and with the sum 1, whose mixture has the lowest goal."""
    from scipy.optimize import minimize

    made = minimize(
        lambda x: float(goal.value((x @ corners)[None])[0]),
        start,
        jac=lambda x: corners @ goal.gradient(x @ corners),
        bounds=[(0.0, bound) for bound in most],
        constraints=[{"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like}],
        method="SLSQP",
        options={"maxiter": 100, "ftol": 1e-9},
    )
    return np.clip(made.x, 0.0, most)


def _by_candidates(goal: Goal, seed: int, count: int, averaged: int) -> Array:
    """Random mixtures of up to three proxies and the natural mixture, so that all lie within the hull."""
    draw = np.random.default_rng(seed)
    corners = np.vstack([goal.natural, goal.sampled])
    chosen = draw.integers(0, len(corners), (count, 3))
    parts = draw.dirichlet(np.ones(3), count)
    candidates = np.einsum("cp,cpm->cm", parts, corners[chosen])
    values = goal.value(candidates)
    return candidates[np.argsort(values, kind="stable")[:averaged]].mean(axis=0)


def _exact(shares: Array) -> Array:
    kept = np.where(shares < 1e-9, 0.0, shares)
    return kept / kept.sum()


def refitted(fit: Callable[[NDArray[np.int64]], Optimum], count: int, proxies: int, *, seed: int) -> Array:
    """Return the shares (count, M) of the optima of refits to proxies drawn with replacement.

    fit: from the numbers of the proxies (K,) to the optimum. Draws with too few different proxies are drawn again.
    """
    draw = np.random.default_rng(seed)
    return np.array([fit(draw.integers(0, proxies, proxies)).shares for _ in range(count)])
