"""How much better than the control each candidate is, by one metric, over seeds and texts.

Seed k of every arm trained on the same checkpoint in the same order of data, and all were scored on the same texts.
So the difference of a candidate to the control varies with the seed, with the text, and with both together, each part
shrinking with its own number. The parts are those of a crossed two-way analysis of variance (Searle, Casella and
McCulloch 1992, ch. 4). Texts that share a passage, a document or a subject are one text.

How far seeds spread is half a candidate's own, half the mean over all candidates and earlier experiments of the family:
one spread for all would let the arm with six times the luck of the others pass in 6 to 10 % of experiments, and each
arm's own, from three seeds, would find half as many true gains (benchmarks/evaluation/README.md).
"""

# pyright: basic
from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import nctdtr, stdtrit

from marin.errors import CorruptOutput
from marin.evaluation.statistics import POWER, SeedSpread, paired_spread
from marin.evaluation.two_parts import FEWEST, TwoParts, deciding, root, too_few

MOST_SEEDS, MOST_TIMES = 64, 64  # of more seeds, and more than so many times the texts, nobody is advised

type Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """One metric of every run. amounts: by arm, (seeds, texts). sizes: (texts,), 1 where it is a mean of shares.

    chance: what a guess would get, None where that means nothing. groups: of each text, what it shares with others; ()
    where they are independent. by: what that is: "passage".
    """

    metric: str
    unit: str
    higher_is_better: bool
    amounts: Mapping[str, Values]
    sizes: Values
    chance: float | None = None
    groups: Sequence[str] = ()
    by: str = ""

    @property
    def texts(self) -> int:
        return len(self.sizes)

    def grouped(self) -> Measured:
        """With all texts of a group as one."""
        if not self.groups:
            return self
        _, place = np.unique(np.asarray(self.groups), return_inverse=True)
        amounts = {
            arm: np.array([np.bincount(place, weights=run) for run in runs]) for arm, runs in self.amounts.items()
        }
        return replace(self, amounts=amounts, sizes=np.bincount(place, weights=self.sizes), groups=())

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
    where nothing says how far seeds spread. candidates: how many were tried at once. texts: groups, where texts have
    some. carry: as how many texts of equal weight those are that make the difference.
    """

    value: float
    of_seeds: float
    of_texts: float
    of_both: float
    seeds: int
    texts: int
    spread_freedom: float
    candidates: int
    carry: float = math.inf

    @property
    def se(self) -> float:
        return self._parts.se

    @property
    def p(self) -> float:
        """Dunnett's: the chance that the luckiest of all candidates is so far from the control if none differs."""
        return self._parts.p(self.value)

    @property
    def too_few(self) -> str:
        """Why nothing is concluded from these texts, "" if something may be."""
        return too_few(self.texts, self.carry)

    def within(self, margin: float, level: float) -> bool:
        """Whether the whole interval of this level is closer to zero than the margin."""
        inside = abs(self.value) < margin and self._parts.p(margin - abs(self.value)) <= level
        return inside and self.texts >= FEWEST

    def interval(self, level: float) -> tuple[float, float]:
        half = self._parts.critical(level) * self.se
        return self.value - half, self.value + half

    def detectable(self, level: float) -> float:
        """The smallest true gain or loss that 4 in 5 such experiments would show."""
        parts = self._parts
        if not parts.se:
            return 0.0
        critical = parts.critical(level)

        def missed(effect: float) -> float:
            each = [float(nctdtr(freedom, effect, critical)) for freedom in parts.freedoms]
            return parts.share * each[0] + (1 - parts.share) * each[1] - (1 - POWER)

        return root(missed, 4 * critical + 10, 1e-4) * parts.se

    def with_more(self, seeds: int, texts: int) -> Gain:
        """As it would be with so many seeds and texts."""
        freedom = self.spread_freedom + _freedom_a_seed(self.candidates) * (seeds - self.seeds)
        return replace(self, seeds=seeds, texts=texts, spread_freedom=min(freedom, 4 * (seeds - 1)))

    def needed(self, effect: float, level: float) -> tuple[int, int] | None:
        """(seeds, texts) from which on an effect of this size would be shown 4 times in 5; None if hardly ever.

        As few times the texts as do, then as few seeds.
        """
        if not self.spread_freedom:
            return None
        for times in range(MOST_TIMES.bit_length()):
            texts = self.texts << times

            def shows(seeds: int, texts: int = texts) -> bool:
                return texts >= FEWEST and self.with_more(seeds, texts).detectable(level) <= effect

            if shows(MOST_SEEDS):
                return bisect_left(range(MOST_SEEDS), True, lo=max(2, self.seeds), key=shows), texts
        return None

    @property
    def noise(self) -> float | None:
        """The difference of two arms of so many seeds that luck of seeds alone passes once in twenty."""
        if not self.spread_freedom:
            return None
        return float(stdtrit(self.spread_freedom, 0.975)) * math.sqrt(self._parts.of_seeds)

    @property
    def _parts(self) -> TwoParts:
        """What seeds and texts do together is counted in both."""
        both = self.of_both / self.seeds / self.texts if self.seeds > 1 else 0.0
        return TwoParts(
            of_seeds=self.of_seeds / self.seeds + both if self.spread_freedom else 0.0,
            of_texts=self.of_texts / self.texts + (both if not self.spread_freedom else 0.0),
            freedoms=(max(self.spread_freedom, 1), self.texts - 1),
            candidates=self.candidates,
        )


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
    candidates = [arm for arm in measured.amounts if arm != control]
    grouped = measured.grouped()
    ours, sizes = grouped.amounts[control], grouped.sizes
    each = {arm: grouped.amounts[arm] - ours for arm in candidates}
    spreads = _spreads({arm: apart.sum(axis=1) / sizes.sum() for arm, apart in each.items()}, family)
    found: dict[str, Gain] = {}
    for arm, apart in each.items():
        rate = apart.sum() / sizes.sum() / len(apart)
        # What each text adds to the difference of rates, linearised (Cochran 1977, eq. 6.13).
        linear = (apart - rate * sizes) / sizes.mean() + rate
        gain = _gain(linear, float(rate if measured.higher_is_better else -rate), spreads.get(arm), len(candidates))
        found[arm] = replace(gain, carry=deciding(apart.sum(axis=0)))
    return found


def _freedom_a_seed(candidates: int) -> float:
    """Degrees of freedom that a seed more gives to the mean spread of so many differences to one control.

    From the trace of their covariance, 1 + 1 on and 1 off the diagonal: 1 for one candidate, 2 for three, never 4.
    """
    return 4 * candidates / (candidates + 3)


def _spreads(by_seed: Mapping[str, Values], family: Sequence[Values]) -> dict[str, SeedSpread]:
    """By candidate, the variance of its difference over seeds, half its own and half the mean of all; {} for one seed
    of a family that nobody knows. by_seed: (seeds,) differences."""
    seeds = len(next(iter(by_seed.values())))
    own = {arm: float(values.var(ddof=1)) for arm, values in by_seed.items()} if seeds > 1 else {}
    freedom = _freedom_a_seed(len(own)) * (seeds - 1) if own else 0.0
    total = sum(own.values()) / len(own) * freedom if own else 0.0
    if (lent := paired_spread(family)) is not None:
        total, freedom = total + 2 * lent.variance * lent.freedom, freedom + lent.freedom
    if not freedom:
        return {}
    mean = total / freedom
    return {
        arm: SeedSpread((own[arm] + mean) / 2 if own else mean, min(freedom, 4 * (seeds - 1)) if own else freedom)
        for arm in by_seed
    }


def _gain(each: Values, value: float, spread: SeedSpread | None, candidates: int) -> Gain:
    seeds, texts = each.shape
    by_text = float(each.mean(axis=0).var(ddof=1))
    both = 0.0
    if seeds > 1:
        rest = each - each.mean(axis=0) - each.mean(axis=1, keepdims=True) + each.mean()
        both = float((rest**2).sum()) / ((seeds - 1) * (texts - 1))
    return Gain(
        value=value,
        of_seeds=max(0.0, (spread.variance if spread is not None else 0.0) - both / texts),
        of_texts=max(0.0, by_text - both / seeds),
        of_both=both,
        seeds=seeds,
        texts=texts,
        spread_freedom=spread.freedom if spread is not None else 0,
        candidates=candidates,
    )
