"""Test the health findings of real rehearsal runs: one finding for each fault, none for the run without a fault.

The tests ignore findings of a slower machine, because other tests slow the machine down.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from marin.data.token_store import TokenStore
from marin.store.files.directory import Directory
from marin.training.health.findings import Finding, Kind, findings
from marin.training.metrics import read_metrics
from marin.training.optimizer import Adam
from marin.training.schedule import Decay, Schedule
from marin.training.spec import TrainingSpec
from tests.training import faults
from tests.training.runs import train_here

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
BAD = range(150, 156)  # optimizer steps
UNGUARDED = Adam(
    peak_lr=1e-2, max_grad_norm=None, clip_update_norm=None, skip_bad_steps=None, ema=0.95
)  # fmt: skip


def found_in(spec: TrainingSpec) -> list[Finding]:
    train_here(spec)
    return [each for each in findings(read_metrics(Directory(spec.state))) if each.kind is not Kind.SLOW]


def only(found: list[Finding], kind: Kind) -> Finding:
    assert [each.kind for each in found] == [kind], [each.sentence() for each in found]
    return found[0]


def test_of_the_run_without_a_fault_nothing_is_said(tmp_path: Path) -> None:
    assert found_in(faults.spec(tmp_path)) == []


def test_a_poisoned_batch_is_told_from_weights_that_are_hurt(tmp_path: Path) -> None:
    found = only(found_in(faults.poisoned(tmp_path, range(200, 201))), Kind.SPIKE)
    assert 198 <= found.step <= 200 <= found.end <= 202
    assert found.step == found.end or "at step 200" in found.text
    assert "recovered" in found.text
    assert not found.ill
    assert "that batch is unlike the others, look at its data (16 of text)" in found.sentence()
    assert "1 of its updates were left out" in found.sentence()


def test_without_clipping_bad_batches_hurt_the_weights(tmp_path: Path) -> None:
    found = only(found_in(faults.poisoned(tmp_path, BAD, optimizer=UNGUARDED)), Kind.SPIKE)
    assert abs(found.step - BAD[0]) <= 2
    assert abs(found.end - BAD[-1]) <= 2
    assert "the weights were hurt" in found.sentence()
    assert "off in this run: gradient clipping, update clipping, skipping" in found.causes


def test_a_sorted_store_under_a_linear_walk_is_the_order_of_the_data(tmp_path: Path) -> None:
    texts = [text for kind in faults.KINDS for text in faults.documents(kind, faults.SEQUENCES // 2, 0)]
    found = only(found_in(faults.spec(tmp_path, texts, shuffle="linear", seed=23)), Kind.ORDER)
    assert found.ill
    assert "the batches are not drawn independently" in found.text
    assert "it is the order of the data, not the weights" in found.sentence()


def test_a_loader_that_stalls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, calls = TokenStore.read, itertools.count(1)

    def stalled(self: TokenStore, *given: Any) -> Any:
        time.sleep(2 if 60 <= next(calls) < 72 else 0)  # much more than a step on a busy machine
        return read(self, *given)

    monkeypatch.setattr(TokenStore, "read", stalled)
    found = only(found_in(faults.spec(tmp_path, end_step=120)), Kind.LOADER)
    assert found.end - found.step < 45
    assert "the data loader is too slow" in found.text


def test_a_deep_cooldown_without_z_loss_is_named(tmp_path: Path) -> None:
    """At this size neither the head's norm nor log Z grows, so the finding says that the guard is off."""
    recipe: dict[str, Any] = {"optimizer": Adam(peak_lr=3e-3, max_grad_norm=1.0, ema=0.95, z_loss=0.0)}
    spec = faults.spec(tmp_path, schedule=Schedule(warmup=20, decay=Decay(100, faults.STEPS)), **recipe)
    found = only(found_in(spec), Kind.NORMALIZER)
    assert not found.ill
    assert "z-loss is off while the learning rate falls to 0% of its peak" in found.text
