"""Means, differences and their intervals over the items of an evaluation.

An interval over items alone says how sure the difference of these two checkpoints is, not how another seed would
have come out: one run an arm can never settle a question by itself. With several runs an arm, ``over_seeds`` adds how
far seeds spread. Items of one passage, document or subject are one item: see marin.evaluation.groups.
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
BEYOND = 99.0  # standard errors: of more nobody asks how many


@dataclass(frozen=True)
class Estimate:
    """value with its standard error and 95 % interval [low, high], from n items.

    p: how often a true value of zero would come out as far from it as this, on either side. freedom: degrees of, of the
    items' t. carry: as how many items of equal weight those are that make a difference.
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
        """Standard errors away from zero; infinite where every item agrees exactly and not on zero."""
        if self.se > 0:
            return self.value / self.se
        return math.copysign(math.inf, self.value) if self.value else 0.0

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    @property
    def too_few(self) -> str:
        """Why these items show nothing, "" if they may."""
        return too_few(self.n, self.carry)


def mean(values: Sequence[float]) -> Estimate:
    """Mean with its t interval. Raises NothingScored for fewer than two values."""
    held = np.asarray(values, np.float64)
    _enough(len(held))
    return _estimate(held.mean(), held.std(ddof=1) / math.sqrt(len(held)), len(held) - 1, len(held))


def paired_difference(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Mean of a - b over items that both have, in the same order (paired t interval)."""
    return mean((np.asarray(a, np.float64) - np.asarray(b, np.float64)).tolist())


def unpaired_difference(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Mean of a minus mean of b, different items (Welch's t interval)."""
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    _enough(len(x))
    _enough(len(y))
    vx, vy = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    freedom = (vx + vy) ** 2 / (vx**2 / (len(x) - 1) + vy**2 / (len(y) - 1)) if vx + vy > 0 else 1.0
    return _estimate(x.mean() - y.mean(), math.sqrt(vx + vy), freedom, len(x) + len(y))


def pooled_difference(few: Sequence[float], many: Sequence[float]) -> Estimate:
    """Mean of few minus mean of many, with one variance for both (Student's t interval).

    For a few items that chance drew from among many. If drawing them did nothing, they spread as the others do;
    Welch's interval would take their spread from the few alone, and beyond z = 5 by luck once in 130 for 5 items.
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
    """Bits per byte of a minus those of b over the same texts, all bits by all bytes.

    groups: of each text, where some belong together: those are one.

    A ratio estimator; its variance by linearisation (Cochran, Sampling Techniques, 3rd ed., eq. 6.13):
    each text's residual is its difference in bits minus what its size predicts.
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
    """How far runs of one arm lie apart that differ in their seed alone: variance, from so many degrees of freedom."""

    variance: float
    freedom: float


def seed_spread(mine: Sequence[float], theirs: Sequence[float], arms: Iterable[Sequence[float]]) -> SeedSpread | None:
    """Of the difference of two means over runs: each arm with its own spread (Welch, Biometrika 34, 1947, p. 28).

    arms: the runs of all, whose spread on the mean is taken for an arm of a single run. None where all are of one.
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
    """A difference of two arms' means over their runs, with an interval over items and seeds; see TwoParts.

    items: the difference over items, of values averaged over runs.
    """
    both = TwoParts(of_seeds=spread.variance, of_texts=items.se**2, freedoms=(spread.freedom, items.freedom))
    half = both.critical(1 - CONFIDENCE) * both.se
    return replace(items, se=both.se, low=items.value - half, high=items.value + half, p=both.p(items.value))


def holm(ps: Sequence[float]) -> list[float]:
    """Each of these p-values as it is when all of them are looked at: below .05 one time in 20 in the whole family.

    Holm's step-down (Scandinavian Journal of Statistics 6, 1979, p. 65): right however the metrics depend on another.
    """
    adjusted = [0.0] * len(ps)
    least = 0.0
    for rank, at in enumerate(sorted(range(len(ps)), key=lambda at: ps[at])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[at]))
        adjusted[at] = least
    return adjusted


def paired_spread(blocks: Iterable[npt.ArrayLike]) -> SeedSpread | None:
    """One variance for all runs, what is the arm's or the seed's own taken out; None without two arms of two seeds.

    blocks: by experiment, a value for each arm (rows) and seed (columns). Arms share the order of data of a seed, so
    what that does to all of them alike is no part of a difference between two.
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
    """The smallest true effect that passes |z| in 80 % of repetitions, given the standard error."""
    return (z + float(ndtri(POWER))) * se


def errors_from_zero(z: float) -> str:
    """ "12.0 standard errors above zero" """
    far = f"over {BEYOND:.0f}" if abs(z) >= BEYOND else f"{abs(z):.1f}"
    return f"{far} standard errors {'above' if z > 0 else 'below'} zero"


def _estimate(value: float, se: float, freedom: float, n: int) -> Estimate:
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * float(se)
    p = 2 * float(stdtr(freedom, -abs(value) / se)) if se > 0 else float(not value)
    return Estimate(float(value), float(se), float(value) - half, float(value) + half, n, float(freedom), p)


def _enough(n: int) -> None:
    if n < 2:
        raise NothingScored(f"{n} item scored; an interval needs at least 2, so score more items")
