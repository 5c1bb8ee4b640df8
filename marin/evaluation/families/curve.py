"""Fit the metric of a sweep as a quadratic in the logarithm of the swept value, and find the curve's minimum.

Shapes: V values, S seeds, n = V · S runs.
"""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc, stdtrit

from marin.evaluation.dunnett import dunnett_p

NEIGHBOURS = 2  # values on either side of the best one that the quadratic is fitted to; far values follow no parabola
LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Minimum:
    """The minimum of a fitted curve. low, high: its 95 % interval; None where the data do not bound that side."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How far runs of one value lie apart by their seed. deviation: of one run. freedom: degrees of, 0 for unknown.

    p: probability of differences between the values as large as these if no value mattered (F test).
    """

    deviation: float
    freedom: int
    p: float


def is_geometric(values: Sequence[float]) -> bool:
    """Return whether the values belong on a logarithmic axis: all positive, and the largest over 2 times the least."""
    return min(values) > 0 and max(values) > 2 * min(values)


def noise(runs: npt.ArrayLike) -> Noise:
    """Return how far seeds spread, with the effect of each seed on all values taken out.

    runs: (V, S). Seed k reads the same data in the same order for every value, so the two-way layout without
    interaction separates values, seeds and noise (Searle, Casella and McCulloch 1992, ch. 4).
    """
    held = np.asarray(runs, np.float64)
    values, seeds = held.shape
    if seeds < 2 or values < 2:
        return Noise(deviation=math.nan, freedom=0, p=math.nan)
    means = held.mean(axis=1)
    rest = held - means[:, None] - held.mean(axis=0) + held.mean()
    freedom = (values - 1) * (seeds - 1)
    variance = float((rest**2).sum()) / freedom
    between = seeds * float(((means - means.mean()) ** 2).sum()) / (values - 1)
    if variance == 0:
        return Noise(deviation=0.0, freedom=freedom, p=1.0 if between == 0 else 0.0)
    return Noise(
        deviation=math.sqrt(variance), freedom=freedom, p=float(fdtrc(values - 1, freedom, between / variance))
    )


def as_good(means: Sequence[float], found: Noise, seeds: int) -> list[bool]:
    """Return for each value whether it may be the best: its mean is not shown to be above the lowest mean.

    Multiple comparisons with the best (Hsu 1981, Annals of Statistics 9, p. 1026), at Dunnett's two-sided level, which
    keeps more values than the one-sided level. Without an estimate of the noise all values may be the best.
    """
    if not found.freedom:
        return [True] * len(means)
    best, error = min(means), found.deviation * math.sqrt(2 / seeds)
    return [
        mean == best or (error > 0 and dunnett_p((mean - best) / error, len(means) - 1, found.freedom) > LEVEL)
        for mean in means
    ]


def minimum(values: Sequence[float], runs: npt.ArrayLike, *, geometric: bool) -> Minimum | None:
    """Return the minimum of a quadratic through the best value and its NEIGHBOURS on either side.

    values: (V,) ascending. runs: (V, S), the metric of each run, lower is better. geometric: the quadratic is in the
    logarithm of the values. The interval is Fieller's for the ratio −b / 2c of two estimated coefficients (Fieller
    1954, J. R. Stat. Soc. B 16, p. 175), with one offset for each seed. Without a degree of freedom it is open.
    Returns None for fewer than three values, or if the fitted curve has no minimum.
    """
    held = np.asarray(runs, np.float64)
    best = int(held.mean(axis=1).argmin())
    first, last = max(0, best - NEIGHBOURS), min(len(values), best + NEIGHBOURS + 1)
    held, near = held[first:last], np.asarray(values[first:last], np.float64)
    count, seeds = held.shape
    if count < 3:
        return None
    place = np.log(near) if geometric else near
    middle, width = float(place.mean()), float(np.ptp(place)) / 2
    x = np.repeat((place - middle) / width, seeds)
    offsets = np.tile(np.eye(seeds), (count, 1))
    design = np.column_stack([x, x * x, offsets])
    fitted, *_ = np.linalg.lstsq(design, held.ravel(), rcond=None)
    slope, bend = float(fitted[0]), float(fitted[1])
    if bend <= 0:
        return None
    freedom = count * seeds - design.shape[1]

    def written(at: float) -> float:
        scaled = middle + width * at
        return math.exp(scaled) if geometric else scaled

    value = written(-slope / (2 * bend))
    if freedom < 1:
        return Minimum(value=value, low=None, high=None)
    variance = float(((held.ravel() - design @ fitted) ** 2).sum()) / freedom
    covariance = variance * np.linalg.inv(design.T @ design)[:2, :2]
    ends = _fieller(slope, bend, covariance, float(stdtrit(freedom, 1 - LEVEL / 2)))
    low, high = (None if end is None else written(end) for end in ends)
    return Minimum(value=value, low=low, high=high)


def _fieller(
    slope: float, bend: float, covariance: npt.NDArray[np.float64], t: float
) -> tuple[float | None, float | None]:
    """Return the ends of {v: |slope + 2 v bend| <= t · its standard error}; (None, None) where that is unbounded."""
    a = 4 * (bend**2 - t**2 * float(covariance[1, 1]))
    b = 4 * (slope * bend - t**2 * float(covariance[0, 1]))
    c = slope**2 - t**2 * float(covariance[0, 0])
    inside = b**2 - 4 * a * c
    if a <= 0 or inside < 0:
        return None, None
    root = math.sqrt(inside)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)
