"""Test Ladder: the steps that it declares, the fields that it refuses, and its report on a page."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from marin import ExecutorStep, Scores
from marin.errors import BadField
from marin.report.section import Page
from marin.store.files.directory import Directory
from marin.training.model import Architecture
from marin.training.optimizer import Adam
from operators.evaluate import Evaluate
from operators.ladder import Ladder, LadderReport, LadderTask
from operators.pages import ladder as page
from operators.rungs import Rung, TokensPerParameter
from operators.train import Train
from tests.operators.pages.showing import page_of
from tests.operators.running import Given, run_step
from tests.operators.test_train import PRETRAIN
from tests.report.reading import Reading

PROSE, GSM, BPE = (Given(name_of_input=name, label=name) for name in ("prose", "gsm", "bpe"))
RUNGS = (2e8, 2e9, 2e10, 1.5e11, 6e11, 3e12)
TINY = TokensPerParameter(
    vocabulary=64, seq_len=32, ratio=20, architecture=Architecture.LLAMA, width_multiple=4, head_width=4, mlp=2,
    width_per_layer=16, steps=200, rate_factor=0.1,
)  # fmt: skip
DELPHI = TokensPerParameter(vocabulary=128_256)


def recipe(rung: Rung, seed: int, **fields: Any) -> Train:
    return replace(
        PRETRAIN,
        model=rung.shape,
        optimizer=Adam(peak_lr=rung.peak_lr, beta2=rung.beta2),
        schedule=rung.schedule(),
        batch=rung.batches,
        end_step=rung.steps,
        seed=seed,
        **fields,
    )


def wide(rung: Rung, seed: int) -> Train:
    return recipe(rung, seed, block=8)


def without_seed(rung: Rung, seed: int) -> Train:
    return recipe(rung, 0)


def short(rung: Rung, seed: int) -> Train:
    return replace(recipe(rung, seed), end_step=rung.steps // 2)


def score(training: Train) -> ExecutorStep[Scores]:
    return Evaluate(
        checkpoint=training, tokenizer=BPE, domains={"prose": PROSE}, tasks={"gsm": GSM}, window=32, stride=16,
        label=training.label,
    )  # fmt: skip


def ladder(**fields: Any) -> Ladder:
    given: dict[str, Any] = {
        "rungs": RUNGS,
        "rule": TINY,
        "recipe": recipe,
        "score": score,
        "primary": "bpb/prose",
        "target": 1e14,
        "seeds": 2,
    }
    return Ladder(**given | fields)


def reported(made: Ladder, tmp_path: Path, better: float = 0.0) -> tuple[dict[str, Any], Directory]:
    """The report on losses of a known law, of the second recipe lower by ``better``."""
    inputs: dict[ExecutorStep[Any], Any] = {}
    for each in made.members:
        wobble = 1e-3 * math.sin(each.flops % 97 + each.seed)
        first = each.recipe == next(iter(made.recipes))
        loss = (0.6 + 0.5 * (each.flops / 1e9) ** -0.12) * (1 + wobble) - (0 if first else better)
        accuracy = 0.25 + 0.75 / (1 + math.exp(8 * (loss - 0.9)))
        metrics = {"bpb/prose": loss, "gsm/olmes/bpb": loss, "gsm/olmes/accuracy": accuracy}
        inputs[each.scores] = Scores(metrics=metrics)
    output = run_step(made.report, inputs, tmp_path).directory
    return json.loads(output.read_text("report.json")), output


def test_the_rule_gives_delphis_depths_and_keeps_the_ratio() -> None:
    depths = {512: 6, 640: 7, 768: 8, 896: 10, 1024: 11, 1280: 13, 1536: 16, 2048: 21}
    found = [DELPHI.rung(10 ** (18 + number / 8)) for number in range(24)]
    assert {one.shape.hidden: one.shape.layers for one in found}.items() >= {
        width: depth for width, depth in depths.items() if width in {one.shape.hidden for one in found}
    }.items()
    for one in found:
        assert one.tokens / one.parameters == pytest.approx(20, rel=1e-3)
        assert one.batch & (one.batch - 1) == 0
        assert one.peak_lr == pytest.approx(0.33 * math.sqrt(one.batch) / one.shape.hidden, rel=1e-3)
        assert one.shape.hidden % 128 == 0
    assert DELPHI.rung(1e20, spread=2).tokens / DELPHI.rung(1e20, spread=2).parameters == pytest.approx(40, rel=1e-3)


def test_a_ladder_is_a_training_and_an_evaluation_for_each_rung_and_seed() -> None:
    made = ladder()
    assert len(made.members) == len(set(made.trainings.values())) == 12
    assert set(made.report.dependencies) == {each.scores for each in made.members}
    for (_, rung, seed), training in made.trainings.items():
        assert training.flops() == pytest.approx(rung.flops)
        assert training.seed == seed
    labels = {run.label for run in made.trainings.values()}
    assert len(labels) == 12
    assert all(re.fullmatch(r"ladder-\d(\.\d)?e\d+-[01]", label) for label in labels)


def test_a_rung_or_seed_that_is_added_trains_its_own_runs_only() -> None:
    before = set(ladder().trainings.values())
    assert before < set(ladder(seeds=3).trainings.values())
    more = set(ladder(rungs=(*RUNGS, 2e13)).trainings.values())
    assert before < more
    assert len(more - before) == 2
    assert set(ladder(primary="gsm/olmes/bpb", target=1e15).trainings.values()) == before
    assert ladder(target=1e15).report != ladder().report


def test_two_recipes_and_several_ratios_are_all_trained() -> None:
    both = ladder(recipe={"adam": recipe, "wide": wide}, spread=(0.5, 1, 2))
    assert len(both.trainings) == 2 * 6 * 3 * 2
    assert {each.rung.spread for each in both.members} == {0.5, 1.0, 2.0}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"rungs": (1e10,)},
            "wanted two or more FLOPs, ascending",
        ),
        ({"rungs": (3e10, 1e10)}, "wanted two or more FLOPs, ascending"),
        ({"rungs": (3e12, 3.1e12)}, "get the same size, of .* FLOPs; take them further apart"),
        ({"rungs": (1e3, 1e10)}, "a rung of 1e\\+03 FLOPs is too small"),
        ({"target": 3e12}, r"target is 3e\+12 FLOPs, the largest rung 3e\+12; wanted a larger target"),
        ({"seeds": 0}, "seeds is 0; wanted at least 1"),
        ({"spread": (2.0,)}, "wanted multiples above 0, each once, 1 among them"),
        ({"recipe": {}}, "0 recipes; wanted one, or two to compare"),
        ({"recipe": without_seed}, "are the same training; use rung and seed in the recipe"),
        ({"recipe": short}, "wanted rung.shape"),
        ({"primary": "gsm/olmes/accuracy"}, "which rises as models improve; a ladder fits a loss"),
        ({"primary": "bpb/prosa"}, "did you mean 'bpb/prose'"),
        ({"tasks": (LadderTask(accuracy="gsm/olmes/accuracy", loss="gsm/olmes/bpb", guess=2.0),)}, "guess of"),
    ],
)
def test_senseless_ladders_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadField, match=message):
        ladder(**fields)


def test_a_rule_says_which_width_it_cannot_take() -> None:
    with pytest.raises(BadField, match="width_multiple is 64, which is no multiple of head_width 128"):
        TokensPerParameter(vocabulary=64, width_multiple=64)
    with pytest.raises(BadField, match=r"TokensPerParameter\.ratio is -1"):
        TokensPerParameter(vocabulary=64, ratio=-1)


def test_the_page_shows_the_prediction_the_backtest_and_every_rung(tmp_path: Path) -> None:
    task = LadderTask(accuracy="gsm/olmes/accuracy", loss="gsm/olmes/bpb", guess=0.25)
    made = ladder(tasks=(task,), spread=(0.5, 1, 2))
    report, output = reported(made, tmp_path)
    assert report["verdict"] == "PREDICTED"
    shown = page.section(made.report, output, Page(arms=(), store=str(tmp_path)))
    assert shown.answer.startswith("PREDICTED: prose text")
    read = Reading(page_of(shown))
    text = read.text
    assert "20 tokens a parameter; widths in multiples of 4" in text
    assert "target: " in text
    assert {rung.steps for rung in made.sizes} <= {
        int(row[6].replace(",", "")) for row in read.rows if len(row) > 8 and row[6].replace(",", "").isdigit()
    }
    assert "E + A / N^α + B / D^β" in text


def test_the_page_of_two_recipes_shows_their_difference(tmp_path: Path) -> None:
    made = ladder(recipe={"adam": recipe, "wide": wide})
    report, output = reported(made, tmp_path, better=0.05)
    assert report["answer"].startswith("BETTER: wide is predicted to win.")
    text = Reading(page_of(page.section(made.report, output, Page(arms=(), store=str(tmp_path))))).text
    assert "wide − adam against compute" in text
    assert isinstance(made.report, LadderReport)
