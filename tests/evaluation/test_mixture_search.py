"""Test mixture searches with a known truth: the optimum, its bounds, refits whose range covers it, and noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from marin.errors import BadField, NothingScored
from marin.evaluation.families.mixture_models import FAMILIES, LogLinear, cross_validated
from marin.evaluation.families.mixture_optimum import Goal, optimum
from marin.evaluation.families.mixture_search import Proxy, Search, mixture_report, paste
from marin.evaluation.families.shares import draw_shares, least_proxies, repetition_bounds

NATURAL = {"web": 0.6, "code": 0.25, "math": 0.15}
FREE = dict.fromkeys(NATURAL, 1.0)
TRUTH = {  # of each metric, by which code and mathematics help their own text, and web text helps all a little
    "bpb/code": LogLinear(0.6, np.array([-0.4, -2.5, -0.8])),
    "bpb/math": LogLinear(0.8, np.array([-0.3, -0.7, -3.0])),
}


def swarm(count: int, noise: float, seed: int, bounds: dict[str, float] = FREE, signal: float = 1.0) -> list[Proxy]:
    draw = np.random.default_rng(seed)
    found: list[Proxy] = []
    for shares in draw_shares(NATURAL, bounds, count, seed=0):
        at = np.array([[shares[name] for name in NATURAL]])
        metrics = {
            name: 1 + signal * float(truth.predict(at)[0]) + draw.normal(0, noise) for name, truth in TRUTH.items()
        }
        found.append(Proxy(shares=shares, metrics=metrics))
    return found


def search(bounds: dict[str, float] = FREE, refits: int = 20, penalty: float = 0.02) -> Search:
    objective = dict.fromkeys(TRUTH, 1.0)
    return Search(natural=NATURAL, bounds=bounds, objective=objective, penalty=penalty, refits=refits)


def true_goal(bounds: dict[str, float] = FREE, penalty: float = 0.02) -> Goal:
    sampled = np.array([[one[name] for name in NATURAL] for one in draw_shares(NATURAL, bounds, 24, seed=0)])
    return Goal(
        models=list(TRUTH.values()),
        weights=[0.5, 0.5],
        natural=np.array(list(NATURAL.values())),
        bounds=np.array(list(bounds.values())),
        sampled=sampled,
        penalty=penalty,
    )


def optimum_of(made: dict[str, Any]) -> np.ndarray:
    return np.array([made["mixtures"]["optimum"][name] for name in NATURAL])


def test_the_optimum_is_found_and_is_better_than_natural() -> None:
    made, headline = mixture_report(swarm(24, 0.005, 1), search())
    goal = true_goal()
    truth = optimum(goal, seed=0).shares
    assert made["verdict"] == "FOUND"
    assert np.abs(optimum_of(made) - truth).max() < 0.05
    natural, found, best = goal.value(np.array([list(NATURAL.values()), optimum_of(made), truth]))
    assert found - best < 0.05 * (natural - best)
    assert headline[-1].startswith("mixture({")
    assert math.isclose(sum(made["mixtures"]["optimum"].values()), 1)


def test_the_same_proxies_give_the_same_report() -> None:
    assert mixture_report(swarm(8, 0.01, 3), search(refits=3)) == mixture_report(swarm(8, 0.01, 3), search(refits=3))


def test_noise_is_not_conclusive_and_keeps_the_natural_mixture() -> None:
    for seed in range(2):
        made, headline = mixture_report(swarm(24, 0.01, seed, signal=0.0), search(refits=5))
        assert made["verdict"] == "INCONCLUSIVE"
        assert made["mixtures"]["optimum"] == NATURAL
        assert "the natural mixture is kept" in headline[0]
        assert headline[1].startswith("Train each proxy longer")
    few, said = mixture_report(swarm(8, 0.01, 1, signal=0.0), search(refits=5))
    assert (few["verdict"], said[1][:18]) == ("INCONCLUSIVE", "Give proxies=12 an")


def test_the_optimum_keeps_to_what_a_target_run_may_repeat() -> None:
    bounds = {"web": 1.0, "code": 0.3, "math": 0.18}
    made, _ = mixture_report(swarm(24, 0.003, 1, bounds), search(bounds))
    found = made["mixtures"]["optimum"]
    assert found["code"] <= 0.3
    assert found["math"] <= 0.18
    assert "At the bound of repetition: code, math." in made["more"]


def test_an_optimum_beyond_the_proxies_is_pulled_back_and_said() -> None:
    near = [one for one in swarm(64, 0.0, 1) if max(one.shares["math"], one.shares["code"]) <= 0.4]
    made, _ = mixture_report(near, search(penalty=0.0))
    assert 0.3 < made["reach"] < 1
    assert max(made["mixtures"]["optimum"][name] for name in ("code", "math")) <= 0.4
    assert any("pulled back to the best mixture between proxies" in sentence for sentence in made["more"])


def test_trees_win_where_the_truth_has_steps() -> None:
    shares = np.array([list(one.values()) for one in draw_shares(NATURAL, FREE, 64, seed=0)])
    steps = np.where(shares[:, 1] > 0.2, 0.0, 1.0) + np.where(shares[:, 2] > 0.1, 0.0, 0.5)
    by_family = cross_validated(shares, steps + np.random.default_rng(0).normal(0, 0.01, 64), seed=0)
    assert set(by_family) == set(FAMILIES)
    assert by_family["trees"].error < 0.7 * min(by_family["linear"].error, by_family["log-linear"].error)


@pytest.mark.slow
def test_the_refits_cover_the_optimum() -> None:
    truth = optimum(true_goal(), seed=0).shares
    covered = [
        made["sources"][name]["low"] - 1e-4 <= share <= made["sources"][name]["high"] + 1e-4
        for seed in range(20)
        for made in [mixture_report(swarm(24, 0.02, seed), search(refits=60))[0]]
        for name, share in zip(NATURAL, truth, strict=True)
    ]
    assert np.mean(covered) > 0.9 * 0.95


@pytest.mark.slow
def test_noise_is_called_found_less_often_than_one_time_in_20() -> None:
    verdicts = [
        mixture_report(swarm(16, 0.02, seed, signal=0.0), search(refits=40))[0]["verdict"] for seed in range(30)
    ]
    assert verdicts.count("FOUND") <= 3


def test_draws_sum_to_one_keep_to_bounds_and_stay_when_more_are_drawn() -> None:
    bounds = {"web": 1.0, "code": 0.4, "math": 0.2}
    drawn = draw_shares(NATURAL, bounds, 40, seed=7)
    assert drawn[0] == NATURAL
    assert drawn[:20] == draw_shares(NATURAL, bounds, 20, seed=7)
    assert drawn[1:] != draw_shares(NATURAL, bounds, 40, seed=8)[1:]
    for shares in drawn:
        assert math.isclose(sum(shares.values()), 1, abs_tol=1e-12)
        assert all(shares[name] <= bound + 1e-12 for name, bound in bounds.items())
        assert all(share == 0 or share >= 0.002 for share in shares.values())


def test_bounds_are_epochs_of_the_target_run() -> None:
    held = {"web": 1e12, "code": 1e11, "math": 1e10}
    assert repetition_bounds(held, 1e12, 4) == {"web": 1.0, "code": 0.4, "math": 0.04}
    with pytest.raises(BadField, match=r"hold 1,110,000,000,000 tokens; 4 epochs of them do not make"):
        repetition_bounds(held, 1e13, 4)


def test_what_tells_nothing_is_refused() -> None:
    with pytest.raises(BadField, match=r"no proxy varies math: its shares are .* at most 0.005"):
        draw_shares({"web": 0.7, "code": 0.296, "math": 0.004}, {"web": 1.0, "code": 1.0, "math": 0.005}, 16, seed=0)
    assert [least_proxies(sources) for sources in (2, 3, 7)] == [4, 5, 10]
    with pytest.raises(NothingScored, match="4 proxies for 3 sources; wanted at least 5"):
        mixture_report(swarm(4, 0.01, 0), search())
    lost = swarm(8, 0.01, 0)
    lost[3] = Proxy(shares=lost[3].shares, metrics={**lost[3].metrics, "bpb/code": math.nan})
    with pytest.raises(NothingScored, match="bpb/code of proxy 3 is nan"):
        mixture_report(lost, search())


def test_the_text_to_paste_has_the_largest_share_first() -> None:
    shares = {"code": 0.24, "web": 0.61, "math": 0.15, "wiki": 0.0}
    assert paste(shares) == "mixture({web: 0.61, code: 0.24, math: 0.15})"
