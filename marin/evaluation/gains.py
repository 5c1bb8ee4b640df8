"""How much better than the control each candidate is, by one metric, over seeds and texts.

Seed k of every arm trained on the same checkpoint in the same order of data, and all were scored on the same texts.
So the difference of a candidate to the control varies with the seed, with the text, and with both together, each part
shrinking with its own number. The parts are those of a crossed two-way analysis of variance (Searle, Casella and
McCulloch 1992, ch. 4); what seeds do is pooled over all candidates, and over earlier experiments of the same family.

Three seeds say little of how far seeds spread, many texts much of how far texts do. Adding up degrees of freedom as
Satterthwaite does would let three seeds with one luck pass too often (11 % for 5 % with two seeds, 7 % with three). So
each part keeps its own, and chances are weighed by the parts' shares of the variance, as Cochran does with critical
values (Biometrics 20, 1964, p. 191); what seeds and texts do together is counted in both. That errs to the safe side.
"""

# pyright: basic
from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from marin.errors import CorruptOutput
from marin.evaluation.dunnett import dunnett_p
from marin.evaluation.statistics import POWER, SeedSpread, paired_spread

MOST_SEEDS, MOST_TIMES = 64, 64  # of more seeds, and more than so many times the texts, nobody is advised
FAR = 1e5  # standard errors

type Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """One metric of every run. amounts: by arm, (seeds, texts). sizes: (texts,), 1 where it is a mean of shares.

    chance: what a guess would get, None where that means nothing.
    """

    metric: str
    unit: str
    higher_is_better: bool
    amounts: Mapping[str, Values]
    sizes: Values
    chance: float | None = None

    def values(self, arm: str) -> Values:
        """(seeds,): all that a run has by all that there is."""
        return self.amounts[arm].sum(axis=1) / self.sizes.sum()

    def block(self) -> Values:
        """(arms, seeds)."""
        return np.array([self.values(arm) for arm in self.amounts])


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A candidate's mean over seeds and texts less the control's, turned so that more is better.

    of_seeds, of_texts, of_both: variances of a difference of one run on one text. spread_freedom: of the seeds' part, 0
    where nothing says how far seeds spread. candidates: how many were tried at once.
    """

    value: float
    of_seeds: float
    of_texts: float
    of_both: float
    seeds: int
    texts: int
    spread_freedom: int
    candidates: int

    @property
    def se(self) -> float:
        return math.sqrt(sum(self._parts))

    @property
    def p(self) -> float:
        """Dunnett's: the chance that the luckiest of all candidates is so far from the control if none differs."""
        return self._p(abs(self.value))

    def within(self, margin: float, level: float) -> bool:
        """Whether the whole interval of this level is closer to zero than the margin."""
        return abs(self.value) < margin and self._p(margin - abs(self.value)) <= level

    def interval(self, level: float) -> tuple[float, float]:
        half = self._critical(level) * self.se
        return self.value - half, self.value + half

    def detectable(self, level: float) -> float:
        """The smallest true gain or loss that 4 in 5 such experiments would show."""
        if not self.se:
            return 0.0
        critical, (share, freedoms) = self._critical(level), self._weights

        def missed(effect: float) -> float:
            each = [float(stats.nct.cdf(critical, freedom, effect)) for freedom in freedoms]
            return share * each[0] + (1 - share) * each[1] - (1 - POWER)

        return _root(missed, 4 * critical + 10, 1e-4) * self.se

    def with_more(self, seeds: int, texts: int) -> Gain:
        """As it would be with so many seeds and texts."""
        freedom = self.spread_freedom + self.candidates * (seeds - self.seeds)
        return replace(self, seeds=seeds, texts=texts, spread_freedom=freedom)

    def needed(self, effect: float, level: float) -> tuple[int, int] | None:
        """(seeds, texts) from which on an effect of this size would be shown 4 times in 5; None if hardly ever.

        As few times the texts as do, then as few seeds.
        """
        if not self.spread_freedom:
            return None
        for times in range(MOST_TIMES.bit_length()):
            texts = self.texts << times

            def shows(seeds: int, texts: int = texts) -> bool:
                return self.with_more(seeds, texts).detectable(level) <= effect

            if shows(MOST_SEEDS):
                return bisect_left(range(MOST_SEEDS), True, lo=max(2, self.seeds), key=shows), texts
        return None

    @property
    def noise(self) -> float | None:
        """The difference of two arms of so many seeds that luck of seeds alone passes once in twenty."""
        if not self.spread_freedom:
            return None
        return float(stats.t.isf(0.025, self.spread_freedom)) * math.sqrt(self._parts[0])

    @property
    def _parts(self) -> tuple[float, float]:
        """What seeds and what texts add to the variance of the mean."""
        both = self.of_both / self.seeds / self.texts if self.seeds > 1 else 0.0
        of_seeds = self.of_seeds / self.seeds + both if self.spread_freedom else 0.0
        return of_seeds, self.of_texts / self.texts + both

    @property
    def _weights(self) -> tuple[float, tuple[int, int]]:
        """The seeds' share of the variance, and the degrees of freedom of both parts."""
        of_seeds, of_texts = self._parts
        return of_seeds / (of_seeds + of_texts), (max(self.spread_freedom, 1), self.texts - 1)

    def _p(self, distance: float) -> float:
        return self._chance(distance / self.se) if self.se else 0.0 if distance else 1.0

    def _chance(self, t: float) -> float:
        share, freedoms = self._weights
        seeds, texts = (dunnett_p(t, self.candidates, freedom) for freedom in freedoms)
        return share * seeds + (1 - share) * texts

    def _critical(self, level: float) -> float:
        return _root(lambda t: self._chance(t) - level, FAR, 1e-6) if self.se else 0.0


def _root(of: Callable[[float], float], most: float, near: float) -> float:
    found: Any = brentq(of, 0.0, most, xtol=near)
    return float(found)


def gains(measured: Measured, control: str, family: Sequence[Values] = ()) -> dict[str, Gain]:
    """By candidate. family: blocks (arms, seeds) of the same metric on the same texts, from earlier experiments.

    Raises CorruptOutput for arms of unequally many runs.
    """
    ours = measured.amounts[control]
    for arm, amounts in measured.amounts.items():
        if amounts.shape != ours.shape:
            raise CorruptOutput(
                f"{measured.metric}: arm {arm} has {len(amounts)} runs, the control {control} {len(ours)}; wanted one "
                "for each seed of both"
            )
    spread = paired_spread([block.tolist() for block in (measured.block(), *family)])
    candidates = [arm for arm in measured.amounts if arm != control]
    found: dict[str, Gain] = {}
    for arm in candidates:
        apart = measured.amounts[arm] - ours
        rate = apart.sum() / measured.sizes.sum() / len(apart)
        # What each text adds to the difference of rates, linearised (Cochran 1977, eq. 6.13).
        each = (apart - rate * measured.sizes) / measured.sizes.mean() + rate
        found[arm] = _gain(each, float(rate if measured.higher_is_better else -rate), spread, len(candidates))
    return found


def _gain(each: Values, value: float, spread: SeedSpread | None, candidates: int) -> Gain:
    seeds, texts = each.shape
    by_text = float(each.mean(axis=0).var(ddof=1))
    both = 0.0
    if seeds > 1:
        rest = each - each.mean(axis=0) - each.mean(axis=1, keepdims=True) + each.mean()
        both = float((rest**2).sum()) / ((seeds - 1) * (texts - 1))
    by_seed = 2 * spread.variance if spread is not None else 0.0
    return Gain(
        value=value,
        of_seeds=max(0.0, by_seed - both / texts),
        of_texts=max(0.0, by_text - both / seeds),
        of_both=both,
        seeds=seeds,
        texts=texts,
        spread_freedom=spread.freedom if spread is not None else 0,
        candidates=candidates,
    )
