"""Generated tokens a second with the cache of keys and values, and without: every token by a pass over the whole text.

    ./py benchmarks/evaluation/generation.py [ITEMS] [TOKENS]

The model of against_hf.py, prompts in the form of GSM8K with three examples before each. Without a cache, each pass
gives log-probabilities of the whole vocabulary at every place, as marin generated before it had one. Programs are
compiled before the clock starts; answers must be equal.
"""

# pyright: basic
from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import haliax
import jax
import jax.numpy as jnp
import numpy as np
from levanter.layers.attention import AttentionMask

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.evaluation.against_hf import SHAPE
from marin.evaluation.encoder import OffsetEncoder
from marin.training.scoring import load_model
from tests.evaluation.problems import problems
from tests.operators.test_export import written_checkpoint, written_tokenizer


def main(items: int, most: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        encoder = OffsetEncoder(written_tokenizer(Path(folder) / "tokenizer").directory)
        model = load_model(written_checkpoint(Path(folder) / "checkpoint", SHAPE).directory)
    shown = "\n\n".join(f"Question: {one.question}\nAnswer: {one.answer}" for one in problems(3, 1))
    asked = [f"{shown}\n\nQuestion: {one.question}\nAnswer:" for one in problems(items, 2)]
    prompts = [one.ids.astype(np.int32) for one in encoder.encode(asked)]

    def cached() -> list[list[int]]:
        return [list(made) for made in model.generate(prompts, most, -1, lambda tokens: False)]

    def whole(tokens: int) -> list[list[int]]:
        length = max(map(len, prompts)) + most
        rows = np.zeros((items, length), np.int32)
        ends = np.array([len(prompt) for prompt in prompts])
        for row, prompt in zip(rows, prompts, strict=True):
            row[: len(prompt)] = prompt
        for _ in range(tokens):
            with model._chips.at_work():
                likely = np.asarray(likeliest(model._model, rows))[np.arange(items), ends - 1]
            rows[np.arange(items), ends] = likely
            ends += 1
        return [row[len(prompt) : end].tolist() for row, prompt, end in zip(rows, prompts, ends, strict=True)]

    @jax.jit
    def likeliest(weights: Any, tokens: Any) -> Any:
        """(B, T) → (B, T), from logits of the whole vocabulary at every place."""
        logits = weights(haliax.named(tokens, ("batch", "position")), AttentionMask.causal())
        return logits.rearrange(("batch", "position", "vocab")).array.astype(jnp.float32).argmax(-1)

    few = max(2, most // 16)  # passes take equal times, so a sixteenth predicts the whole
    whole(1), cached()
    began = time.perf_counter()
    ours = cached()
    middle = time.perf_counter()
    theirs = whole(few)
    ended = time.perf_counter()
    assert [made[:few] for made in ours] == theirs, "the two ways give other answers"
    fast, slow = items * most / (middle - began), items * few / (ended - middle)
    print(
        f"{items} prompts of {min(map(len, prompts))} to {max(map(len, prompts))} tokens, {most} tokens of answer; ",
        end="",
    )
    print(f"load average {os.getloadavg()[0]:.1f}")
    print(f"with a cache {fast:,.0f} tokens a second, without {slow:,.1f}: {fast / slow:.0f} times")


if __name__ == "__main__":
    main(*(int(given) for given in (*sys.argv[1:], *("32", "256")[len(sys.argv) - 1 :])))
