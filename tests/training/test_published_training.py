"""Trainings that begin with published weights, of every architecture that marin reads."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax

from marin.data.token_store import write_token_store
from marin.data.tokenizer import train_bpe
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.metrics import read_metrics
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from marin.training.spec import Source, Start, StartMode
from operators.pretrained_model import FolderModel
from tests.operators.running import run_step
from tests.training.runs import small_spec, train_here

MODELS = Path(__file__).parent / "published"
ROWS = 304
MET = ("marin.training.model.Llama3Rope", "marin.training.optimizer.Optimizer")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
@pytest.mark.parametrize("name", ["llama", "llama3", "mistral", "olmo2", "qwen2", "qwen3"])
def test_a_training_begins_with_the_loss_of_transformers(name: str, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    for path in (MODELS / name).iterdir():
        (given / path.name).symlink_to(path)
    train_bpe(Directory(str(given)), ["some text to train on, and some more text"] * 9, 300)
    model = run_step(FolderModel(path=str(given), vocabulary=ROWS), {}, tmp_path / "model", met=MET)
    kept = np.load(given / "logits.npz")
    tokens, logits = kept["tokens"].astype(int), kept["logits"].astype(np.float64)
    targets = np.concatenate([tokens[:, 1:-1], np.zeros((len(tokens), 1), int)], axis=1)  # a text ends with 0
    wanted = -np.take_along_axis(log_softmax(logits[:, :-1], axis=-1), targets[..., None], -1).mean()

    write_token_store(
        Directory(str(tmp_path / "tokens")), list(tokens[:, :-1]), vocabulary=ROWS, tokenizer="theirs", eos=0
    )
    facts = checkpoint.read_facts(model.directory)
    spec = small_spec(
        tmp_path / "run",
        model=dataclasses.replace(facts.model, seq_len=tokens.shape[1]),
        vocabulary=ROWS,
        start=Start(mode=StartMode.WEIGHTS, checkpoint=model.directory.url),
        optimizer=Adam(peak_lr=1e-2, z_loss=0.0),
        schedule=Schedule(warmup=0),
        sources=(Source(name="text", store=str(tmp_path / "tokens")),),
        stages={0: {"text": 1.0}},
        batch={0: len(tokens)},
        block=len(tokens),
        seq_len=tokens.shape[1],
        max_epochs=10.0,
        separate_documents=False,
        end_step=4,
    )
    train_here(spec)
    losses = [row["loss"] for row in read_metrics(Directory(spec.state))]
    assert losses[0] == pytest.approx(wanted, abs=1e-4)
    assert losses[-1] < losses[0]
