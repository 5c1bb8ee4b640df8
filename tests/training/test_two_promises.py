"""The two promises of a training that every check looks at: it resumes bit for bit, and saves nothing that is NaN."""

from __future__ import annotations

import pytest

from marin.errors import ProcessLost
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.schedule import Decay, Schedule
from tests.training.runs import Runs, kill_trainer, resumes_of, small_spec

END = 40  # enough that a kill after the first checkpoint comes before the end
pytestmark = pytest.mark.timeout(600)  # three processes import the trainer, each for ten seconds of a core and more


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("training")
    spec = small_spec(folder / "uninterrupted", end_step=END, schedule=Schedule(warmup=2, decay=Decay(20, END)))
    made = Runs(folder, spec)
    made.train(spec)
    return made


def test_killed_and_resumed_the_run_is_bit_identical(runs: Runs) -> None:
    spec = runs.named("killed")
    checkpoints = Directory(spec.state) / "checkpoints"

    def kill(done: int, _: float) -> None:
        if done % spec.checkpoint_every and checkpoint.complete_steps(checkpoints):
            kill_trainer(spec)

    with pytest.raises(ProcessLost, match="killed by signal 9"):
        runs.train_apart(spec, step=kill)
    last = checkpoint.complete_steps(checkpoints)[-1]
    assert last < spec.end_step
    assert runs.train_apart(spec).began_at == last
    assert runs.rows(spec) == runs.rows(runs.spec)
    assert resumes_of(spec) == [{"step": last, "changed": {}}]


def test_a_gradient_that_is_not_finite_stops_it_and_the_last_good_checkpoint_is_named(runs: Runs) -> None:
    said = runs.diverging(runs.continued("gradient", end_step=END + 4), z_loss=1e37)
    for fact in (f"step {END}", "grad_norm is inf", f"last good checkpoint is of step {END}", f"fork from step {END}"):
        assert fact in said, said
