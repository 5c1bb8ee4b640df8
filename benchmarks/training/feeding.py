"""Measure how quickly a token store feeds a training, beside Levanter's own cache of the same documents.

    ./py benchmarks/training/feeding.py [MILLION_TOKENS]

Both give batches of 64 random sequences of 1,024 tokens, as examples for Levanter's trainer, from this machine's disk
with warm pages. Ours are read as a training reads them. Levanter's go through its DataLoader, once with a Feistel
permutation and once with its block shuffle, which reads neighbours together. Documents have 20 to 2,000 tokens. Tokens
a second, and the CPU seconds of a million tokens.
"""

# pyright: basic
from __future__ import annotations

import dataclasses
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from marin.data.mixture import BatchSchedule, Shuffle, Stages, mixture
from marin.data.order import DataOrder
from marin.data.token_store import TokenStore, write_token_store
from marin.store.files.directory import Directory
from marin.training.batches import Batches

SEQ_LEN, BATCH, VOCABULARY = 1024, 64, 32_000
REPEATS, SECONDS = 3, 4.0


def documents(tokens: int) -> Iterator[Any]:
    rng = np.random.default_rng(0)
    made = 0
    while made < tokens:
        document = rng.integers(1, VOCABULARY, rng.integers(20, 2000), dtype=np.int32)
        made += len(document)
        yield np.append(document, np.int32(0))


def main(millions: int) -> None:
    import haliax
    import jax
    import jmp
    from levanter.data.loader import DataLoader
    from levanter.data.text.datasets import DEFAULT_LM_DATA_SHUFFLE, CausalLmDataset, NamedLmDataset, TokenSeqDataset
    from levanter.store.cache import SerialCacheWriter
    from levanter.tracker.tracker import NoopConfig
    from levanter.trainer import TrainerConfig

    trainer = TrainerConfig(id="feeding", mp=jmp.get_policy("f32"), tracker=NoopConfig(), train_batch_size=BATCH)
    mesh, mapping = trainer.device_mesh, trainer.compute_axis_mapping
    position = haliax.Axis("position", SEQ_LEN)
    with tempfile.TemporaryDirectory() as folder, jax.set_mesh(mesh):
        directory = Directory(f"{folder}/ours")
        start = time.process_time()
        meta = write_token_store(directory, documents(millions * 10**6), vocabulary=VOCABULARY, tokenizer="x", eos=0)
        written = time.process_time() - start
        start = time.process_time()
        with SerialCacheWriter(f"{folder}/theirs", {"input_ids": np.zeros(0, np.int32)}) as writer:
            for batch in itertools.batched(documents(millions * 10**6), 1000):
                writer.write_batch([{"input_ids": document} for document in batch])
        theirs_written = time.process_time() - start
        print(f"{meta.tokens:,} tokens; CPU seconds to write: {written:.1f} ours, {theirs_written:.1f} Levanter's")
        store, cache = TokenStore.open(directory), writer.result()
        lengths = {"text": meta.tokens // SEQ_LEN}
        schedule = BatchSchedule({0: BATCH})
        order = DataOrder(Stages({0: mixture({"text": 1.0})}), lengths, schedule, Shuffle.SPLITMIX, 0, BATCH)
        fake = type("Trainer", (), {"device_mesh": mesh, "compute_axis_mapping": mapping, "config": trainer})

        def ours() -> Iterator[Any]:
            return Batches(order, [store], schedule, seq_len=SEQ_LEN, eos=0, trainer=fake).ahead(0, 10**6)

        def theirs(*, blocks: bool) -> Iterator[Any]:
            data = CausalLmDataset(
                TokenSeqDataset(cache, SEQ_LEN), position, eos_id=0, block_cross_document_attention=True
            )
            key = jax.random.PRNGKey(0)
            if blocks:
                shuffled = data.block_shuffle(key=key, **dataclasses.asdict(DEFAULT_LM_DATA_SHUFFLE))
            else:
                shuffled = data.shuffle(key, perm_type="feistel")
            named = NamedLmDataset(shuffled, position)
            return iter(DataLoader(named, BATCH, mesh=mesh, axis_resources=mapping, batch_axis_name="batch"))

        ways = {
            "our store": ours,
            "Levanter's cache, Feistel": lambda: theirs(blocks=False),
            "Levanter's cache, blocks": lambda: theirs(blocks=True),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _, (name, batches) in itertools.product(range(REPEATS), ways.items()):
            found[name].append(measured(batches()))
        for name, rates in found.items():
            speed, cpu = max(rates)
            print(f"{name:26} {speed / 1e6:6.2f} M tokens/s, {cpu:.2f} CPU seconds a million", flush=True)


def measured(batches: Iterator[Any]) -> tuple[float, float]:
    """Tokens a second, and CPU seconds a million tokens, behind a first batch."""
    next(batches)
    start, cpu, count = time.monotonic(), time.process_time(), 0
    while time.monotonic() < start + SECONDS:
        next(batches).tokens.array.block_until_ready()
        count += BATCH * SEQ_LEN
    return count / (time.monotonic() - start), (time.process_time() - cpu) / (count / 1e6)


if __name__ == "__main__":
    import os

    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
    sys.stdout.flush()
    os._exit(0)  # Levanter's threads would hold the interpreter up
