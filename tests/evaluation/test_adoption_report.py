"""The report of a microannealing, from the results of its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from marin.errors import BadField, CorruptOutput
from marin.evaluation.adoption_report import Judged, report
from marin.evaluation.formats import Format
from marin.evaluation.results import DocumentResult, ItemResult, Results

ITEMS, SEEDS = 40, 3
GSM = "gsm/olmes/bpb"


def run(draw: np.random.Generator, *, tasks: float = 0.0, loss: float = 0.0, tagged: float = 0.0) -> Results:
    """A run that needs so many bits less on each item (tagged: in the LM-Eval form alone) and document."""

    def item(number: int, form: Format, bits: float, task: str) -> ItemResult:
        luck = float(draw.normal(0, 0.2))
        return ItemResult(
            task, form.value, str(number), 60 + number % 7 - bits + luck, 50, 10, 2, 0, 0, 0, 0, True, 0.6
        )

    items = {
        ("gsm", Format.OLMES): [item(n, Format.OLMES, tasks, "gsm") for n in range(ITEMS)],
        ("gsm", Format.LM_EVAL): [item(n, Format.LM_EVAL, tasks + tagged, "gsm") for n in range(ITEMS)],
    }
    web = [DocumentResult("web", str(n), 900 + n - loss + float(draw.normal(0, 0.5)), 500, 1, 1) for n in range(ITEMS)]
    return Results(items, {"web": web})


def arm(seed: int, **better: float) -> list[Results]:
    return [run(np.random.default_rng((seed, number)), **better) for number in range(SEEDS)]


def judged(runs: Mapping[str, Sequence[Results]], **fields: Any) -> tuple[dict[str, Any], list[str]]:
    given: dict[str, Any] = {
        "control": "control", "primary": (GSM,), "margin": 0.02, "chances": {"gsm": 0.25}, "references": {},
        "evidence": {}, "guard": {}, "tokens": 1_000_000,
    } | fields  # fmt: skip
    made, headline = report(runs, Judged(**given))
    return json.loads(json.dumps(made, allow_nan=False)), headline


def test_each_candidate_has_its_verdict_and_loss_is_apart():
    made, headline = judged({"control": arm(0), "hq": arm(1, tasks=-5, loss=20), "mix": arm(2, tasks=5, loss=20)})
    assert {name: one["verdict"] for name, one in made["candidates"].items()} == {"hq": "reject", "mix": "adopt"}
    assert headline[0].startswith("hq: REJECT. Worse on gsm (OLMES prompts) (−0.1")
    assert headline[1].startswith("mix: ADOPT. Better on gsm (OLMES prompts) (+0.0")
    assert headline[2] == made["noise_floor"]
    assert headline[2].startswith("Noise floor: luck of seeds alone passes 0.00")
    assert made["noise"][GSM] == made["candidates"]["hq"]["tasks"][0]["noise"]
    assert headline[3] == made["note"]
    assert made["note"].startswith("3 seeds an arm, each pair on the same order of data: intervals are over seeds and ")
    hq = made["candidates"]["hq"]
    assert hq["disagreement"] == (
        "Loss and tasks disagree: loss is lower on web, tasks are worse. The verdict goes by tasks."
    )
    assert made["candidates"]["mix"]["disagreement"] == ""
    [task] = hq["tasks"]
    assert task["gain"] == pytest.approx(-0.1, abs=0.01)
    assert task["low"] < task["gain"] < task["high"] < 0
    assert (len(task["control"]), task["seeds"], task["items"], task["shown"]) == (SEEDS, SEEDS, ITEMS, True)
    assert [row["metric"] for row in hq["loss"]] == ["bpb/web"]
    assert "gsm/lm_eval/bpb" in [row["metric"] for row in hq["others"]]
    assert len(made["values"]["bpb/web"]["control"]) == SEEDS


def test_what_is_unclear_says_what_it_needs_and_what_that_costs():
    made, _ = judged({"control": arm(0), "hq": arm(1, tasks=0.05)}, margin=0.0015, chip_hours=2.0)
    hq = made["candidates"]["hq"]
    assert hq["verdict"] == "inconclusive"
    needs = hq["needs"]
    assert needs["seeds"] > SEEDS
    assert needs["runs"] == 2 * (needs["seeds"] - SEEDS)
    assert (needs["tokens"], needs["chip_hours"]) == (1_000_000 * needs["runs"], 2.0 * needs["runs"])
    assert needs["sentence"].startswith("To show a difference of 0.0015 4 times in 5 takes ")
    assert needs["sentence"].endswith(f"{needs['tokens']:,} tokens, {needs['chip_hours']:,.1f} chip-hours.")


def test_equal_arms_are_equivalent():
    made, headline = judged({"control": arm(0), "hq": arm(1)})
    assert made["candidates"]["hq"]["verdict"] == "equivalent"
    assert headline[0].startswith("hq: EQUIVALENT. Closer to the control than 0.02 on gsm (OLMES prompts)")


def test_a_gain_in_one_form_of_the_questions_alone_is_fragile():
    made, _ = judged({"control": arm(0), "hq": arm(1, tasks=5, tagged=-10)})
    hq = made["candidates"]["hq"]
    assert hq["verdict"] == "inconclusive"
    assert hq["flags"][0].startswith("format fragility: better on gsm (OLMES prompts) (+0.0")
    assert "worse on the same items as gsm (LM-Eval prompts) (−0.0" in hq["flags"][0]


def test_evidence_and_test_items_that_got_cheaper_than_their_like_veto():
    better = {"control": arm(0), "hq": arm(1, tasks=5)}
    made, _ = judged(better, evidence={"hq": ["contamination: it read items of gsm"]})
    assert made["candidates"]["hq"]["verdict"] == "inconclusive"
    assert "it would be ADOPT" in made["candidates"]["hq"]["because"]

    def with_reference(runs: list[Results]) -> list[Results]:
        reference = {form: [replace(one, task="like") for one in run(np.random.default_rng(9)).items["gsm", form]]
                     for form in Format}  # fmt: skip
        return [
            Results({**one.items, **{("like", form): reference[form] for form in Format}}, one.documents)
            for one in runs
        ]

    made, _ = judged({name: with_reference(runs) for name, runs in better.items()}, references={"gsm": "like"})
    hq = made["candidates"]["hq"]
    assert hq["flags"][0].startswith("contamination: member gap")
    assert hq["verdict"] == "inconclusive"


def test_a_primary_metric_must_be_a_task_that_was_measured():
    arms = {"control": arm(0), "hq": arm(1)}
    for name in ("bpb/web", "bpb/"):
        with pytest.raises(BadField, match=f"names '{name}', which is loss; a verdict goes by tasks"):
            judged(arms, primary=(name,))
    with pytest.raises(BadField, match=r"'gsm/olme/bpb', which was not measured; did you mean 'gsm/olmes/bpb'\?"):
        judged(arms, primary=("gsm/olme/bpb",))


def test_guards_are_tasks_or_loss_by_name_or_prefix_and_never_what_decides():
    arms = {"control": arm(0), "hq": arm(1, tasks=5, loss=-200)}
    made, headline = judged(arms, guard={"gsm/": 0.05, "bpb/": 0.2, "bpb/web": 0.1})
    assert made["guard"] == {metric: 0.1 if metric == "bpb/web" else 0.05 for metric in made["guard"]}
    assert {"bpb/web", "gsm/lm_eval/bpb"} < made["guard"].keys()
    assert GSM not in made["guard"]
    hq = made["candidates"]["hq"]
    assert hq["verdict"] == "reject"
    assert headline[0].startswith("hq: REJECT. A guard lost more than it may: web text (−0.4")
    [loss] = [guard for guard in hq["guards"] if guard["metric"] == "bpb/web"]
    assert (loss["broken"], loss["kept"], loss["margin"]) == (True, False, 0.1)
    with pytest.raises(BadField, match="'gsm/olmes/bpb' is primary and guard"):
        judged(arms, guard={GSM: 0.1})
    with pytest.raises(BadField, match=r"guard names 'bpb/wed', which was not measured; did you mean 'bpb/web'\?"):
        judged(arms, guard={"bpb/wed": 0.1})


def test_runs_that_were_scored_on_other_items_are_refused():
    fewer = arm(1)
    fewer[2] = replace(fewer[2], items={key: held[:9] for key, held in fewer[2].items.items()})
    with pytest.raises(
        CorruptOutput, match=r"run 2 of hq was scored on other texts than the first run \(9 and 40 texts\)"
    ):
        judged({"control": arm(0), "hq": fewer})


def test_what_the_harness_logged_of_each_item_decides_too():
    draw = np.random.default_rng(3)

    def logged(more: float) -> list[dict[str, dict[str, float]]]:
        share = {str(n): float(n % 3 == 0) for n in range(ITEMS)}
        return [
            {
                "mmlu/acc": {n: one + more + draw.normal(0, 0.05) for n, one in share.items()},
                "lm/byte_perplexity": share,
            }
            for _ in range(SEEDS)
        ]

    runs = {"control": arm(0), "hq": arm(1)}
    given = Judged(
        control="control",
        primary=("mmlu/acc",),
        margin=0.01,
        chances={},
        references={},
        evidence={},
        guard={},
        tokens=1,
    )
    made, headline = report(runs, given, logged={"control": logged(0.0), "hq": logged(0.2)})
    assert made["candidates"]["hq"]["verdict"] == "adopt"
    assert headline[0].startswith("hq: ADOPT. Better on mmlu/acc (+0.")
    short = logged(0.2)
    del short[1]["mmlu/acc"]["7"]
    with pytest.raises(CorruptOutput, match=r"mmlu/acc: run 1 of hq was scored on other texts"):
        report(runs, given, logged={"control": logged(0.0), "hq": short})
