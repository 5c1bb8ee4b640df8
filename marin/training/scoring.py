"""Log-probabilities of given tokens under a checkpoint. Imports JAX and Levanter: do so inside run().

Shapes: B sequences, T tokens, R rows that are computed at once, V vocabulary.
"""

# pyright: basic
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from marin.errors import InputError, UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.model import ModelShape

# The logits of one call, R × T × V float32, stay below this (bytes).
LOGIT_BYTES = 64 << 20
SHORTEST = 32

Scorer = Callable[[np.ndarray], np.ndarray]


def load_scorer(directory: Directory, *, averaged: bool = True) -> Scorer:
    """(B, T) int32 tokens → (B, T-1) float32 natural-log probabilities of tokens[:, 1:].

    averaged: use the moving average of the weights, if the checkpoint stores one. T is padded to a
    power of two (at least 32) and B is cut into rows of one size, so there is one compilation for
    each of few lengths. Raises UnreadableCheckpoint; the scorer raises InputError for tokens
    outside the vocabulary or sequences beyond the model's length.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import jax

    from marin.training.bucket_address import find_buckets

    find_buckets()
    facts = checkpoint.read_facts(directory)
    model = _load(directory, facts, averaged)
    run = jax.jit(_log_probabilities)

    def score(tokens: np.ndarray) -> np.ndarray:
        batch, length = tokens.shape
        if length > facts.model.seq_len:
            raise InputError(
                f"a sequence of {length} tokens: {directory.url} was built for {facts.model.seq_len}; use windows"
            )
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < facts.vocabulary:
            raise InputError(
                f"tokens from {tokens.min()} to {tokens.max()}: {directory.url} knows 0 to {facts.vocabulary - 1}; "
                "use the tokenizer that the model was trained with"
            )
        padded_length = max(SHORTEST, 1 << (length - 1).bit_length()) if length else SHORTEST
        rows = max(1, min(64, LOGIT_BYTES // (4 * facts.vocabulary * padded_length)))
        out = np.zeros((batch, max(length - 1, 0)), np.float32)
        for start in range(0, batch, rows):
            part = tokens[start : start + rows]
            padded = np.zeros((rows, padded_length), np.int32)
            padded[: len(part), :length] = part
            out[start : start + rows] = np.asarray(run(model, padded))[: len(part), : max(length - 1, 0)]
        return out

    return score


def random_checkpoint(directory: Directory, model: ModelShape, vocabulary: int, *, seed: int = 0) -> checkpoint.Facts:
    """Write a checkpoint of freshly initialised weights without optimizer state: for tests."""
    import jax
    from levanter.checkpoint import save_checkpoint

    from marin.training.bucket_address import find_buckets
    from marin.training.levanter_model import build_model

    find_buckets()
    built = build_model(model, vocabulary, jax.random.PRNGKey(seed))
    save_checkpoint({"model": built}, step=0, checkpoint_path=directory.url)
    directory.write_text(checkpoint.METRICS, "")
    facts = checkpoint.Facts(step=0, tokens=0, loss=None, model=model, vocabulary=vocabulary, averaged=False)
    checkpoint.complete(directory, facts)
    return facts


def _log_probabilities(model: Any, tokens: Any) -> Any:
    """(R, T) → (R, T-1)."""
    import haliax
    import jax
    import jax.numpy as jnp
    from levanter.layers.attention import AttentionMask

    named = haliax.named(tokens, ("batch", "position"))
    logits = model(named, AttentionMask.causal()).rearrange(("batch", "position", "vocab")).array.astype(jnp.float32)
    scored = jnp.take_along_axis(logits[:, :-1], tokens[:, 1:, None], axis=-1)[..., 0]
    return scored - jax.nn.logsumexp(logits[:, :-1], axis=-1)


def _load(directory: Directory, facts: checkpoint.Facts, averaged: bool) -> Any:
    import equinox as eqx
    import jax
    from levanter.checkpoint import load_checkpoint

    from marin.training.levanter_model import build_model

    shapes = eqx.filter_eval_shape(lambda key: build_model(facts.model, facts.vocabulary, key), jax.random.PRNGKey(0))
    weights = "model_averaging/model" if averaged and facts.averaged else "model"
    try:
        model = load_checkpoint(
            shapes, directory.url, subpath=weights, axis_mapping={}, mesh=jax.make_mesh((1,), ("data",))
        )
    except (FileNotFoundError, ValueError) as error:
        raise UnreadableCheckpoint(f"{directory.url}: the {weights} weights cannot be read: {error}") from error
    return model
