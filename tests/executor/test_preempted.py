"""marin retries a step whose worker is told to stop until the step is done, and counts no failure."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from marin import Context, ExecutorStep, execution
from marin.errors import Preempted
from marin.executor.backends.ray import STOP_SECONDS
from marin.executor.run_results import RETRIES
from marin.store.attempts import AttemptStatus, attempts_called, standing
from marin.store.store import Store
from tests.executor.test_ray import cluster_address, run_on
from tests.support.project import ROOT, Project, wait_for
from tests.support.toy import Blob, run, statuses

TIMES = RETRIES + 2


class Taken(ExecutorStep[Blob], op="toy-preempted"):
    """A step that loses its machine ``times`` times and saves one step more each time. told: by a signal."""

    times: int
    told: bool = execution(default=False)

    def run(self, ctx: Context) -> Blob:
        done = len(ctx.state.names())
        if done < self.times:
            ctx.state.write_text(f"step-{done}.txt", "saved")
            if not self.told:
                raise Preempted(f"preempted after step {done}, saved: it goes on there")
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        ctx.out.write_text("text.txt", "through")
        return Blob(bytes=done)


def test_it_goes_on_from_what_it_saved(tmp_path: Path) -> None:
    prefix, step = str(tmp_path / "store"), Taken(times=TIMES, label="taken")
    done = run(prefix, end=step)
    assert statuses(done) == {"toy-preempted/taken": "ran"}
    record = done.results[step].record
    assert record is not None
    assert (record.facts["bytes"], record.token) == (TIMES, TIMES + 1)
    assert done.results[step].error == ""


class Slow(ExecutorStep[Blob], op="toy-slow-to-save"):
    """A step that saves after a request to stop, and takes longer than a cancelled step may."""

    journal: str = execution(default="")

    def run(self, ctx: Context) -> Blob:
        told, journal = list[int](), Path(self.journal)
        before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
        journal.write_text("began")
        while not told:
            time.sleep(0.05)
        time.sleep(STOP_SECONDS + 1)
        journal.write_text("saved")
        signal.signal(signal.SIGTERM, before)
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("it was told")


EXPERIMENT = '''
"""Is it said?"""
from marin import Experiment, Scale, executor_main
from tests.executor.test_preempted import Slow, Taken


def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={"end": Taken(times=1, label="taken")})


if __name__ == "__main__":
    executor_main(build)
'''


def test_a_person_reads_that_it_was_preempted_not_that_it_failed(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT)
    said = project.run()
    assert "preempted toy-preempted/taken: preempted after step 0, saved: it goes on there" in said
    assert "failed" not in said
    assert project.ran() == ["toy-preempted/taken"]
    store = Store(str(project.store))
    stood = [standing(store, attempt)[0] for attempt in attempts_called(store, "toy-preempted/taken")]
    assert stood == [AttemptStatus.STOPPED, AttemptStatus.COMMITTED]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    yield from cluster_address()


@pytest.mark.slow
def test_a_worker_that_is_told_to_end_is_no_crash(address: str, tmp_path: Path) -> None:
    step = Taken(times=TIMES, told=True, label="taken")
    done = run_on(address, str(tmp_path / "store"), end=step)
    assert statuses(done) == {"toy-preempted/taken": "ran"}
    record = done.results[step].record
    assert record is not None
    assert record.facts["bytes"] == TIMES


@pytest.mark.slow
def test_a_driver_that_is_told_to_end_lets_its_workers_on_this_machine_save(address: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    project = Project(tmp_path / "project", EXPERIMENT.replace("Taken(times=1, ", f"Slow(journal={str(journal)!r}, "))
    driver = subprocess.Popen(
        [sys.executable, str(project.file), "--prefix", str(project.store), "--address", address],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for(journal)
    driver.terminate()
    said, _ = driver.communicate(timeout=120)
    assert driver.returncode == 143, said
    assert journal.read_text() == "saved"
    assert "stopped toy-slow-to-save/taken: stopped by SIGTERM" in said


TRAINING = '''
"""Does it go on?"""
import numpy as np

from marin import BatchSchedule, Context, Experiment, ExecutorStep, Mixture, Scale, Stages, Tokens, executor_main
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.train import Train
from tests.training.runs import LLAMA, SEQ_LEN, VOCABULARY


class Count(ExecutorStep[Tokens], op="toy-counting-text"):
    def run(self, ctx: Context) -> Tokens:
        from marin.data.token_store import write_token_store

        texts = [(start + np.arange(20)) % (VOCABULARY - 1) + 1 for start in range(200)]
        made = write_token_store(ctx.out, texts, vocabulary=VOCABULARY, tokenizer="counting", eos=0)
        return Tokens(tokens=made.tokens, documents=made.documents, vocabulary=VOCABULARY, tokenizer="counting")


def build(scale: Scale) -> Experiment:
    run = Train(
        label="run", model=LLAMA, vocabulary=VOCABULARY, optimizer=Adam(peak_lr=1e-2), schedule=Schedule(warmup=1),
        data=Stages({0: Mixture({Count(label="numbers"): 1.0})}), batch=BatchSchedule({0: 8}), seq_len=SEQ_LEN, seed=0,
        block=16, end_step=END, checkpoint_every=END, checkpoint_minutes=None, max_epochs=1e6,
    )
    return Experiment(issue=1, question=__doc__, results={"run": run})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_training_goes_on_where_its_driver_on_ray_was_told_to_end(address: str, tmp_path: Path) -> None:
    """A lost machine signals all its processes first: the trainer saves, and the next run needs no option."""
    project = Project(tmp_path / "project", TRAINING.replace("END", "600"))
    command = [sys.executable, str(project.file), "--prefix", str(project.store), "--address", address]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as driver:
        try:
            while not any(path.read_text().count("\n") >= 5 for path in project.store.rglob("metrics.jsonl")):
                assert driver.poll() is None, driver.communicate()[0]
                time.sleep(0.05)
            driver.terminate()
            said, _ = driver.communicate()
        finally:
            driver.kill()
    assert driver.returncode == 143, said
    assert "stopped train/run: stopped by SIGTERM" in said
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    [output] = [
        path.parent for path in project.store.rglob("metrics.jsonl") if (path.parent / "resumes.jsonl").exists()
    ]
    made = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in made] == list(range(600))
    began = [row["step"] for row in made if "process" in row]
    assert len(began) == 2
    assert 5 <= began[1] < 600, "where the first one was told to end, not where it would have saved by itself"
