"""A run whose machine is taken away saves first, and the next attempt goes on from there; one that is killed in a save
loses only that save."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from marin.errors import Preempted, ProcessLost
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.main import LOCK
from marin.training.metrics import TIMINGS, read_metrics
from marin.training.process import Listeners, Timings, run_training
from marin.training.spec import TrainingSpec
from tests.training.runs import small_spec, waiting_for

pytestmark = pytest.mark.slow

RARELY = 1000
END = 60


@dataclasses.dataclass
class Runs:
    """spec: a run that saves a checkpoint after every step, because the interval in minutes has passed."""

    folder: Path
    spec: TrainingSpec

    def named(self, name: str, **changes: Any) -> TrainingSpec:
        """Return the spec of a run that saves only at its end, or when told to."""
        state = str(self.folder / name / "state")
        return dataclasses.replace(self.spec, state=state, checkpoint_minutes=None, **changes)


def rows(spec: TrainingSpec) -> list[dict[str, Any]]:
    return [
        {name: held for name, held in row.items() if name not in TIMINGS} for row in read_metrics(Directory(spec.state))
    ]


def train(spec: TrainingSpec, **listeners: Any) -> Timings:
    return run_training(spec, Path(spec.state).parent / "training.log", Listeners(**listeners))


def trainer(spec: TrainingSpec) -> int:
    return int((Path(spec.state) / LOCK).read_text())


def saved(spec: TrainingSpec) -> list[int]:
    return checkpoint.complete_steps(Directory(spec.state) / "checkpoints")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("preemption")
    spec = small_spec(
        folder / "whole", end_step=END, checkpoint_every=RARELY, checkpoint_minutes=1e-9, max_epochs=100.0
    )
    announced: list[int] = []
    train(spec, checkpoint=announced.append)
    assert announced == list(range(1, END + 1)), "each is announced once, in order, and the last before the end"
    assert saved(spec) == [END - 1, END], "what is superfluous goes"
    return Runs(folder, spec)


def test_a_trainer_that_is_told_to_stop_saves_and_the_next_one_goes_on_there(runs: Runs) -> None:
    spec, steps, announced = runs.named("told", checkpoint_every=RARELY), list[int](), list[int]()

    def stop(done: int, _loss: float) -> None:
        steps.append(done)
        if done == 5:
            os.kill(trainer(spec), signal.SIGTERM)

    with pytest.raises(
        Preempted, match=rf"preempted \(SIGTERM\) after step \d+ of {END}, saved: the next run goes on there"
    ) as told:
        train(spec, step=stop, checkpoint=announced.append)
    assert 5 <= steps[-1] < END
    assert f"after step {steps[-1]} of {END}" in str(told.value)
    assert (announced, saved(spec)) == ([steps[-1]], [steps[-1]])
    assert train(spec).began_at == steps[-1]
    assert rows(spec) == rows(runs.spec)


def test_who_waits_for_a_trainer_lets_it_save_before_it_stops_itself(runs: Runs) -> None:
    spec = runs.named("waiting")
    waiting = waiting_for(spec, runs.folder / "waiting")
    waiting.terminate()
    waiting.communicate(timeout=120)
    assert waiting.returncode == -signal.SIGTERM
    [step] = saved(spec)
    assert 0 < step < END


def test_a_person_who_interrupts_does_not_wait_for_a_save(runs: Runs) -> None:
    spec = runs.named("interrupted")
    waiting = waiting_for(spec, runs.folder / "interrupted")
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=120)
    assert waiting.returncode == -signal.SIGINT
    assert saved(spec) == []


def test_a_save_that_is_torn_by_kill_9_is_thrown_away(runs: Runs) -> None:
    spec = runs.named("torn", checkpoint_every=4)
    torn: list[int] = []

    def kill(done: int, _loss: float) -> None:
        """Between the first file of a checkpoint and its marker; which save that is does not matter."""
        target = checkpoint.step_directory(Directory(spec.state) / "checkpoints", done).path
        limit = time.monotonic() + 5
        while done >= 8 and done % 4 == 0 and not torn and time.monotonic() < limit:
            if (target / checkpoint.MARKER).exists():
                return
            if any(path.is_file() for path in target.rglob("*")):
                os.kill(trainer(spec), signal.SIGKILL)
                torn.append(done)

    with pytest.raises(ProcessLost, match="killed by signal 9"):
        train(spec, step=kill)
    [step] = torn
    is_torn = step not in saved(spec)  # else the marker came between the look and the kill
    timings = train(spec)
    assert timings.began_at == (step - 4 if is_torn else step)
    assert not is_torn or f"step {step} was never completed" in timings.notes[0]
    assert rows(spec) == rows(runs.spec)
