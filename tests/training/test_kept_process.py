"""Trainings and evaluations in a process that has trained before give the bytes of a process of their own."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from marin import BatchSchedule, Stages, mixture
from marin.training.main import LOCK
from marin.training.optimizer import Adam
from marin.training.process import Listeners, run_training
from marin.training.schedule import Schedule
from marin.training.spec import TrainingSpec
from operators.evaluate import Evaluate
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer
from tests.support.toy import record_of, run
from tests.training.runs import LLAMA, SEQ_LEN, Runs, small_spec

pytestmark = pytest.mark.slow


def trained(spec: TrainingSpec) -> int:
    """The process that trained it."""
    run_training(spec, Path(spec.state).parent / "training.log", Listeners())
    return int((Path(spec.state) / LOCK).read_text())


def weights(runs: Runs, spec: TrainingSpec) -> dict[bytes, bytes]:
    """The chunks of all arrays."""
    import tensorstore

    folder = runs.checkpoint(spec, spec.end_step)
    chunks = tensorstore.KvStore.open({"driver": "ocdbt", "base": f"file://{folder.path}/"}).result()
    return {name: chunks.read(name).result().value for name in chunks.list().result()}


def test_the_next_training_has_the_same_process_and_the_bytes_of_one_of_its_own(tmp_path: Path) -> None:
    runs = Runs(tmp_path, small_spec(tmp_path / "first"))
    other = {"seed": 4, "stages": {0: {"stride 1": 0.25, "stride 5": 0.75}}}
    second, alone = runs.named("second", **other), runs.named("alone", **other)
    kept = trained(runs.spec)
    assert trained(second) == kept

    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(trained(alone)))
    thread.start()
    thread.join()
    assert found != [kept], "another thread has a process of its own, which ends with the thread"
    assert weights(runs, second) == weights(runs, alone) != weights(runs, runs.spec)
    assert len(weights(runs, second)) > 10
    assert runs.rows(second) == runs.rows(alone)

    os.kill(kept, signal.SIGKILL)
    assert trained(runs.named("third", **other)) != kept
    assert runs.rows(runs.named("third")) == runs.rows(alone)


def trainers() -> set[int]:
    """The training processes that this process has."""
    children = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
    return {each.pid for each in children if "marin.training.main" in each.cmdline()}


def test_an_evaluation_in_that_process_writes_the_bytes_of_one_in_its_own(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/text.txt").write_text("\n".join(f"{n} and {n + 1} make {2 * n + 1}." for n in range(600)))
    text = TextFiles(path=str(tmp_path / "own"), label="own")
    tokenizer = TrainTokenizer(documents=(text,), vocabulary=300, label="own")
    training = Train(
        label="run", model=LLAMA, vocabulary=300, optimizer=Adam(peak_lr=1e-2), schedule=Schedule(warmup=2),
        data=Stages({0: mixture({Tokenize(documents=text, tokenizer=tokenizer, label="own"): 1.0})}),
        batch=BatchSchedule({0: 8}), seq_len=SEQ_LEN, block=16, seed=3, end_step=4,
    )  # fmt: skip
    score = Evaluate(
        checkpoint=training, tokenizer=tokenizer, domains={"own": text}, window=SEQ_LEN, stride=24, label="own"
    )
    other = replace(score, checkpoint=replace(training, seed=4))
    store, alone = str(tmp_path / "store"), str(tmp_path / "alone")
    run(store, training=training)
    shutil.copytree(store, alone)

    run(store, other=other)
    [kept] = trainers()
    run(store, score=score)
    assert trainers() == {kept}

    def scored_alone() -> set[int]:
        run(alone, score=score)
        return trainers()

    with ThreadPoolExecutor(1) as thread:
        assert len(thread.submit(scored_alone).result() - {kept}) == 1
    assert record_of(store, score).root == record_of(alone, score).root != record_of(store, other).root
