"""Test a sweep's report on runs with known truth: the place of the minimum, edges, flat curves, divergence and cuts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from marin.errors import NothingScored
from marin.evaluation.families.curve import as_good, minimum, noise
from marin.evaluation.families.halving import halving_report
from marin.evaluation.families.sweep import Member, has_diverged, sweep_report

RATES = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2)


def bowl(best: float) -> Callable[[float], float]:
    return lambda rate: 1.2 + 0.03 * math.log(rate / best) ** 2


def runs(curve: Callable[[float], float], seeds: int, deviation: float, seed: int) -> np.ndarray:
    """(V, S): a curve, with the luck of a data order that all values share, and of each run."""
    draw = np.random.default_rng(seed)
    shared, own = draw.normal(0, 0.02, seeds), draw.normal(0, deviation, (len(RATES), seeds))
    return np.array([curve(rate) for rate in RATES])[:, None] + shared + own


def members(held: np.ndarray) -> list[Member]:
    return [
        Member(point=(rate,), seed=seed, metric=float(held[at, seed]))
        for at, rate in enumerate(RATES)
        for seed in range(held.shape[1])
    ]


def report(found: Sequence[Member]) -> tuple[str, str]:
    made, headline = sweep_report(found, ("lr",), "bpb/own")
    return made["verdict"], " ".join(headline)


def test_the_interval_of_the_minimum_covers_the_truth_95_times_in_100() -> None:
    covered = bounded = kept = 0
    for trial in range(400):
        best = 2.5e-3 * (6 / 2.5) ** (trial / 400)
        held = runs(bowl(best), 3, 0.01, trial)
        found = minimum(RATES, held, geometric=True)
        nearest = min(range(len(RATES)), key=lambda at: abs(math.log(RATES[at] / best)))
        kept += as_good(held.mean(axis=1).tolist(), noise(held), 3)[nearest]
        if found is not None and found.low is not None and found.high is not None:
            bounded += 1
            covered += found.low <= best <= found.high
    assert bounded > 380
    assert 0.92 < covered / bounded < 0.98
    assert kept > 380


def test_a_sweep_with_a_minimum_names_it() -> None:
    verdict, said = report(members(runs(bowl(4e-3), 3, 0.003, 1)))
    assert verdict == "BEST"
    assert said.startswith("BEST: lr 0.004 (own text: 1.2")
    assert "95 % interval 0.00" in said


def test_values_that_do_not_matter_are_called_flat_19_times_in_20() -> None:
    verdicts = [report(members(runs(lambda _: 1.0, 3, 0.01, trial)))[0] for trial in range(100)]
    assert verdicts.count("FLAT") >= 89


def test_a_best_value_at_the_edge_asks_for_the_next_value() -> None:
    verdict, said = report(members(runs(bowl(6e-2), 3, 0.003, 2)))
    assert verdict == "INCONCLUSIVE"
    assert "is the highest lr that was tried" in said
    assert "Add lr 0.032" in said


def test_one_seed_is_not_conclusive() -> None:
    verdict, said = report(members(runs(bowl(4e-3), 1, 0.003, 3)))
    assert (verdict, "Give seeds=2" in said) == ("INCONCLUSIVE", True)


def test_a_diverged_run_takes_its_value_out() -> None:
    found = members(runs(bowl(4e-3), 3, 0.003, 4))
    lost = [Member(point=one.point, seed=one.seed, metric=9.0, diverged="step 7: loss is nan") if one.point == (1.6e-2,)
            and not one.seed else one for one in found]  # fmt: skip
    verdict, said = report(lost)
    assert verdict == "BEST"
    assert "Diverged: lr 0.016." in said
    with pytest.raises(NothingScored, match="4 of 5 points diverged"):
        report([one if one.point == (1e-3,) else Member(point=one.point, seed=one.seed, metric=9.0, diverged="nan")
                for one in found])  # fmt: skip


def test_a_run_that_gives_back_what_it_learned_has_diverged() -> None:
    falls = [8.0 * 0.97**step + 2 for step in range(100)]
    assert not has_diverged(falls)
    assert not has_diverged([*falls[:50], 9.5, *falls[51:]])  # a spike that recovers
    assert has_diverged([*falls[:60], *(7.0 for _ in range(40))])


def test_halving_keeps_the_best_by_their_mean_and_says_why_others_went() -> None:
    held = members(runs(bowl(4e-3), 2, 0.001, 5))
    made, headline = halving_report(held, ("lr",), "bpb/own", 2, {"lr 0.001": "place 5 of 5"})
    assert headline[0].startswith("2 of 4 points go on: lr 0.004; lr 0.00")
    assert made["cut"]["lr 0.001"] == "place 5 of 5"
    assert made["cut"]["lr 0.016"].startswith("place 4 of 4 by bpb/own, 1.2")
