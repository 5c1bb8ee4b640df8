"""Experiments 784 and 820 against their configurations, at both scales."""

import importlib
from typing import Any

import pytest

from marin import Experiment, Scale
from operators.evaluate_tasks import EvaluateTasks
from operators.judge import Judge
from operators.train import Train


def judge(name: str, scale: Scale) -> Judge:
    experiment: Experiment = importlib.import_module(f"experiments.{name}").build(scale)
    verdict = experiment.results["verdict"]
    assert isinstance(verdict, Judge)
    return verdict


def run(verdict: Judge, arm: str, seed: int = 0) -> Train:
    scores: Any = verdict.arms[arm][seed][0]
    return scores.checkpoint


HQ, FLAN = "exp784_hq_anneal", "exp820_flan_anneal"


@pytest.mark.parametrize(("name", "billions", "steps"), [(HQ, 50.0, 11_921), (FLAN, 8.4, 2_003)])
def test_tokens_and_steps_are_the_published_ones(name: str, billions: float, steps: int) -> None:
    verdict = judge(name, Scale.FULL)
    assert verdict.tokens / 1e9 == pytest.approx(billions, rel=1e-3)
    for arm in verdict.arms:
        training = run(verdict, arm)
        assert (training.first_step, training.end_step) == (659_000, 659_000 + steps)
        assert training.batch.batch(659_000) == 1024
        assert training.schedule.learning_rate(659_000, training.optimizer.peak_lr) == pytest.approx(1e-3)
        assert training.schedule.learning_rate(659_000 + steps, training.optimizer.peak_lr) == 0


@pytest.mark.parametrize("scale", Scale)
def test_mixtures_are_seventy_thirty(scale: Scale) -> None:
    def shares(name: str, arm: str) -> tuple[float, float, float]:
        """Return the shares of the usual mixture, of FLAN and of the rest."""
        verdict = judge(name, scale)
        usual = set(run(verdict, "control").data.sources)
        training = run(verdict, arm)
        mix: Any = training.data.at[training.first_step]
        weights: dict[Any, float] = mix.weights
        of_flan = sum(share for source, share in weights.items() if source.label == "dolma/flan")
        of_usual = sum(share for source, share in weights.items() if source in usual)
        return of_usual, of_flan, 1 - of_usual - of_flan

    assert shares(HQ, "hq") == pytest.approx((0.7, 0, 0.3))
    assert shares(FLAN, "flan") == pytest.approx((0.7, 0.3, 0))
    assert shares(FLAN, "flan-hq") == pytest.approx((0.7, 0.15, 0.15))


def test_at_full_scale_each_part_is_judged_too() -> None:
    assert set(judge(HQ, Scale.FULL).arms) == {
        "control", "hq", "algebraic-stack", "arxiv", "megawika", "open-web-math", "pes2o",
    }  # fmt: skip


def test_a_rehearsal_trains_the_control_once_for_both() -> None:
    mine, other = (judge(name, Scale.REHEARSAL) for name in (HQ, FLAN))
    assert mine.arms["control"] == other.arms["control"]
    assert len(mine.arms["control"]) == 3


def test_at_full_scale_tasks_of_the_retrospective_decide_too_and_are_asked_in_two_forms() -> None:
    verdict = judge(FLAN, Scale.FULL)
    assert {"mmlu/lm_eval/bpb", "hellaswag/lm_eval/bpb"} < set(verdict.primary)
    for seeds in verdict.arms.values():
        for _, stock in seeds:
            assert isinstance(stock, EvaluateTasks)
            assert {name.partition("/")[0] for name in stock.tasks} == {"mmlu", "hellaswag"}
            assert {name.partition("/")[2] for name in stock.tasks} == {"", "olmes"}
    assert all(len(one) == 1 for seeds in judge(FLAN, Scale.REHEARSAL).arms.values() for one in seeds)
