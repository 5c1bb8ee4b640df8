"""Small training runs on a token store that a model can learn something from."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from marin.data.token_store import write_token_store
from marin.store.files.directory import Directory
from marin.training.model import Llama, Precision, Qwen3, Recompute
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from marin.training.spec import Source, TrainingSpec

VOCABULARY, SEQ_LEN = 64, 32
LLAMA = Llama(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=SEQ_LEN)
QWEN3 = Qwen3(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=SEQ_LEN)


def write_source(directory: Path, *, stride: int, documents: int = 400) -> Source:
    """A store of arithmetic sequences modulo the vocabulary: the next token follows from the two before it."""
    rng = np.random.default_rng(stride)
    texts = [
        (start + stride * np.arange(20)) % (VOCABULARY - 1) + 1 for start in rng.integers(0, VOCABULARY, documents)
    ]
    write_token_store(Directory(str(directory)), texts, vocabulary=VOCABULARY, tokenizer="counting", eos=0)
    return Source(name=f"stride {stride}", store=str(directory))


def small_spec(folder: Path, **changes: Any) -> TrainingSpec:
    """12 steps of a 30,000-parameter Llama on two sources; resumable work in ``folder/state``."""
    sources = tuple(write_source(folder.parent / f"tokens-{stride}", stride=stride) for stride in (1, 5))
    spec = TrainingSpec(
        model=LLAMA,
        vocabulary=VOCABULARY,
        optimizer=Adam(peak_lr=1e-2, max_grad_norm=1.0, ema=0.8),
        schedule=Schedule(warmup=2),
        precision=Precision.FLOAT32,
        recompute=Recompute.NOTHING,
        sources=sources,
        stages={0: {"stride 1": 0.75, "stride 5": 0.25}},
        batch={0: 8},
        shuffle="feistel",
        seed=3,
        block=16,
        seq_len=SEQ_LEN,
        separate_documents=True,
        first_step=0,
        end_step=12,
        state=str(folder / "state"),
        checkpoint_every=4,
    )
    return dataclasses.replace(spec, **changes)
