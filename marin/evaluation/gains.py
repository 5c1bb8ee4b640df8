"""The gain of each candidate over the control on one metric, over seeds and texts.

Seed k of every arm starts from the same checkpoint and reads data in the same order, and all arms are scored on the
same texts. So the difference between a candidate and the control varies with the seed, with the text, and with both
together. Each part shrinks with its own number. The parts come from a crossed two-way analysis of variance (Searle,
Casella and McCulloch 1992, ch. 4). Texts that share a passage, a document or a subject count as one text.

The spread of seeds is half the candidate's own, and half the mean over all candidates and earlier experiments of the
family. With one spread for all, an arm with six times the luck of the others would pass in 6 to 10 % of experiments.
With each arm's own spread, from three seeds, an experiment would find half as many true gains
(benchmarks/evaluation/README.md).
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

MOST_SEEDS, MOST_TIMES = 64, 64  # marin never advises more seeds, or more times the texts

type Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """One metric of every run.

    amounts: by arm, (seeds, texts). sizes: (texts,), all 1 for a mean of shares. chance: the score of a guess; None if
    a guess means nothing. groups: the group of each text; () if the texts are independent. by: the thing that texts of
    a group share, as "passage".
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
        """Return the metric with all texts of a group as one text."""
        if not self.groups:
            return self
        _, place = np.unique(np.asarray(self.groups), return_inverse=True)
        amounts = {
            arm: np.array([np.bincount(place, weights=run) for run in runs]) for arm, runs in self.amounts.items()
        }
        return replace(self, amounts=amounts, sizes=np.bincount(place, weights=self.sizes), groups=())

    def values(self, arm: str) -> Values:
        """Return (seeds,): for each run the sum of amounts by the sum of sizes."""
        return self.amounts[arm].sum(axis=1) / self.sizes.sum()

    def block(self) -> Values:
        """Return the values of all arms: (arms, seeds)."""
        return np.array([self.values(arm) for arm in self.amounts])


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A candidate's mean over seeds and texts less the control's, with the sign turned so that more is better.

    of_seeds, of_texts, of_both: variance components of the difference of one run on one text. spread_freedom: degrees
    of freedom of the seeds' part; 0 if the spread of seeds is unknown. candidates: the number tried at once. texts: the
    number of texts, or of groups if texts have groups. carry: the number of texts of equal weight that would make the
    difference (the effective number of deciding texts).
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
        """Return Dunnett's p: the chance of so large a gain or loss for any candidate if none differs."""
        return self._parts.p(self.value)

    @property
    def too_few(self) -> str:
        """Return why these texts allow no conclusion; "" if they do."""
        return too_few(self.texts, self.carry)

    def within(self, margin: float, level: float) -> bool:
        """Return whether the whole interval at this level is closer to zero than the margin."""
        inside = abs(self.value) < margin and self._parts.p(margin - abs(self.value)) <= level
        return inside and self.texts >= FEWEST

    def interval(self, level: float) -> tuple[float, float]:
        half = self._parts.critical(level) * self.se
        return self.value - half, self.value + half

    def detectable(self, level: float) -> float:
        """Return the smallest true gain or loss that 4 in 5 experiments like this one would show."""
        parts = self._parts
        if not parts.se:
            return 0.0
        critical = parts.critical(level)

        def missed(effect: float) -> float:
            each = [float(nctdtr(freedom, effect, critical)) for freedom in parts.freedoms]
            return parts.share * each[0] + (1 - parts.share) * each[1] - (1 - POWER)

        return root(missed, 4 * critical + 10, 1e-4) * parts.se

    def with_more(self, seeds: int, texts: int) -> Gain:
        """Return the gain as expected with this number of seeds and texts."""
        freedom = self.spread_freedom + _freedom_a_seed(self.candidates) * (seeds - self.seeds)
        return replace(self, seeds=seeds, texts=texts, spread_freedom=min(freedom, 4 * (seeds - 1)))

    def needed(self, effect: float, level: float) -> tuple[int, int] | None:
        """Return the least (seeds, texts) that would show an effect of this size 4 times in 5.

        The least multiple of the texts comes first, then the fewest seeds. None if MOST_SEEDS seeds on MOST_TIMES times
        the texts do not suffice, or if the spread of seeds is unknown.
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
        """Return the noise floor: the difference of two arms that luck of seeds alone exceeds once in twenty."""
        if not self.spread_freedom:
            return None
        return float(stdtrit(self.spread_freedom, 0.975)) * math.sqrt(self._parts.of_seeds)

    @property
    def _parts(self) -> TwoParts:
        """Return the variance in two parts: seeds and texts.

        The joint part counts with the seeds; if the spread of seeds is unknown, it counts with the texts."""
        both = self.of_both / self.seeds / self.texts if self.seeds > 1 else 0.0
        return TwoParts(
            of_seeds=self.of_seeds / self.seeds + both if self.spread_freedom else 0.0,
            of_texts=self.of_texts / self.texts + (both if not self.spread_freedom else 0.0),
            freedoms=(max(self.spread_freedom, 1), self.texts - 1),
            candidates=self.candidates,
        )


def gains(measured: Measured, control: str, family: Sequence[Values] = ()) -> dict[str, Gain]:
    """Return the gain of each candidate.

    family: blocks (arms, seeds) of the same metric on the same texts, from earlier experiments. Raises CorruptOutput if
    an arm has more or fewer runs than the control.
    """
    ours = measured.amounts[control]
    for arm, amounts in measured.amounts.items():
        if amounts.shape != ours.shape:
            raise CorruptOutput(
                f"{measured.metric}: arm {arm} has {len(amounts)} runs, the control {control} {len(ours)}; wanted one "
                "run for each seed in both"
            )
    candidates = [arm for arm in measured.amounts if arm != control]
    grouped = measured.grouped()
    ours, sizes = grouped.amounts[control], grouped.sizes
    each = {arm: grouped.amounts[arm] - ours for arm in candidates}
    spreads = _spreads({arm: apart.sum(axis=1) / sizes.sum() for arm, apart in each.items()}, family)
    found: dict[str, Gain] = {}
    for arm, apart in each.items():
        rate = apart.sum() / sizes.sum() / len(apart)
        # Each text's part of the difference of rates, linearised (Cochran 1977, eq. 6.13).
        linear = (apart - rate * sizes) / sizes.mean() + rate
        gain = _gain(linear, float(rate if measured.higher_is_better else -rate), spreads.get(arm), len(candidates))
        found[arm] = replace(gain, carry=deciding(apart.sum(axis=0)))
    return found


def _freedom_a_seed(candidates: int) -> float:
    """Return the degrees of freedom that one more seed adds to the mean spread of the candidates' differences.

    All differences share one control. The number follows from the trace of their covariance, 1 + 1 on and 1 off the
    diagonal: 1 for one candidate, 2 for three, always below 4.
    """
    return 4 * candidates / (candidates + 3)


def _spreads(by_seed: Mapping[str, Values], family: Sequence[Values]) -> dict[str, SeedSpread]:
    """Return the variance over seeds of each candidate's difference: half its own, half the mean of all.

    by_seed: (seeds,) differences, by candidate. {} for a single seed without earlier experiments of the family."""
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
