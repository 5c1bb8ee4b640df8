"""Test runs that change in the middle: marin counts their draws part by part, and the plan names each change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from marin import BatchSchedule, Mixture, Shuffle, Size, Stages
from marin.cli.plan import command
from marin.data.order_spec import order_of
from marin.data.token_store import TokenStore, write_token_store
from marin.errors import BadField
from marin.plan.cost.plan_cost import Sizes
from marin.report.trainings import draws_of, what_forks_change
from marin.store.files.directory import Directory
from marin.training.schedule import Cycles, Schedule
from operators.start import Fork, OptimizerState
from operators.train import Train
from tests.operators.running import Given
from tests.operators.test_train import PRETRAIN, WEB

CODE = Given(name_of_input="code", label="code")
RUN = replace(
    PRETRAIN,
    label="run",
    seq_len=8,
    batch=BatchSchedule({0: 8}),
    block=8,
    end_step=20,
    schedule=Schedule(warmup=2, cycles=Cycles(length=10, decay=2, until=20)),
)
LONGER: dict[str, Any] = {"batch": BatchSchedule({0: 8, 10: 4}), "seq_len": 16}


def forked(**fields: Any) -> Train:
    return replace(RUN, **{"label": "fork", "first_step": 10, "start": Fork(RUN.at(10)), **fields})


EXPERIMENT = """
from marin import Experiment
from tests.operators.test_forks import LONGER, RUN, forked

def build(scale):
    return Experiment(issue=1, question="Does it count?", results={"run": RUN, "fork": forked(**LONGER)})
"""


def test_a_run_is_counted_and_drawn_by_its_parts(tmp_path: Path) -> None:
    """Ten steps of 64 tokens, then ten of half as many sequences, twice as long: 1,280, and no step counts twice."""
    path = tmp_path / "exp.py"
    path.write_text(EXPERIMENT)
    runner = CliRunner(env={"COLUMNS": "100"})
    told = json.loads(runner.invoke(command, [str(path), "--phases", "--json"]).output)
    found = {each["name"]: each for each in told["phases"]}
    assert found["fork"]["read"] == [[10, 640], [20, 1280]]
    # A cycle that begins again at once has its lowest rate where the next one begins.
    assert [at for at, rate in found["run"]["rates"] if rate < 0.01] == [0, 9, 19]
    text = runner.invoke(command, [str(path), "--phases"]).output
    assert "fork from its beginning: 20 steps, 1.28K tokens" in text
    batch = next(line for line in text.partition("fork from its")[2].splitlines() if "batch" in line).split()[0]
    assert set(batch[: len(batch) // 2]) == {"█"}
    assert set(batch[len(batch) // 2 :]) == {"▅"}
    assert "run from its beginning: 20 steps, 1.28K tokens" in text  # its own second half, too


def test_epochs_count_the_lengths_that_sequences_had(tmp_path: Path) -> None:
    """1,280 tokens of a text of 640 are two epochs, in windows of 8, or first of 8 and then of 16."""
    directory = Directory(str(tmp_path))
    write_token_store(directory, [[*range(2, 34)] * 20], tokenizer="t", vocabulary=64, eos=1)
    store = TokenStore.open(directory)
    for run in (RUN, forked(**LONGER), forked(seed=1)):
        [epochs] = order_of(run).order({WEB: store}).epochs(20).values()
        assert epochs == 2.0
        table = draws_of(run, Sizes({WEB: Size(bytes=0, tokens=store.meta.tokens)}))
        assert table is not None
        assert table.total[0].epochs_by_end == 2.0


def test_the_plan_says_what_changes_in_the_middle_of_a_run() -> None:
    seeds = [forked(seed=seed, label=f"seed-{seed}") for seed in (0, 1)]
    assert what_forks_change([RUN, seeds[0]]) == []
    assert what_forks_change([seeds[1]]) == [
        "train/seed-1 goes on from train/run at step 10, changed: seed: 0 → 1. "
        "Its text may come again before an epoch ends: the shuffle is new"
    ]
    [line] = what_forks_change([forked(shuffle=Shuffle.LINEAR, **LONGER), forked(shuffle=Shuffle.LINEAR, **LONGER)])
    assert line.startswith(
        "train/fork, train/fork go on from train/run at step 10, changed: batch.at.10: none → 4, seq"
    )
    assert line.endswith("before an epoch ends: the cut into sequences is new, the shuffle is new")
    assert what_forks_change([replace(RUN, start=Fork(RUN.at(10), OptimizerState.FRESH))]) == []  # counts for itself


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch": BatchSchedule({0: 16})}, r"batch=BatchSchedule\(\{\*\*before.batch.at, 10: …\}\)"),
        ({"data": Stages({0: Mixture({CODE: 1.0})})}, r"its data differs before that step"),
        ({"block": 16}, "block is 16, but 8 in Train 'run'"),
    ],
)
def test_what_would_leave_out_text_or_read_it_twice_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadField, match=message):
        forked(**fields)
    assert forked(data=Stages({0: Mixture({WEB: 1.0}), 10: Mixture({CODE: 1.0})})).first_step == 10
