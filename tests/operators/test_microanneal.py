"""Test Microanneal: its steps, the fields that it refuses, and the steps that a seed, candidate or evaluation adds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from marin import ByTokens, ExecutorStep, Report, Scores, blend, mixture
from marin.errors import BadField
from marin.evaluation.harness_task import HarnessTask
from marin.evaluation.metric_names import in_words
from marin.evaluation.results import ItemResult, Results, write_results
from marin.store.files.directory import Directory
from marin.training.optimizer import Muon
from marin.training.schedule import Decay, Schedule
from operators.evaluate import Evaluate
from operators.evaluate_tasks import EvaluateTasks
from operators.judge import Judge
from operators.microanneal import CONTROL, Microanneal
from operators.train import Fork, Train
from tests.evaluation.test_adoption_report import run as scored
from tests.operators.running import Given, run_step
from tests.operators.test_train import PRETRAIN, WEB
from tests.training.runs import SEQ_LEN

HQ, FLAN, GSM, PROSE, BPE = (Given(name_of_input=name, label=name) for name in ("hq", "flan", "gsm", "prose", "bpe"))
PARENT = replace(PRETRAIN, end_step=40, schedule=Schedule(warmup=4, decay=Decay(30, 40), floor=0.1))
USUAL = mixture({WEB: 1.0})
GSM_ONLY = Evaluate(checkpoint=PARENT, tokenizer=BPE, tasks={"gsm": GSM}, window=SEQ_LEN, stride=16, label="gsm")
LOSS = Evaluate(checkpoint=PARENT, tokenizer=BPE, domains={"prose": PROSE}, window=SEQ_LEN, stride=16, label="loss")
MMLU = EvaluateTasks(
    checkpoint=PARENT,
    tokenizer=BPE,
    tasks={"mmlu": HarnessTask(name="mmlu", folder="mmlu/default", dataset="cais/mmlu", shots=5)},
    data={"cais/mmlu": GSM},
    label="mmlu",
)


def micro(**fields: Any) -> Microanneal:
    given: dict[str, Any] = {
        "base": PARENT.at(28),
        "control": USUAL,
        "candidates": {"hq": blend((0.7, USUAL), (0.3, mixture({HQ: 1.0})))},
        "tokens": 7 * 6 * SEQ_LEN,
        "evaluations": (GSM_ONLY,),
        "primary": ("gsm/olmes/bpb",),
        "shortest": 0.0,
    }
    return Microanneal(**given | fields)


def trainings(one: Microanneal) -> set[ExecutorStep[Any]]:
    return {run for runs in one.trainings.values() for run in runs}


def evaluations(one: Microanneal) -> set[ExecutorStep[Any]]:
    return {scores for arm in one.scores.values() for seed in arm for scores in seed}


def test_every_arm_has_the_same_start_schedule_order_and_rate():
    made = micro()
    assert {arm: len(runs) for arm, runs in made.trainings.items()} == {"control": 3, "hq": 3}
    for control, hq in zip(made.trainings[CONTROL], made.trainings["hq"], strict=True):
        assert isinstance(hq, Train)
        assert hq.start == Fork(PARENT.at(28))
        assert (hq.first_step, hq.end_step) == (28, 35)
        assert (hq.optimizer, hq.seed, hq.batch) == (control.optimizer, control.seed, control.batch)
        assert hq.data.at[0] == control.data.at[0] == PARENT.data.at[0]
        assert hq.data.at[28] != control.data.at[28]
        rates = [hq.schedule.learning_rate(step, hq.optimizer.peak_lr) for step in (28, 29, 34, 35)]
        assert rates == pytest.approx([1e-2, 1e-2 * 6 / 7, 1e-2 / 7, 0.0])
    assert [run.seed for run in made.trainings["hq"]] == [0, 1, 2]
    assert set(made.verdict.dependencies) == evaluations(made) | set(made.inspections.values())


def test_muon_goes_on_at_both_of_its_rates():
    muon = replace(PARENT, optimizer=Muon(peak_lr=2e-2, adam_lr=4e-3, clip_update_norm=None, ema=None),
                   schedule=Schedule(decay=Decay(20, 40)))  # fmt: skip
    rate = muon.schedule.learning_rate(27, 2e-2)
    made = micro(base=muon.at(28), evaluations=(replace(GSM_ONLY, checkpoint=muon),))
    optimizer = made.trainings["hq"][0].optimizer
    assert isinstance(optimizer, Muon)
    assert (optimizer.peak_lr, optimizer.adam_lr) == pytest.approx((rate, rate / 5))
    assert made.verdict.arms.keys() == {"control", "hq"}


def test_another_seed_candidate_or_evaluation_makes_that_and_nothing_else():
    first = micro()
    fourth = micro(seeds=4)
    assert trainings(first) < trainings(fourth)
    assert len(trainings(fourth) - trainings(first)) == 2
    flan = micro(candidates={**first.candidates, "flan": blend((0.7, USUAL), (0.3, mixture({FLAN: 1.0})))})
    assert trainings(first) < trainings(flan)
    assert len(trainings(flan) - trainings(first)) == 3
    more = micro(evaluations=(GSM_ONLY, LOSS))
    assert trainings(more) == trainings(first)
    assert evaluations(first) < evaluations(more)
    assert len(evaluations(more) - evaluations(first)) == 6
    # With a task of the harness, the trainings wait for a check that the harness can ask it; test_check_tasks shows
    # that they do not change otherwise.
    harness = HarnessTask(name="gsm8k", folder="gsm8k", dataset="openai/gsm8k")
    stock = EvaluateTasks(checkpoint=PARENT, tokenizer=BPE, tasks={"gsm": harness}, data={"openai/gsm8k": GSM})
    gates = {each for run in trainings(micro(evaluations=(GSM_ONLY, stock))) for each in cast(Train, run).gates}
    assert [cast(Any, each).report.tasks for each in gates] == [((harness, GSM),)]
    other = micro(primary=("gsm/olmes/final_bpb",), margin=0.5)
    assert (trainings(other), evaluations(other)) == (trainings(first), evaluations(first))
    assert other.verdict != first.verdict


def test_a_source_that_may_starve_is_named_to_those_that_read_it():
    made = micro(allow_starved=("hq",))
    assert [made.trainings[arm][0].allow_starved for arm in ("control", "hq")] == [(), ("hq",)]
    assert made.trainings["control"] == micro().trainings["control"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"candidates": {}}, "microanneal: there are no candidates"),
        ({"candidates": {"control": ByTokens({HQ: 1})}}, "a candidate cannot be called 'control'"),
        ({"candidates": {"hq": USUAL}}, "hq has the same mixture as control; give every arm its own mixture"),
        ({"candidates": {"hq": PARENT}}, "hq is a Train; candidates differ only in the mixture"),
        ({"control": None}, "control is a NoneType"),
        ({"candidates": USUAL}, r"^Microanneal\.candidates is Mixture"),
        ({"tokens": 2e4}, r"^Microanneal\.tokens is 20000\.0 \(float\); wanted int; write 20000"),
        ({"primary": "gsm/olmes/bpb"}, r"^Microanneal\.primary is .* wanted tuple\[str, …\]; write a tuple"),
        ({"allow_starved": ("hqq",)}, "allow_starved names hqq, which no arm reads"),
        ({"evaluations": ()}, "there are no evaluations; a verdict goes by tasks"),
        ({"seeds": 0}, "0 seeds of"),
        ({"base": PARENT.at(10)}, r"is at step 10 of the 40 of Train 'pretrain', too early .* give earliest=0\.25"),
        ({"base": PARENT.at(3), "earliest": 0.0}, "is in a warmup of its learning rate"),
        ({"base": PARENT}, r"has decayed to 0\.0019 of 0\.01; take a checkpoint from before its cooldown"),
        ({"tokens": 100, "shortest": 0.25}, r"100 tokens for [\d,]+ parameters, .* too few .* give shortest="),
        # Names follow from the fields of evaluations; of lm-evaluation-harness's metrics only the task's part does.
        (
            {"primary": ("bpb/prose",), "evaluations": (GSM_ONLY, LOSS)},
            "primary names 'bpb/prose', which is loss, but .*gsm/",
        ),
        (
            {"primary": ("gsm/olmes/bbp",)},
            r"names 'gsm/olmes/bbp', .*; did you mean 'gsm/olmes/bpb'\?; there are gsm/lm",
        ),
        ({"primary": ("gms/olmes/bpb",)}, r"did you mean 'gsm/olmes/bpb'\?"),
        ({"primary": ("mlu/acc",), "evaluations": (MMLU,)}, r"did you mean 'mmlu/acc'\?; there are .*mmlu/…"),
        ({"primary": ("mmlu/olmes/acc",), "evaluations": (MMLU,)}, "'mmlu/olmes/acc', which no evaluation measures"),
        ({"guard": {"bpb/prose": 0.1}}, "guard names 'bpb/prose', which no evaluation measures; there are gsm/"),
        ({"guard": {"gsm/olmes/bpb": 0.1}}, "'gsm/olmes/bpb' is both primary and guard"),
        ({"references": {"gsm": "gsm_reference"}}, "'gsm_reference', whose items no evaluation has; there are gsm$"),
        ({"base": Given(label="elsewhere")}, "does not name the training that made it"),
    ],
)
def test_what_would_tell_nothing_is_refused_when_built(fields: dict[str, Any], message: str):
    with pytest.raises(BadField, match=message):
        micro(**fields)


def judge(**fields: Any) -> Judge:
    return replace(micro().verdict, **fields)


def test_arms_that_differ_in_more_than_the_mixture_are_refused():
    arms = dict(micro().verdict.arms)

    def changed(**fields: Any) -> tuple[tuple[ExecutorStep[Scores], ...], ...]:
        return tuple(
            (replace(GSM_ONLY, checkpoint=replace(run, **fields), label=""),) for run in micro().trainings["hq"]
        )

    faster = replace(PARENT.optimizer, peak_lr=0.1)
    with pytest.raises(BadField, match="run 0 of hq and of the control differ in more than the mixture: optimizer;"):
        judge(arms={**arms, "hq": changed(optimizer=faster)})
    with pytest.raises(BadField, match="differ in more than the mixture: end_step, schedule"):
        judge(arms={**arms, "hq": changed(end_step=40, schedule=Schedule(decay=Decay(28, 40)))})
    with pytest.raises(BadField, match="run 0 of hq and of the control differ in more than the mixture: seed"):
        judge(arms={**arms, "hq": tuple(reversed(arms["hq"]))})
    with pytest.raises(BadField, match="arm hq has 2 seeds, the control 3"):
        judge(arms={**arms, "hq": arms["hq"][:2]})
    other = tuple((replace(GSM_ONLY, checkpoint=run, choices=2),) for run in micro().trainings["hq"])
    with pytest.raises(BadField, match="run 0 of hq has other evaluations than the control"):
        judge(arms={**arms, "hq": other})


def test_runs_that_begin_at_another_rate_than_their_checkpoint_are_refused():
    def jumped(arm: str) -> tuple[tuple[ExecutorStep[Scores], ...], ...]:
        faster = replace(PARENT.optimizer, peak_lr=0.02)
        return tuple((replace(GSM_ONLY, checkpoint=replace(run, optimizer=faster), label=""),)
                     for run in micro().trainings[arm])  # fmt: skip

    with pytest.raises(
        BadField, match=r"'microanneal-control-0' begins at a learning rate of 0\.02, .* at 0\.01; a jump"
    ):
        judge(arms={arm: jumped(arm) for arm in ("control", "hq")})


def test_seeds_that_share_an_order_of_data_are_refused():
    arms = {arm: (seeds[0], seeds[0], seeds[2]) for arm, seeds in micro().verdict.arms.items()}
    with pytest.raises(BadField, match=r"2 runs of one arm share a data order \(seed 0\), so they are one run"):
        judge(arms=arms)


def test_a_verdict_needs_a_control_a_primary_task_and_a_margin():
    arms = micro().verdict.arms
    with pytest.raises(BadField, match="without a control, you cannot tell"):
        judge(arms={"hq": arms["hq"]})
    with pytest.raises(BadField, match="primary is empty; before anything runs, name the task metrics"):
        judge(primary=())
    with pytest.raises(BadField, match=r"guard\['mmlu/'\] is 0; wanted the most that it may lose, above 0"):
        judge(guard={"mmlu/": 0})
    with pytest.raises(BadField, match=r"margin is 0\.0; wanted the smallest difference that matters"):
        judge(margin=0.0)


def judged(
    tmp_path: Path, one: Microanneal, better: dict[str, float], given: Sequence[tuple[ExecutorStep[Report], Any]] = ()
) -> tuple[dict[str, Any], str]:
    """(report, Markdown) of runs whose results we know."""
    inputs: dict[ExecutorStep[Any], Any] = {}
    for number, (arm, seeds) in enumerate(one.scores.items()):
        for seed, [scores] in enumerate(seeds):
            directory = Directory(str(tmp_path / scores.identity[:12]))
            results: Results = scored(np.random.default_rng((number, seed)), tasks=better.get(arm, 0.0))
            write_results(directory, results)
            inputs[scores] = Scores(metrics={}).at(directory)
    looked = {step: {"findings": list[Any]()} for step in one.inspections.values()} | dict(given)
    for step, report in looked.items():
        directory = Directory(str(tmp_path / step.identity[:12]))
        directory.write_text("report.json", json.dumps(report))
        inputs[step] = Report(headline=[]).at(directory)
    made = run_step(one.verdict, inputs, tmp_path)
    return json.loads(made.directory.read_text("report.json")), made.directory.read_text("report.md")


def test_the_verdict_of_runs_that_are_better(tmp_path: Path):
    report, text = judged(tmp_path, micro(), {"hq": 5.0})
    assert report["candidates"]["hq"]["verdict"] == "adopt"
    assert report["tokens"] == 7 * 6 * SEQ_LEN
    both = replace(GSM_ONLY, domains={"prose": PROSE})
    report, _ = judged(tmp_path / "guarded", micro(guard={"bpb/": 1e-6}, evaluations=(both,)), {"hq": 5.0})
    assert report["candidates"]["hq"]["verdict"] == "inconclusive"
    assert "| hq | ADOPT | +0.0" in text


def test_evaluation_text_in_the_batches_of_a_candidate_vetoes(tmp_path: Path):
    one = micro()
    assert micro(most_gap=0.5).inspections["hq"].max_gap == 0.5
    held_out = {"kind": "held out", "source": "gsm", "text": "2 of its 64 documents"}
    form = {"kind": "form", "source": "", "text": "gsm differs in 'digits' by 0.90: digits 0.5"}
    inspections = one.inspections
    assert set(inspections) == {"control", "hq"}
    clean, both = {"findings": [form]}, {"findings": [form, held_out]}
    report, _ = judged(tmp_path, one, {"hq": 5.0}, [(inspections["control"], clean), (inspections["hq"], both)])
    assert report["candidates"]["hq"]["flags"] == ["contamination: gsm: 2 of its 64 documents"]
    assert report["candidates"]["hq"]["verdict"] == "inconclusive"
    # A form that differs from the candidate's text, but not from the control's text, is a format gap.
    clean = {"findings": list[Any]()}
    report, _ = judged(
        tmp_path, one, {"hq": 5.0}, [(inspections["control"], clean), (inspections["hq"], {"findings": [form]})]
    )
    assert report["candidates"]["hq"]["flags"] == ["format gap: gsm differs in 'digits' by 0.90: digits 0.5"]


@pytest.mark.parametrize("metric", ["mmlu/acc", "mmlu/lm_eval/choice_probability"])
@pytest.mark.parametrize(("better", "verdict"), [(0.5, "adopt"), (0.0, "inconclusive")])
def test_tasks_of_the_harness_decide_as_it_logged_them(better: float, verdict: str, metric: str, tmp_path: Path):
    """A task decides nothing if no arm is better than a guess among four choices."""
    one = micro(primary=(metric,), evaluations=(MMLU,))
    draw = np.random.default_rng(0)
    inputs: dict[ExecutorStep[Any], Any] = {}
    for arm, seeds in one.scores.items():
        for [scores] in seeds:
            assert isinstance(scores, EvaluateTasks)
            directory = Directory(str(tmp_path / scores.identity[:12]))
            share = 0.25 + better * (arm == "hq")
            rows = [
                {"doc_id": n, "arguments": [["Q", " A"]], "resps": [[[-1.0, False]]] * 4, "target": "A",
                 "filter": "none", "metrics": ["acc"], "acc": float(draw.random() < share)}
                for n in range(200)
            ]  # fmt: skip
            directory.write_text("mmlu/samples_mmlu_2026-01-01T00-00-00.jsonl", "\n".join(map(json.dumps, rows)))
            chosen = [
                ItemResult("mmlu", "lm_eval", f"{n}", 2.0, 2, choice_probability=share + draw.uniform(-0.2, 0.2))
                for n in range(200)
            ]
            directory.write_text("scores.json", json.dumps({"metrics": {}}))
            write_results(directory, Results({("mmlu", "lm_eval"): chosen}))
            inputs[scores] = Scores(metrics={}).at(directory)
    made = run_step(one.verdict, inputs, tmp_path)
    report = json.loads(made.directory.read_text("report.json"))
    assert report["candidates"]["hq"]["verdict"] == verdict
    assert report["primary"] == [metric]
    because, words = report["candidates"]["hq"]["because"], in_words(metric)
    assert because.startswith(f"better on {words}" if better else f"no run of any arm is above chance on {words}")
