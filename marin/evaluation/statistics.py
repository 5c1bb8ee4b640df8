"""Means, differences and their intervals over the items of an evaluation.

An interval over items alone says how sure the difference of these two checkpoints is. Another seed may come out
differently, so one run an arm can never settle a question by itself. With several runs an arm, ``over_seeds`` adds the
spread of seeds. Items of one passage, document or subject count as one item: see marin.evaluation.groups.
"""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtr, stdtrit  # not scipy.stats: as exact, and a second sooner imported

from marin.errors import NothingScored
from marin.evaluation.two_parts import TwoParts, deciding, too_few

CONFIDENCE = 0.95
POWER = 0.8
BEYOND = 99.0  # standard errors; larger numbers are written "over 99"


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error and 95 % interval [low, high], from n items.

    p: two-sided, the chance of a value at least this far from zero if the true value is zero. freedom: degrees of
    freedom of the items' t. carry: the number of items of equal weight that would make the difference (the effective
    number of deciding items).
    """

    value: float
    se: float
    low: float
    high: float
    n: int
    freedom: float
    p: float
    carry: float = math.inf

    @property
    def z(self) -> float:
        """Return the number of standard errors from zero; infinite if all items agree exactly on another value."""
        if self.se > 0:
            return self.value / self.se
        return math.copysign(math.inf, self.value) if self.value else 0.0

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    @property
    def too_few(self) -> str:
        """Return why these items can show nothing; "" if they can."""
        return too_few(self.n, self.carry)


def mean(values: Sequence[float]) -> Estimate:
    """Return the mean with its t interval. Raises NothingScored for fewer than two values."""
    held = np.asarray(values, np.float64)
    _enough(len(held))
    return _estimate(held.mean(), held.std(ddof=1) / math.sqrt(len(held)), len(held) - 1, len(held))


def paired_difference(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Return the mean of a - b over the same items in the same order (paired t interval)."""
    return mean((np.asarray(a, np.float64) - np.asarray(b, np.float64)).tolist())


def unpaired_difference(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Return the mean of a minus the mean of b, over different items (Welch's t interval)."""
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    _enough(len(x))
    _enough(len(y))
    vx, vy = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    freedom = (vx + vy) ** 2 / (vx**2 / (len(x) - 1) + vy**2 / (len(y) - 1)) if vx + vy > 0 else 1.0
    return _estimate(x.mean() - y.mean(), math.sqrt(vx + vy), freedom, len(x) + len(y))


def pooled_difference(few: Sequence[float], many: Sequence[float]) -> Estimate:
    """Return the mean of few minus the mean of many, with one variance for both (Student's t interval).

    Use this for a few items that chance drew from among many. If the draw had no effect, both spread alike. Welch's
    interval would estimate the spread of the few from the few alone: with 5 items, luck alone passes z = 5 once in 130.
    """
    x, y = np.asarray(few, np.float64), np.asarray(many, np.float64)
    _enough(len(x))
    _enough(len(y))
    freedom = len(x) + len(y) - 2
    variance = ((len(x) - 1) * x.var(ddof=1) + (len(y) - 1) * y.var(ddof=1)) / freedom
    return _estimate(x.mean() - y.mean(), math.sqrt(variance * (1 / len(x) + 1 / len(y))), freedom, freedom + 2)


def paired_rate_difference(
    bits_a: Sequence[float], bits_b: Sequence[float], sizes: Sequence[int], groups: Sequence[str] = ()
) -> Estimate:
    """Return the bits per byte of a minus the bits per byte of b over the same texts, all bits by all bytes.

    groups: the group of each text, if some belong together. The texts of a group count as one text.

    This is a ratio estimator with a linearised variance (Cochran, Sampling Techniques, 3rd ed., eq. 6.13):
    each text's residual is its difference in bits minus the difference that its size predicts.
    """
    size = np.asarray(sizes, np.float64)
    difference = np.asarray(bits_a, np.float64) - np.asarray(bits_b, np.float64)
    if len(groups):
        _, place = np.unique(np.asarray(groups), return_inverse=True)
        size, difference = np.bincount(place, weights=size), np.bincount(place, weights=difference)
    _enough(len(size))
    rate = difference.sum() / size.sum()
    residual = (difference - rate * size) / size.mean()
    found = _estimate(rate, residual.std(ddof=1) / math.sqrt(len(size)), len(size) - 1, len(size))
    return replace(found, carry=deciding(difference))


@dataclass(frozen=True)
class SeedSpread:
    """The spread of runs that differ only in their seed: a variance with its degrees of freedom."""

    variance: float
    freedom: float


def seed_spread(mine: Sequence[float], theirs: Sequence[float], arms: Iterable[Sequence[float]]) -> SeedSpread | None:
    """Return the seed spread of the difference of two means over runs.

    Each arm has its own spread (Welch, Biometrika 34, 1947, p. 28). arms: the runs of all arms; an arm with a single
    run takes their pooled spread. None if every arm has a single run.
    """
    several = [np.asarray(runs, np.float64) for runs in arms if len(runs) > 1]
    if not several:
        return None
    freedom = sum(len(runs) - 1 for runs in several)
    pooled = float(sum((len(runs) - 1) * runs.var(ddof=1) for runs in several)) / freedom
    parts = [
        (float(np.var(runs, ddof=1)) / len(runs), len(runs) - 1) if len(runs) > 1 else (pooled, freedom)
        for runs in (mine, theirs)
    ]
    variance = sum(part for part, _ in parts)
    known = sum(part**2 / of for part, of in parts)
    return SeedSpread(variance, variance**2 / known if known else freedom)


def over_seeds(items: Estimate, spread: SeedSpread) -> Estimate:
    """Return the difference of two arms' means with an interval over items and seeds; see TwoParts.

    items: the difference over items, with values averaged over runs.
    """
    both = TwoParts(of_seeds=spread.variance, of_texts=items.se**2, freedoms=(spread.freedom, items.freedom))
    half = both.critical(1 - CONFIDENCE) * both.se
    return replace(items, se=both.se, low=items.value - half, high=items.value + half, p=both.p(items.value))


def holm(ps: Sequence[float]) -> list[float]:
    """Return p-values corrected for the family: if nothing differs, any falls below .05 at most one time in 20.

    Holm's step-down (Scandinavian Journal of Statistics 6, 1979, p. 65) holds for any dependence between metrics.
    """
    adjusted = [0.0] * len(ps)
    least = 0.0
    for rank, at in enumerate(sorted(range(len(ps)), key=lambda at: ps[at])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[at]))
        adjusted[at] = least
    return adjusted


def paired_spread(blocks: Iterable[npt.ArrayLike]) -> SeedSpread | None:
    """Return one variance for all runs, without the effects of arm and seed; None without two arms of two seeds.

    blocks: by experiment, a value for each arm (rows) and seed (columns). The arms of a seed share the order of data,
    so an effect of that order on all arms alike is no part of a difference between two arms.
    """
    squares, freedom = 0.0, 0
    for block in blocks:
        values = np.asarray(block, np.float64)
        arms, seeds = values.shape
        rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
        squares += float((rest**2).sum())
        freedom += (arms - 1) * (seeds - 1)
    return SeedSpread(squares / freedom, freedom) if freedom else None


def detectable_effect(se: float, z: float) -> float:
    """Return the smallest true effect that exceeds |z| in 80 % of repetitions, given the standard error."""
    return (z + float(ndtri(POWER))) * se


def errors_from_zero(z: float) -> str:
    """Return "12.0 standard errors above zero"."""
    far = f"over {BEYOND:.0f}" if abs(z) >= BEYOND else f"{abs(z):.1f}"
    return f"{far} standard errors {'above' if z > 0 else 'below'} zero"


def _estimate(value: float, se: float, freedom: float, n: int) -> Estimate:
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * float(se)
    p = 2 * float(stdtr(freedom, -abs(value) / se)) if se > 0 else float(not value)
    return Estimate(float(value), float(se), float(value) - half, float(value) + half, n, float(freedom), p)


def _enough(n: int) -> None:
    if n < 2:
        raise NothingScored(f"{n} item scored; an interval needs at least 2: score more items")
