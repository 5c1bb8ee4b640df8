"""Fit loss against compute as E + A · C^-α, and predict the loss of a larger run with an interval.

Rungs are the unit: seeds of one rung share its shape, batch and learning rate, so their mean is one observation, and
the deviations of rungs from the curve give the noise. Delphi resamples whole rungs for the same reason (Held 2026,
openathena.ai/blog/delphi). Residuals are relative to the loss.

Intervals are profile likelihoods (Bates and Watts 1988, Nonlinear Regression Analysis, ch. 6): all values of the
prediction with which some curve fits nearly as well as the best one, by the F distribution. In simulations of 5 to 9
rungs over 1.2 to 2 decades, with targets 10 to 300 times beyond and noise of seeds, rungs or both, they covered 93 to
99 % where 95 % were asked for. Resampled residuals covered 80 to 88 %. Resampled rungs covered 92 to 98 % with
intervals a little wider, at hundreds of fits each.

Shapes: R rungs, P exponents.
"""

# pyright: basic
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import fdtri

LEVEL = 0.95
PARAMETERS = 3  # E, A and α
LEAST_RUNGS = PARAMETERS + 2  # so that a fit without the largest rung still knows its noise
EXPONENTS = (0.01, 2.0)  # compute exponents of language models lie between 0.03 and 0.4
STEPS = 400  # exponents of a profile
HEIGHTS = 150  # of a profile

type Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Range:
    """A prediction with its interval."""

    value: float
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, kw_only=True)
class PowerLaw:
    """E + A · (C / middle)^-α. compute, loss: (R,), of the rungs. of_seeds: relative variance of one run by its seed.

    seeds: runs of a rung, whose mean its loss is.
    """

    compute: Floats
    loss: Floats
    e: float
    a: float
    alpha: float
    middle: float
    squares: float  # sum of squared relative residuals
    seeds: int = 1
    of_seeds: float = 0.0

    @property
    def freedom(self) -> int:
        return len(self.loss) - PARAMETERS

    @property
    def noise(self) -> float:
        """Standard deviation of a rung from the curve, relative to its loss."""
        return math.sqrt(self.squares / self.freedom)

    @property
    def falls(self) -> bool:
        return self.a > 0

    def at(self, compute: npt.ArrayLike) -> Floats:
        return self.e + self.a * (np.asarray(compute, np.float64) / self.middle) ** -self.alpha

    def predicted(self, compute: float, runs: int = 1, level: float = LEVEL) -> Range:
        """Return the loss of a further rung, a mean over so many runs, with its interval."""
        return self._range(compute, self._of_one(runs), self._bound(level))

    def curve(self, compute: float) -> Range:
        """Return the height of the curve with its interval: the mean over many rungs of that size."""
        return self._range(compute, 0.0, self._bound(LEVEL))

    def profile(self, compute: float, bound: float) -> tuple[Floats, Floats]:
        """Return heights of the curve there, and for each the least sum of squares of a curve of that height: of all
        heights whose sum is at most ``bound``."""
        ends = self._range(compute, 0.0, bound)
        heights = np.linspace(ends.low, ends.high, HEIGHTS)
        plain, zero = self._lines(compute, bound)
        squares, values, levers, e, tilt = (each[:, None] for each in plain)
        free = np.where(e + tilt * (heights - values) >= 0, squares + (heights - values) ** 2 / levers, np.inf)
        squares, values, levers = (each[:, None] for each in zero)
        return heights, np.minimum(free.min(axis=0), (squares + (heights - values) ** 2 / levers).min(axis=0))

    def with_rung(self, compute: float) -> PowerLaw:
        """Return the law as it is expected after a further rung of this size: the same curve, known better."""
        return replace(
            self,
            compute=np.append(self.compute, compute),
            loss=np.append(self.loss, self.at(compute)),
            squares=self.noise**2 * (self.freedom + 1),
        )

    def _bound(self, level: float) -> float:
        """Sum of squares up to which a curve fits nearly as well as the best one."""
        return self.squares * (1 + float(fdtri(1, self.freedom, level)) / self.freedom)

    def _of_one(self, runs: int) -> float:
        """Variance of a rung of so many runs, in units of the variance of the rungs that were fitted."""
        more = (1 / runs - 1 / self.seeds) * self.of_seeds
        return 1.0 + max(0.0, more / self.noise**2) if more > 0 else 1.0

    def _range(self, compute: float, own: float, bound: float) -> Range:
        """Return the heights with which a curve's squares are at most ``bound``. own: variance of what is predicted."""
        value = float(self.at(compute))
        ends = [value]
        plain, zero = self._lines(compute, bound)
        squares, values, levers, e, tilt = plain
        whole = levers + own * value**2
        reach = np.sqrt(np.maximum(bound - squares, 0) * whole)
        tilt = tilt * levers / whole
        # The height at which the best curve of an exponent has E = 0. Beyond it E stays 0, which ``zero`` covers.
        with np.errstate(divide="ignore", invalid="ignore"):
            edge = values - e / tilt
        lows = np.where(tilt > 0, np.maximum(values - reach, edge), values - reach)
        highs = np.where(tilt < 0, np.minimum(values + reach, edge), values + reach)
        good = (squares <= bound) & (lows <= highs)
        ends += [*lows[good], *highs[good]]
        squares, values, levers = zero
        reach = np.sqrt(np.maximum(bound - squares, 0) * (levers + own * value**2))
        good = squares <= bound
        ends += [*(values - reach)[good], *(values + reach)[good]]
        return Range(value=value, low=max(float(min(ends)), 0.0), high=float(max(ends)))

    def _lines(self, compute: float, bound: float) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
        """Return for each exponent the best E and A: their squares, height there, variance of the height, E, and how
        much E rises with the height. First with E free, then with E = 0, which has no last two."""
        alphas = self._exponents(bound)
        weight = 1 / self.loss**2
        basis = np.exp(-np.outer(alphas, np.log(self.compute / self.middle)))
        there = np.exp(-alphas * math.log(compute / self.middle))
        s0, s1, s2 = weight.sum(), basis @ weight, (basis**2) @ weight
        t0, t1 = (weight * self.loss).sum(), basis @ (weight * self.loss)
        determinant = s0 * s2 - s1**2
        e, a = (s2 * t0 - s1 * t1) / determinant, (s0 * t1 - s1 * t0) / determinant
        squares = ((self.loss - (e[:, None] + a[:, None] * basis)) ** 2) @ weight
        lever = (s2 - 2 * s1 * there + s0 * there**2) / determinant
        tilt = (s2 - s1 * there) / determinant / lever
        only = t1 / s2
        squares_only = ((self.loss - only[:, None] * basis) ** 2) @ weight
        return (squares, e + a * there, lever, e, tilt), (squares_only, only * there, there**2 / s2)

    def _exponents(self, bound: float) -> Floats:
        """Return (P,) exponents, the best one and those whose best curve has squares of at most ``bound``."""

        def over(log_alpha: float) -> float:
            return _squares(math.exp(log_alpha), self.compute / self.middle, self.loss)[0] - bound

        best, ends = math.log(self.alpha), []
        for end in map(math.log, EXPONENTS):
            if over(best) >= 0:
                ends.append(best)
            else:
                ends.append(end if over(end) <= 0 else _root(over, best, end))
        return np.exp(np.append(np.linspace(ends[0], ends[1], STEPS), best))


def difference(one: PowerLaw, other: PowerLaw, compute: float) -> Range:
    """Return other − one in the height of the curves there, with its interval: a profile over both, with one noise."""
    freedom = one.freedom + other.freedom
    more = (one.squares + other.squares) / freedom * float(fdtri(1, freedom, LEVEL))
    heights, squares = one.profile(compute, one.squares + more)
    others, other_squares = other.profile(compute, other.squares + more)
    fits = squares[:, None] + other_squares[None, :] <= one.squares + other.squares + more
    apart = (others[None, :] - heights[:, None])[fits]
    value = float(other.at(compute)) - float(one.at(compute))
    return Range(value=value, low=min(value, *apart.tolist()), high=max(value, *apart.tolist()))


def crossings(one: PowerLaw, other: PowerLaw, low: float, high: float) -> list[float]:
    """Return the compute at which the fitted curves cross, between low and high."""

    def apart(log_compute: float) -> float:
        return float(other.at(math.exp(log_compute)) - one.at(math.exp(log_compute)))

    places = np.linspace(math.log(low), math.log(high), STEPS)
    return [
        math.exp(_root(apart, left, right))
        for left, right in itertools.pairwise(places)
        if apart(left) * apart(right) < 0
    ]


def fit(compute: Sequence[float], runs: Sequence[Sequence[float]]) -> PowerLaw:
    """Fit the law to the mean of each rung's runs.

    runs: by rung, the loss of each seed. For each exponent, E and A come from linear least squares with E ≥ 0; the
    exponent is the best of EXPONENTS (variable projection, Golub and Pereyra 1973). Raises ValueError for fewer rungs
    than one more than PARAMETERS.
    """
    from scipy.optimize import minimize_scalar

    if len(runs) <= PARAMETERS:
        raise ValueError(f"{len(runs)} rungs; a law of {PARAMETERS} parameters needs at least {PARAMETERS + 1}")
    c, loss = np.asarray(compute, np.float64), np.array([np.mean(each) for each in runs])
    middle = float(np.exp(np.log(c).mean()))
    grid = np.linspace(math.log(EXPONENTS[0]), math.log(EXPONENTS[1]), 60)
    heights = [_squares(math.exp(each), c / middle, loss)[0] for each in grid]
    best = int(np.argmin(heights))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found: Any = minimize_scalar(
        lambda each: _squares(math.exp(each), c / middle, loss)[0], bounds=around, method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    alpha = math.exp(float(found.x))
    squares, e, a = _squares(alpha, c / middle, loss)
    freedom = sum(len(each) - 1 for each in runs)
    inside = sum(float(((np.asarray(each) / np.mean(each) - 1) ** 2).sum()) for each in runs)
    return PowerLaw(
        compute=c, loss=loss, e=e, a=a, alpha=alpha, middle=middle, squares=max(squares, 1e-18),
        seeds=min(len(each) for each in runs), of_seeds=inside / freedom if freedom else 0.0,
    )  # fmt: skip


def _squares(alpha: float, compute: Floats, loss: Floats) -> tuple[float, float, float]:
    """Return the sum of squared relative residuals of the best E ≥ 0 and A with this exponent, E, and A."""
    basis = compute**-alpha
    weight = 1 / loss**2
    s0, s1, s2 = weight.sum(), (weight * basis).sum(), (weight * basis**2).sum()
    t0, t1 = (weight * loss).sum(), (weight * basis * loss).sum()
    determinant = s0 * s2 - s1**2
    e = (s2 * t0 - s1 * t1) / determinant
    a = (s0 * t1 - s1 * t0) / determinant
    if e < 0:
        e, a = 0.0, t1 / s2
    return float((weight * (loss - e - a * basis) ** 2).sum()), float(e), float(a)


def _root(of: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    found: Any = brentq(of, low, high)
    return float(found)
