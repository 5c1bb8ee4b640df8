"""Test that one process with four devices computes the same results as one device alone."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin.evaluation.prefix_tree import Wanted
from marin.store.files.directory import Directory
from marin.training.metrics import read_metrics
from marin.training.spec import Watched, to_json
from tests.training.runs import QWEN3, VOCABULARY, prompts_in, random_checkpoint, samples, small_spec, train_here

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
WITH_FOUR = """
import pickle, sys
from pathlib import Path
from tests.training.test_several_chips import answers
from marin.store.files.directory import Directory
from marin.training.levanter_run import train
from marin.training.spec import from_json

folder = Path(sys.argv[1])
(folder / "answers").write_bytes(pickle.dumps(answers(Directory(str(folder / "checkpoint")))))
for spec in sys.argv[2:]:
    train(from_json(spec), lambda event, **facts: None)
"""
LENGTH = 128


def answers(directory: Directory) -> tuple[list[Any], list[list[int]], np.ndarray]:
    """Likelihoods of sequences that share beginnings, generated answers, and a dense batch."""
    from marin.training.scoring import load_model

    model, rng = load_model(directory, batch_tokens=512), np.random.default_rng(5)
    shared = rng.integers(0, VOCABULARY, 40)
    prompts = [np.append(shared, rng.integers(0, VOCABULARY, extra)).astype(np.int32) for extra in (1, 9, 4)]
    wanted = [Wanted(np.append(prompt, prompt[:7]).astype(np.int32), len(prompt)) for prompt in prompts for _ in "ab"]
    scored = [(one.logprobs, one.greedy) for one in model.continuations(wanted)]
    generated = model.generate([*prompts, prompts[0][:5]], 12, -1, lambda tokens: False)
    return scored, generated, model(rng.integers(0, VOCABULARY, (3, 20), dtype=np.int32))


def must_agree(found: Any, alone: Any) -> None:
    (scored, generated, dense), (ours, texts, batch) = found, alone
    for (logprobs, greedy), (mine, best) in zip(scored, ours, strict=True):
        np.testing.assert_allclose(logprobs, mine, atol=2e-5)
        assert greedy.tolist() == best.tolist()
    assert generated == texts
    np.testing.assert_allclose(dense, batch, atol=2e-5)


def losses(state: str) -> list[float]:
    return [row["loss"] for row in read_metrics(Directory(state))]


def test_four_devices_say_what_one_says(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path / "checkpoint"))
    random_checkpoint(directory, replace(QWEN3, seq_len=LENGTH), VOCABULARY, seed=1)
    watch = Watched(every=3, prompts=prompts_in(tmp_path))
    alone = small_spec(tmp_path / "alone", end_step=6, checkpoint_every=100, watch=watch)
    fully = replace(alone, state=str(tmp_path / "fully"))
    split = replace(alone, state=str(tmp_path / "split"), tensor=2)
    parts = replace(split, state=str(tmp_path / "parts"), sequences_per_device=2)
    done = subprocess.run(
        [sys.executable, "-c", WITH_FOUR, str(tmp_path), to_json(fully), to_json(split), to_json(parts)],
        env={**os.environ, **FOUR}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    must_agree(pickle.loads((tmp_path / "answers").read_bytes()), answers(directory))

    train_here(alone)
    for spec in (fully, split, parts):
        np.testing.assert_allclose(losses(spec.state), losses(alone.state), rtol=2e-5)
        assert samples(Directory(spec.state)) == samples(Directory(alone.state))
        first = json.loads((Path(spec.state) / "metrics.jsonl").read_text().splitlines()[0])
        assert first["process"]["devices"] == 4
