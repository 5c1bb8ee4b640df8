"""Fit loss against parameters and tokens as E + A / N^α + B / D^β (Hoffmann et al. 2022, arXiv 2203.15556, § 3.3).

The fit minimises the sum of Huber losses, δ = 1e-3, of log residuals. The objective has many minima, so it starts from
a grid of exponents, each with its best E, A, B ≥ 0 by non-negative least squares (variable projection); Hoffmann et al.
start from a grid of all five. A and B are poorly determined even by 240 runs (Besiroglu et al. 2024, arXiv 2404.10102):
compare predictions, not constants.

N counts the parameters that a token meets in a matrix product: layers and output head, no input embedding (as Bhagia et
al. 2024, arXiv 2412.04403).

Intervals are profile likelihoods of log residuals, by the F distribution, as in marin.evaluation.families.law.
"""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.special import fdtri

from marin.evaluation.families.law import LEVEL, Range

PARAMETERS = 5
LEAST_POINTS = PARAMETERS + 2
LEAST_SPREAD = 1.5  # ratio of the highest to the lowest tokens a parameter, apart from their trend with compute
DELTA = 1e-3
GRID = np.linspace(0.05, 1.0, 10)  # exponents that the fit starts from
STARTS = 8  # of them, the best

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SizesLaw:
    """E + A / (N / n)^α + B / (D / d)^β. n, d: geometric means of the runs. points: (R, 3), N, D and loss."""

    e: float
    a: float
    b: float
    alpha: float
    beta: float
    n: float
    d: float
    points: Floats

    def at(self, parameters: float, tokens: float) -> float:
        return float(_law(self._logs(), math.log(parameters / self.n), math.log(tokens / self.d)))

    def best_parameters(self, compute: float) -> float:
        """Return the parameters with the lowest loss for these FLOPs, where they are 6 · N · D."""
        a, b = self.a * self.n**self.alpha, self.b * self.d**self.beta
        return (self.alpha * a / (self.beta * b)) ** (1 / (self.alpha + self.beta)) * (compute / 6) ** (
            self.beta / (self.alpha + self.beta)
        )

    def predicted(self, parameters: float, tokens: float) -> Range:
        """Return the loss of a further run with its interval."""
        from scipy.optimize import brentq, least_squares

        x, y, target = self._places()
        there = math.log(parameters / self.n), math.log(tokens / self.d)

        def rest(theta: Floats, height: float | None) -> Floats:
            found = np.log(_law(theta, x, y)) - target
            return found if height is None else np.append(found, math.log(_law(theta, *there)) - height)

        def slopes(theta: Floats, height: float | None) -> Any:
            found = _slopes(theta, x, y)
            return found if height is None else np.vstack([found, _slopes(theta, *map(np.atleast_1d, there))])

        def squares(height: float | None, start: Floats) -> tuple[float, Floats]:
            found = least_squares(rest, start, jac=cast(Any, slopes), bounds=LIMITS, args=(height,))
            return 2 * float(found.cost), found.x

        least, best = squares(None, np.clip(self._logs(), *LIMITS))
        freedom = len(x) - PARAMETERS
        bound = least * (1 + float(fdtri(1, freedom, LEVEL)) / freedom)
        middle = math.log(_law(best, *there))
        step = max(math.sqrt(least / freedom), 1e-6)

        def over(height: float) -> float:
            return squares(height, best)[0] - bound

        ends = []
        for sign in (-1, 1):
            far = step
            while over(middle + sign * far) < 0 and far < 2:
                far *= 2
            inside = 0.0 if far == step else far / 2
            root: Any = (
                brentq(over, middle + sign * inside, middle + sign * far, xtol=1e-4) if far < 2 else far * sign + middle
            )
            ends.append(float(root))
        value = self.at(parameters, tokens)
        return Range(value=value, low=min(value, math.exp(ends[0])), high=max(value, math.exp(ends[1])))

    def _logs(self) -> Floats:
        return np.array([*(math.log(max(each, 1e-9)) for each in (self.e, self.a, self.b)), self.alpha, self.beta])

    def _places(self) -> tuple[Floats, Floats, Floats]:
        return tuple(np.log(self.points / (self.n, self.d, 1)).T)  # pyright: ignore[reportReturnType]


LIMITS = (np.array([-21.0, -21.0, -21.0, 0.01, 0.01]), np.array([7.0, 7.0, 7.0, 2.0, 2.0]))


def unfit(parameters: Sequence[float], tokens: Sequence[float]) -> str:
    """Return why these runs do not determine the law, "" if they may."""
    if len(parameters) < LEAST_POINTS:
        return f"{len(parameters)} shapes were trained; the law of parameters and tokens needs {LEAST_POINTS}"
    x, y = np.log(np.asarray(parameters, np.float64)), np.log(np.asarray(tokens, np.float64))
    compute, ratio = x + y, y - x
    trend = np.polynomial.Polynomial.fit(compute, ratio, 1)
    spread = math.exp(float(np.ptp(ratio - trend(compute))))
    if spread < LEAST_SPREAD:
        return "tokens go with parameters in all runs, so their effects cannot be told apart; give spread=(0.5, 1, 2)"
    return ""


def fit(parameters: Sequence[float], tokens: Sequence[float], loss: Sequence[float]) -> SizesLaw:
    """Fit the law to one loss for each shape, the mean over its seeds."""
    from scipy.optimize import minimize, nnls

    points = np.column_stack([np.asarray(each, np.float64) for each in (parameters, tokens, loss)])
    n, d = (float(np.exp(np.log(points[:, at]).mean())) for at in (0, 1))
    x, y, target = np.log(points / (n, d, 1)).T
    weight = 1 / points[:, 2]
    starts: list[tuple[float, Floats]] = []
    for alpha in GRID:
        for beta in GRID:
            basis = np.column_stack([np.ones_like(x), np.exp(-alpha * x), np.exp(-beta * y)])
            found, _ = nnls(basis * weight[:, None], points[:, 2] * weight)
            theta = np.array([*np.log(np.maximum(found, 1e-9)), alpha, beta])
            starts.append((_objective(theta, x, y, target)[0], theta))
    starts.sort(key=lambda start: start[0])
    best = min(
        (
            minimize(
                _objective, start, args=(x, y, target), jac=True, method="L-BFGS-B",
                bounds=list(zip(*LIMITS, strict=True)),
                options={"ftol": 0.0, "gtol": 1e-9, "maxiter": 2000},
            )
            for _, start in starts[:STARTS]
        ),
        key=lambda found: float(found.fun),
    ).x  # fmt: skip
    e, a, b = (math.exp(each) for each in best[:3])
    return SizesLaw(e=e, a=a, b=b, alpha=float(best[3]), beta=float(best[4]), n=n, d=d, points=points)


def _law(theta: Floats, x: npt.ArrayLike, y: npt.ArrayLike) -> Floats:
    e, a, b, alpha, beta = theta
    return np.exp(e) + np.exp(a - alpha * np.asarray(x)) + np.exp(b - beta * np.asarray(y))


def _slopes(theta: Floats, x: Floats, y: Floats) -> Floats:
    """Return (R, 5), derivatives of the log of the law."""
    e, a, b, alpha, beta = theta
    parts = np.stack([np.full_like(x, math.exp(e)), np.exp(a - alpha * x), np.exp(b - beta * y)])
    return (np.stack([*parts, -parts[1] * x, -parts[2] * y]) / parts.sum(axis=0)).T


def _objective(theta: Floats, x: Floats, y: Floats, target: Floats) -> tuple[float, Floats]:
    """Return the sum of Huber losses of log residuals, in units of δ², and its gradient."""
    e, a, b, alpha, beta = theta
    parts = np.stack([np.full_like(x, math.exp(e)), np.exp(a - alpha * x), np.exp(b - beta * y)])
    whole = parts.sum(axis=0)
    rest = (np.log(whole) - target) / DELTA
    size = np.abs(rest)
    value = float(np.where(size <= 1, rest**2 / 2, size - 0.5).sum())
    slope = np.clip(rest, -1, 1) / whole / DELTA
    return value, np.array(
        [*(parts @ slope), -float((parts[1] * x) @ slope), -float((parts[2] * y) @ slope)], dtype=np.float64
    )
