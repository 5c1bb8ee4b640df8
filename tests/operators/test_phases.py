"""A run as a list of phases."""

from __future__ import annotations

import pytest

from infra.hardware import tpu
from marin import BatchSchedule
from marin.errors import BadField
from marin.training.optimizer import Adam, ClipUpdateNorm, Muon
from marin.training.schedule import Decay, Schedule
from operators.phases import Phase, phased
from operators.train import Fork, OptimizerState, Train, WarmStart
from tests.operators.test_train import PRETRAIN, changed
from tests.training.runs import QWEN3

CALM = Adam(max_grad_norm=0.2)
RUN = changed(PRETRAIN, end_step=60, batch=BatchSchedule({0: 8}))


def test_each_phase_begins_where_the_one_before_it_ended_and_changes_what_it_names() -> None:
    run = phased(
        RUN,
        [
            Phase(until=10),
            Phase(until=20, optimizer=CALM, resources=tpu("v4-8")),
            Phase(until=40, model=QWEN3, clip_history=15, label="normed"),
            Phase(until=60, optimizer=Muon(), schedule=Schedule(decay=Decay(40, 60))),
        ],
    )
    first, calm, normed, last = run.trainings
    assert [training.label for training in run.trainings] == ["pretrain", "pretrain-10", "normed", "pretrain-40"]
    assert first == changed(RUN, end_step=10)
    assert calm == changed(RUN, first_step=10, end_step=20, start=Fork(first.at(10)), optimizer=CALM)
    assert calm.resources == normed.resources == tpu("v4-8")  # as in the phase before
    assert normed.start == WarmStart(calm.at(20), OptimizerState.KEPT, clip_history=calm.at(15))
    assert (normed.model, normed.optimizer) == (QWEN3, CALM)
    assert (last.start, last.model, last.optimizer) == (Fork(normed.at(40)), QWEN3, Muon())
    assert run.last is last
    assert [run.at(step).training for step in (1, 10, 11, 20, 60)] == [first, first, calm, calm, last]


def test_without_phases_it_is_one_training() -> None:
    assert phased(RUN, []).trainings == (RUN,)


def test_what_does_not_follow_is_refused() -> None:
    with pytest.raises(BadField, match="its phases end at step 50, but the run ends at 60"):
        phased(RUN, [Phase(until=50)])
    with pytest.raises(BadField, match="from step 40 to 30: end must come later"):
        phased(RUN, [Phase(until=40), Phase(until=30), Phase(until=60)])
    with pytest.raises(BadField, match=r"at\(61\): the run makes the steps 0 to 60"):
        phased(RUN, []).at(61)


def forked(start: Fork, optimizer: Adam = Adam()) -> Train:  # noqa: B008  # a frozen value
    return changed(PRETRAIN, first_step=4, start=start, optimizer=optimizer)


def test_a_history_that_is_not_there_is_refused_when_the_run_is_written() -> None:
    source = PRETRAIN.at(4)
    assert forked(Fork(source, clip_history=PRETRAIN.at(2))).identity != forked(Fork(source)).identity
    with pytest.raises(BadField, match=r"milestone/pretrain@2, and None here; wanted a clip in both"):
        forked(Fork(source, clip_history=PRETRAIN.at(2)), Adam(clip_update_norm=None))
    with pytest.raises(BadField, match=r"window=128\) in milestone/pretrain@2, and .*window=8\) here"):
        forked(Fork(source, clip_history=PRETRAIN.at(2)), Adam(clip_update_norm=ClipUpdateNorm(window=8)))
    with pytest.raises(BadField, match="replayed=5; wanted 1 to 4, the number of batches"):
        forked(Fork(source, OptimizerState.REBUILT, replayed=5))
