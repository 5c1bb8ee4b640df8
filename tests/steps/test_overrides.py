"""Test ``--set``, which gives some fields of an experiment other values."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import pytest

from experiments.exp1529_mantis import build
from marin import Experiment, Scale
from marin.errors import BadField
from marin.steps.overrides import with_changes
from marin.training.optimizer import Muon
from operators.evaluate import Evaluate
from operators.train import Train
from tests.operators.test_microanneal import micro

WRITTEN = build(Scale.REHEARSAL)


def steps(experiment: Experiment) -> dict[str, Any]:
    return {step.name: step for step in experiment.steps()}


def trained(experiment: Experiment, label: str) -> Train:
    found = steps(experiment)[f"train/{label}"]
    assert isinstance(found, Train)
    return found


def test_nothing_set_is_the_experiment_itself() -> None:
    assert with_changes(WRITTEN, ()) is WRITTEN


def test_a_field_is_changed_and_what_is_made_from_it_is_another_step() -> None:
    experiment = with_changes(WRITTEN, ["32b-qwen3.optimizer.peak_lr=1e-3"])
    before, now = steps(WRITTEN), steps(experiment)
    assert before.keys() == now.keys()
    assert trained(experiment, "32b-qwen3").optimizer == replace(trained(WRITTEN, "32b-qwen3").optimizer, peak_lr=1e-3)
    assert trained(experiment, "mantis").optimizer == trained(WRITTEN, "mantis").optimizer
    others = {name for name in now if now[name] != before[name]}
    # The arms fork from the run; their scores and comparisons follow. The run's data and Llama do not change.
    assert {"train/32b-qwen3", "train/bison", "train/mantis", "evaluate/mantis", "compare/bison-mantis"} <= others
    assert "train/32b-llama" not in others
    assert not any(name.startswith(("tokenize/", "download/", "filter/")) for name in others)
    # Every step built from the run says so, and no other step.
    assert {now[name].identity for name in others} == set(experiment.changes)
    assert experiment.all_changes() == ["train/32b-qwen3.optimizer.peak_lr=1e-3"]
    mantis = steps(experiment)["evaluate/mantis"]
    assert isinstance(mantis, Evaluate)
    assert mantis.checkpoint is trained(experiment, "mantis")
    # A step that a later change does not touch goes on saying so.
    bison = trained(experiment, "bison")
    later = experiment.adjusted(lambda holder, _: {"seed": 7} if holder == bison else {}, why="seed 7")
    assert later.changes[mantis.identity] == experiment.changes[mantis.identity]


@pytest.mark.parametrize(
    ("setting", "field", "value"),
    [
        ("mantis.seed=7", "seed", 7),
        ("train/mantis.max_epochs=2", "max_epochs", 2.0),
        ("mantis.separate_documents=false", "separate_documents", False),
        ("mantis.optimizer.ema=none", "optimizer.ema", None),
        ("mantis.optimizer.clip_update_norm.window=64", "optimizer.clip_update_norm.window", 64),
        ('mantis.optimizer={"momentum": 0.9, "ema": null}', "optimizer", Muon(momentum=0.9, ema=None)),
        ("mantis.shuffle=linear", "shuffle.value", "linear"),
        ('mantis.batch.at={"0": 32, "18": 30, "21": 32, "160": 48}', "batch.at", {0: 32, 18: 30, 21: 32, 160: 48}),
        ("mantis.schedule.decay.end=200", "schedule.decay.end", 200),
        ("mantis.allow_starved.0=wiki", "allow_starved", ("wiki",)),
        ("mantis.checkpoint_every=7", "checkpoint_every", 7),
    ],
)
def test_a_value_is_read_as_its_field_is_annotated(setting: str, field: str, value: Any) -> None:
    found = operator.attrgetter(field)(trained(with_changes(WRITTEN, [setting]), "mantis"))
    assert found == value
    assert isinstance(found, type(value))


def test_a_run_and_what_goes_on_from_it_are_changed_together() -> None:
    """marin refuses a change of one run alone: the text of its first steps would not match the text already read."""
    names = [step.label for step in WRITTEN.steps() if isinstance(step, Train)]
    with pytest.raises(BadField, match="its batch differs before that step"):
        with_changes(WRITTEN, [f"{names[0]}.batch.at.0=64"])
    experiment = with_changes(WRITTEN, [f"{name}.batch.at.0=64" for name in names])
    assert {tuple(trained(experiment, name).batch.at.items()) for name in names} == {((0, 64), (18, 30), (21, 32))}


def test_several_are_set_and_what_cannot_change_an_output_changes_no_identity() -> None:
    experiment = with_changes(WRITTEN, ["mantis.seed=1", "mantis.seed=2", "train/bison.resources.cpus=2"])
    assert trained(experiment, "mantis").seed == 2
    assert trained(experiment, "bison") == trained(WRITTEN, "bison")
    assert trained(experiment, "bison").resources.cpus == 2


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("mantis.seed", "wanted STEP.FIELD=VALUE, such as"),
        ("mantsi.seed=1", "no step has that label; did you mean mantis"),
        ("mantis.optimiser.ema=none", "train/mantis has no field 'optimiser'; did you mean optimizer"),
        ("mantis.optimizer.peak=1", "Adam has no field 'peak'; did you mean peak_lr?"),
        ("mantis.seed=1.5", "wanted int: Input should be a valid integer"),
        ("mantis.data=1", "it may hold a step or any type; change the experiment file"),
        ("mantis.batch.at.5=1", "nothing at '5'; there are: 0, 18, 21"),
        ("mantis.allow_starved.1=x", "'1' is no place among 1, counted from 0"),
        ("mantis.optimizer.adamc.x=1", "there is no field 'x', because the value above it is True"),
        ("train/mantis.resources.cpus=-1", "Resources.cpus is -1.0; wanted 0 or more"),
        (
            "mantis.resources.cpus=2",
            "train/mantis, evaluate/mantis, exposure/mantis have that label and field; name one step",
        ),
    ],
)
def test_what_cannot_be_set_says_what_can(setting: str, message: str) -> None:
    with pytest.raises(BadField) as caught:
        with_changes(WRITTEN, [setting])
    assert message in str(caught.value)


def test_what_does_not_fit_a_changed_step_is_said_to_come_of_the_change() -> None:
    """The file derived the first learning rate of a cooldown from its base when it was built."""
    annealed = Experiment(issue=1, question="Which?", results={"verdict": micro().verdict})
    with pytest.raises(BadField, match="begins at a learning rate") as refused:
        with_changes(annealed, ["pretrain.optimizer.peak_lr=4e-3"])
    assert "train/pretrain.optimizer.peak_lr=4e-3: values that the file derives" in refused.value.__notes__[0]
