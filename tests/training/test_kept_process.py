"""A training in a process that has trained before gives the bytes that a process of its own gives."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from marin.training.main import LOCK
from marin.training.process import Listeners, compiled_folder, run_training
from marin.training.spec import TrainingSpec
from tests.training.runs import Runs, small_spec

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
    runs = Runs(tmp_path, small_spec(tmp_path / "first", compiled=str(compiled_folder() / "programs")))
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
