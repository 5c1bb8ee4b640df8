"""Test a sweep of small trainings: its steps, a run that diverges, and successive halving."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from marin import Checkpoint, Directory, Documents, ExecutorStep, Experiment, Scores, Stages, Tokenizer
from marin.data.documents import Document
from marin.data.mixture import Mixture
from marin.data.tokenizer import train_bpe
from marin.errors import BadField
from marin.evaluation.families.sweep import Member, sweep_report
from marin.report.section import Curves, Page, Shade, Table
from operators.early_end import EarlyEnd
from operators.evaluate import Evaluate
from operators.pages.sweep import section
from operators.start import Fork
from operators.sweep import Sweep
from operators.tokenize import Tokenize
from operators.train import Train
from tests.operators.running import Given, given_documents, run_step
from tests.operators.test_train import BPE, PRETRAIN, WEB, changed

TOKENIZER: ExecutorStep[Tokenizer] = Given(name_of_input="tokenizer")
TEXT: ExecutorStep[Documents] = Given(name_of_input="text")


def train(*, lr: float, seed: int) -> Train:
    return changed(PRETRAIN, optimizer=replace(PRETRAIN.optimizer, peak_lr=lr), seed=seed)


def score(run: ExecutorStep[Checkpoint]) -> ExecutorStep[Scores]:
    return Evaluate(checkpoint=run, tokenizer=TOKENIZER, domains={"own": TEXT}, window=8, stride=4)


def sweep(**fields: Any) -> Sweep:
    return Sweep(**{"over": {"lr": (1e-3, 3e-3, 1e-2)}, "run": train, "score": score, "primary": "bpb/own"} | fields)


def test_every_point_and_seed_is_one_run_and_more_of_them_make_only_their_own() -> None:
    first, more = sweep(seeds=2), sweep(over={"lr": (1e-3, 3e-3, 1e-2, 3e-2)}, seeds=3)
    assert [(one.point, one.seed) for one in first.members] == [
        ((lr,), seed) for seed in range(2) for lr in (1e-3, 3e-3, 1e-2)
    ]
    trained = {one.training for one in first.members}
    assert len(trained) == 6
    assert trained < {one.training for one in more.members}
    assert first.members[0].training.label == "sweep, lr 0.001, seed 0"
    assert {one.training for one in first.members} <= set(first.report.dependencies)


def test_halving_trains_on_from_the_same_checkpoints() -> None:
    made = sweep(halving=3)
    [cut] = made.halvings
    whole = train(lr=1e-3, seed=0)
    run = made.members[0].training
    assert isinstance(run, Train)
    assert run.end_step == whole.end_step
    assert run.first_step == whole.end_step // 3
    assert isinstance(run.start, Fork)
    assert run.early_end == EarlyEnd(cut=cut, member="lr 0.001")
    assert cut.keep == 1
    assert next(one.training for one in cut.members) == run.start.checkpoint


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"over": {}}, "sweeps over nothing; wanted one or two parameters"),
        ({"over": {"lr": (1e-3,)}}, "lr has the values"),
        ({"over": {"lr": (1e-3, 1e-3)}}, "each once"),
        ({"seeds": 0}, "seeds is 0"),
        ({"halving": 9}, "halving is 9 for 3 points"),
        ({"primary": "bpb/other"}, "did you mean 'bpb/own'"),
        ({"run": lambda lr, seed: train(lr=1e-3, seed=seed)}, "are the same training"),
    ],
)
def test_what_makes_no_sweep_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(BadField, match=says):
        sweep(**fields)


def test_two_parameters_make_a_heat_map_that_is_darkest_at_the_best_point(tmp_path: Path) -> None:
    def run(*, lr: float, weight_decay: float, seed: int) -> Train:
        return replace(base, optimizer=replace(base.optimizer, peak_lr=lr, weight_decay=weight_decay), seed=seed)

    base, over = changed(PRETRAIN), {"lr": (1e-3, 1e-2), "weight_decay": (0.0, 0.1)}
    made = Sweep(over=over, run=run, score=score, primary="bpb/own", seeds=2)
    losses = {(1e-3, 0.0): 1.3, (1e-3, 0.1): 1.2, (1e-2, 0.0): 1.1}
    runs = [
        Member(point=each.point, seed=each.seed, metric=losses.get(each.point, 9.0), diverged=diverged)
        for each in made.members
        for diverged in ["" if each.point in losses else "step 1: the loss is no number"]
    ]
    output = Directory(str(tmp_path))
    output.write_text("report.json", json.dumps(sweep_report(runs, tuple(over), "bpb/own")[0]))
    table, *curves = section(made.report, output, Page(arms=(), store=str(tmp_path))).blocks
    assert isinstance(table, Table)
    assert [column.name for column in table.columns] == ["lr \\ weight_decay", "0", "0.1"]
    assert table.rows == [
        ["0.001", Shade("1.3000", 0.0), Shade("1.2000", pytest.approx(0.5))],
        ["0.01", Shade("1.1000", 1.0), "diverged"],
    ]
    assert [curve.title for curve in curves if isinstance(curve, Curves)] == [
        "own text against lr (at weight_decay 0)",
        "own text against weight_decay (at lr 0.01)",
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's imports warn
def test_a_sweep_shows_the_run_that_diverged_and_the_points_that_were_cut(tmp_path: Path) -> None:
    """Trainings, evaluations, cut and report, in the order of their inputs."""
    text = "The cat sat on the mat again. " * 40
    folder = Directory(str(tmp_path / "tokenizer"))
    vocabulary, digest = train_bpe(folder, [text], 300)
    made: Any = Tokenizer(vocabulary=vocabulary, digest=digest).at(folder)
    inputs: dict[Any, Any] = {BPE: made, WEB: given_documents([Document(text)] * 4, tmp_path / "web")}
    tokens = Tokenize(documents=WEB, tokenizer=BPE, label="web")
    base = changed(PRETRAIN, vocabulary=300, data=Stages({0: Mixture({tokens: 1.0})}), max_epochs=100.0, end_step=9)

    def run(*, lr: float, seed: int) -> Train:
        return replace(base, optimizer=replace(base.optimizer, peak_lr=lr), seed=seed)

    def scored(one: ExecutorStep[Checkpoint]) -> ExecutorStep[Scores]:
        return Evaluate(checkpoint=one, tokenizer=BPE, domains={"own": WEB}, window=8, stride=4)

    made = Sweep(over={"lr": (1e-3, 1e-2, 1e25)}, run=run, score=scored, primary="bpb/own", halving=3)
    for step in Experiment(issue=1, question="Which?", results={"sweep": made.report}).steps():
        if step not in inputs:
            inputs[step] = run_step(step, inputs, tmp_path)
    lost = made.halvings[0].members[2]
    ended = json.loads(inputs[lost.training].directory.read_text("ended_early.json"))
    assert ended["reason"].startswith("step 1: ")
    assert inputs[lost.training].step == ended["step"] == 0, "the weights before the first step"
    cut = json.loads(inputs[made.halvings[0]].directory.read_text("report.json"))["cut"]
    assert cut["lr 1e+25"].startswith("diverged: step 1")
    assert cut["lr 0.001"].startswith("place 2 of 3 by bpb/own")
    slow, best, _ = (inputs[one.training] for one in made.members)
    assert (slow.step, best.step) == (3, 9), "the cut run stays where it was"
    report = inputs[made.report]
    assert report.headline[0].startswith("SELECTED: lr 0.01 (own text:")
    drawn = section(made.report, report.directory, Page(arms=(), store=str(tmp_path)))
    assert drawn.answer == report.headline[0]
