"""Training on a batch in parts: the losses of the whole batch, in less memory."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin.data.chat import Chat, write_chats
from marin.store.files.directory import Directory
from marin.training.optimizer import Adam, ClipUpdateNorm
from marin.training.schedule import Schedule
from marin.training.spec import Source
from tests.training.runs import SEQ_LEN, VOCABULARY, Runs, resumes_of, small_spec

pytestmark = pytest.mark.slow

END = 8


def write_lopsided_chats(directory: Path) -> Source:
    """One chat a sequence; of every second one the loss counts a single token, of the others all but the first."""
    rng = np.random.default_rng(7)
    chats: list[Chat] = []
    for number in range(200):
        ids = (rng.integers(0, VOCABULARY) + 3 * np.arange(SEQ_LEN)) % (VOCABULARY - 1) + 1
        ids[[10, -1]] = 0  # two documents
        counts = np.arange(SEQ_LEN) == 5 if number % 2 else np.arange(SEQ_LEN) > 0
        chats.append(Chat(ids, counts))
    write_chats(Directory(str(directory)), chats, vocabulary=VOCABULARY, tokenizer="counting", eos=0)
    return Source(name="chats", store=str(directory))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Text and chats, with a batch that changes, and an optimizer that logs and clips."""
    folder = tmp_path_factory.mktemp("microbatches")
    chats = write_lopsided_chats(folder / "chats")
    recipe = Adam(peak_lr=1e-2, max_grad_norm=1.0, z_loss=1e-2, ema=0.8, clip_update_norm=ClipUpdateNorm())
    spec = small_spec(folder / "whole", optimizer=recipe, schedule=Schedule(warmup=1), end_step=END, batch={0: 8, 5: 4})
    stages = {0: {"stride 1": 0.25, "stride 5": 0.25, "chats": 0.5}}
    spec = replace(spec, sources=(*spec.sources, chats), stages=stages)
    made = Runs(folder, spec)
    made.train(spec)
    return made


def numbers(rows: list[dict[str, Any]], name: str) -> list[float]:
    return [row[name] for row in rows]


@pytest.mark.parametrize("each", [1, 2, 4])
def test_microbatches_train_what_the_whole_batch_trains(runs: Runs, each: int) -> None:
    spec = runs.named(f"by {each}", sequences_per_device=each)
    runs.train(spec)
    whole, rows = runs.rows(runs.spec), runs.rows(spec)
    np.testing.assert_allclose(numbers(rows, "loss"), numbers(whole, "loss"), atol=1e-5, rtol=0)
    for name in ("grad_norm", "update_norm"):
        np.testing.assert_allclose(numbers(rows, name), numbers(whole, name), rtol=1e-4)
    assert [row.keys() for row in rows] == [row.keys() for row in whole], "whatever the optimizer logs is there"


def test_a_resume_goes_on_bit_by_bit_and_another_setting_is_told(runs: Runs) -> None:
    spec = runs.named("killed", sequences_per_device=2)
    runs.train(spec)
    uninterrupted = runs.rows(spec)
    shutil.rmtree(runs.checkpoint(spec, END).path)
    other = runs.named("other", sequences_per_device=4)
    shutil.copytree(spec.state, other.state)
    assert runs.train(spec).began_at == 4
    assert runs.rows(spec) == uninterrupted
    assert resumes_of(spec) == [{"step": 4, "changed": {}}]
    runs.train(other)
    assert resumes_of(other) == [{"step": 4, "changed": {"sequences_per_device": [2, 4]}}]
