"""A disk that fills up during a save: a clear error, the last good checkpoint kept, the retry goes on from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marin.errors import StoreFull
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.metrics import TIMINGS, read_metrics
from marin.training.process import Listeners, Timings, run_training
from marin.training.spec import TrainingSpec
from tests.support.small_disk import SmallDisk, small_disk
from tests.training.runs import small_spec

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", mib=16) as disk:
        yield disk


def on_disk(disk: SmallDisk, elsewhere: Path) -> TrainingSpec:
    """Its work lies on the small disk; its tokens and its log do not."""
    spec = small_spec(elsewhere / "run")
    return dataclasses.replace(spec, state=str(disk.folder / "state"))


def train(spec: TrainingSpec, log: Path, **listeners: Any) -> Timings:
    return run_training(spec, log, Listeners(**listeners))


def saved(spec: TrainingSpec) -> list[int]:
    return checkpoint.complete_steps(Directory(spec.state) / "checkpoints")


def test_a_disk_that_fills_up_during_a_save(disk: SmallDisk, tmp_path: Path) -> None:
    spec, log, announced = on_disk(disk, tmp_path), tmp_path / "training.log", list[int]()

    def fill(done: int, _loss: float) -> None:
        if done == 7:
            disk.fill(leave=100 << 10)  # room for some of the arrays only

    with pytest.raises(StoreFull) as full:
        train(spec, log, step=fill, checkpoint=announced.append)
    said = str(full.value)
    for fact in ("no space left for the checkpoint of step 8", "free some", "of step 4 is good", "goes on from it"):
        assert fact in said, said
    assert (announced, saved(spec)) == ([4], [4])
    assert not (Path(spec.state) / "checkpoints/step-8").exists(), "it gives back what it took"
    disk.free()
    timings = train(spec, log, checkpoint=announced.append)
    assert (timings.began_at, announced, saved(spec)) == (4, [4, 8, 12], [8, 12])
    whole = dataclasses.replace(spec, state=str(tmp_path / "whole"))
    train(whole, log)
    rows = [
        [
            {name: held for name, held in row.items() if name not in TIMINGS}
            for row in read_metrics(Directory(run.state))
        ]
        for run in (spec, whole)
    ]
    assert rows[0] == rows[1]


def test_a_disk_without_room_for_one_checkpoint_is_refused_before_the_first_step(
    disk: SmallDisk, tmp_path: Path
) -> None:
    spec, steps = on_disk(disk, tmp_path), list[int]()
    disk.fill(leave=100 << 10)
    with pytest.raises(
        StoreFull, match=r"a checkpoint of this run takes .* MiB, and the disk has .* MiB left; free some"
    ):
        train(spec, tmp_path / "training.log", step=lambda done, _: steps.append(done))
    assert steps == []


def test_a_line_of_metrics_that_does_not_fit_is_not_left_in_half(disk: SmallDisk) -> None:
    from marin.training.metrics import MetricsLog

    log = MetricsLog(Directory(str(disk.folder)), "metrics.jsonl", ())
    log.add({"step": 0})
    disk.fill()

    def go_on() -> None:
        for step in range(1, 3000):
            log.add({"step": step, "note": "x" * 60})

    with pytest.raises(OSError, match="No space left"):
        go_on()
    rows = read_metrics(Directory(str(disk.folder)))
    assert [row["step"] for row in rows] == list(range(len(rows)))
    disk.free()
