"""Real rehearsal runs, one clean and each of the others with one fault, for what watches over runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from marin.data.mixture import BatchSchedule, Mixture, Shuffle, Stages
from marin.data.order_spec import OrderSpec
from marin.data.token_store import TokenStore, write_token_store
from marin.evaluation.encoder import Encoded
from marin.store.files.directory import Directory
from marin.training.held_out import lay_out, write_held_out
from marin.training.model import Llama, Precision, Recompute
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from marin.training.spec import Source, TrainingSpec, Watched

VOCABULARY, SEQ_LEN, BATCH, STEPS = 64, 32, 16, 300
SEQUENCES = 6_000
MODEL = Llama(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=SEQ_LEN)
KINDS = {"tidy": 0.05, "noisy": 0.3}  # share of tokens that follow from nothing

Ids = npt.NDArray[np.int64]


def documents(kind: str, count: int, seed: int) -> list[Ids]:
    """Arithmetic sequences modulo the vocabulary, with a share of random tokens."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    start, stride = rng.integers(0, VOCABULARY, (count, 1)), rng.integers(1, 4, (count, 1))
    ids = (start + stride * np.arange(SEQ_LEN - 1)) % (VOCABULARY - 1) + 1
    return list(np.where(rng.random(ids.shape) < KINDS[kind], rng.integers(1, VOCABULARY, ids.shape), ids))


class _Encoder:
    """A token a character."""

    start, vocabulary = 0, VOCABULARY

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        return [
            Encoded(np.array([ord(each) for each in text], np.int32), np.arange(1, len(text) + 1, dtype=np.int32))
            for text in texts
        ]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))


def spec(folder: Path, texts: Iterable[Ids] | None = None, **changes: Any) -> TrainingSpec:
    """The clean run on these documents, or on both kinds in random order. A document is one sequence."""
    if texts is None:
        texts = [text for kind in KINDS for text in documents(kind, SEQUENCES // 2, 0)]
        np.random.default_rng(1).shuffle(texts)  # pyright: ignore
    store, state = Directory(str(folder / "tokens")), Directory(str(folder / "state"))
    write_token_store(store, texts, vocabulary=VOCABULARY, tokenizer="counting", eos=0)
    held_out = {kind: [_Encoder().decode(text.tolist()) for text in documents(kind, 30, 7)] for kind in KINDS}
    write_held_out(state, lay_out(held_out, _Encoder(), SEQ_LEN))
    made = TrainingSpec(
        model=MODEL,
        vocabulary=VOCABULARY,
        optimizer=Adam(peak_lr=3e-3, max_grad_norm=1.0, ema=0.95),
        schedule=Schedule(warmup=20),
        precision=Precision.FLOAT32,
        recompute=Recompute.NOTHING,
        sources=(Source(name="text", store=store.url),),
        stages={0: {"text": 1.0}},
        batch={0: BATCH},
        shuffle=Shuffle.SPLITMIX.value,
        seed=0,
        block=BATCH,
        seq_len=SEQ_LEN,
        separate_documents=True,
        first_step=0,
        end_step=STEPS,
        state=state.url,
        checkpoint_every=STEPS,
        watch=Watched(every=5, directory=state.url),
    )
    return dataclasses.replace(made, **changes)


def poisoned(folder: Path, steps: range, **changes: Any) -> TrainingSpec:
    """The clean run, but that the batches of these steps are random: damage on the disk, after it was written."""
    made = spec(folder, **changes)
    tokens = np.memmap(folder / "tokens" / "tokens.bin", "<u2", "r+").reshape(SEQUENCES, SEQ_LEN)
    drawn = np.concatenate([sequences_of(made, step) for step in steps])
    tokens[drawn, :-1] = np.random.default_rng(5).integers(1, VOCABULARY, (len(drawn), SEQ_LEN - 1))
    tokens.flush()
    return made


def sequences_of(made: TrainingSpec, step: int) -> npt.NDArray[np.int64]:
    """Numbers, within the one source, of the sequences that a step reads."""
    order = OrderSpec(
        stages=Stages({at: Mixture(shares) for at, shares in made.stages.items()}),
        batch=BatchSchedule(made.batch),
        shuffle=Shuffle(made.shuffle),
        seed=made.seed,
        block=made.block,
        seq_len=made.seq_len,
        first=made.first_step,
        end=made.end_step,
    ).order({"text": TokenStore.open(Directory(made.sources[0].store))})
    return order.at(np.arange(step * BATCH, (step + 1) * BATCH))[1]
