"""Load a checkpoint as a LanguageModel, for log-probabilities of given tokens and for generation.

Imports JAX and Levanter: do so inside run(). Shapes: B sequences, T tokens, R rows that are computed at once, N tokens
of a row, S predictions, V vocabulary.
"""

# pyright: basic
from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marin.errors import InputError
from marin.evaluation.language_model import Scored
from marin.evaluation.prefix_tree import Row, Wanted, lay
from marin.store.files.directory import Directory
from marin.training import checkpoint

if TYPE_CHECKING:
    from marin.training.chips import Chips

# The logits of one call, R × T × V float32, stay below this (bytes).
LOGIT_BYTES = 64 << 20
SHORTEST = 32
# Tokens of a row. Several short sequences share a row. If the longest sequence is longer, rows grow to hold it.
ROW_TOKENS = 256

# This logger warns of each field of a model that is None, for example a bias that the architecture lacks.
logging.getLogger("levanter.tensorstore_serialization").setLevel(logging.ERROR)


def _nothing() -> None: ...


def load_model(
    directory: Directory,
    *,
    averaged: bool = True,
    batch_tokens: int = 4096,
    worked: Callable[[], object] = _nothing,
    eos: int | None = None,
) -> CheckpointModel:
    """Load the weights of a checkpoint and return the model.

    averaged: use the moving average of the weights, if the checkpoint stores one. batch_tokens: tokens computed at
    once. worked: called after each such batch. eos: the id that ends documents; no text attends across it if the
    checkpoint was trained so. All chips of all hosts share the weights and the rows. Every host must load the model
    and make the same calls. Raises UnreadableCheckpoint.
    """
    from marin.training.bucket_address import find_buckets
    from marin.training.chips import Chips
    from marin.training.hub_offline import hub_offline
    from marin.training.levanter_model import load_weights

    find_buckets()
    facts, chips = checkpoint.read_facts(directory), Chips()
    with hub_offline():
        model = load_weights(
            directory,
            facts,
            averaged=averaged and facts.averaged,
            mesh=chips.mesh,
            spread=facts.model.hidden % chips.mesh.shape["data"] == 0,
        )
    separator = eos if facts.separate_documents else None
    return CheckpointModel(model, facts, directory.url, batch_tokens, chips, worked, separator)


class CheckpointModel:
    """A checkpoint as a LanguageModel (marin.evaluation.language_model).

    The methods raise InputError for tokens outside the vocabulary and for sequences beyond the model's length.
    """

    def __init__(
        self,
        model: Any,
        facts: checkpoint.Facts,
        url: str,
        batch_tokens: int,
        chips: Chips,
        worked: Callable[[], object],
        separator: int | None,
    ) -> None:
        import jax

        self._model, self._facts, self._url, self._batch_tokens = model, facts, url, batch_tokens
        self._chips, self._worked, self._separator = chips, worked, separator
        self._dense, self._embedded = jax.jit(_log_probabilities), jax.jit(_activations)
        self._predicted = jax.jit(_predictions)

    @property
    def length(self) -> int:
        return self._facts.model.seq_len

    @property
    def vocabulary(self) -> int:
        return self._facts.vocabulary

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        """Return the natural-log probabilities of tokens[:, 1:]: (B, T) int32 → (B, T-1) float32.

        T is padded to a power of two (at least 32) and B is cut into batches of one size, so JAX compiles only once for
        each of a few lengths.
        """
        batch, length = tokens.shape
        self._must_fit(tokens, length)
        padded_length = max(SHORTEST, 1 << (length - 1).bit_length()) if length else SHORTEST
        rows = self._chips.rounded(max(1, min(64, LOGIT_BYTES // (4 * self.vocabulary * padded_length))))
        out = np.zeros((batch, max(length - 1, 0)), np.float32)
        for start in range(0, batch, rows):
            part = tokens[start : start + rows]
            padded = np.zeros((rows, padded_length), np.int32)
            padded[: len(part), :length] = part
            with self._chips.at_work():
                scored = self._dense(self._model, self._chips.spread(padded))
            out[start : start + rows] = self._chips.whole(scored)[: len(part), : max(length - 1, 0)]
        return out

    def continuations(self, wanted: Sequence[Wanted]) -> list[Scored]:
        """Score continuations. A row computes a common beginning only once; see marin.evaluation.prefix_tree."""
        for one in wanted:
            self._must_fit(one.tokens, len(one.tokens) - 1)
        out = [
            Scored(np.zeros(size, np.float64), np.zeros(size, np.bool_))
            for size in (len(one.tokens) - one.first for one in wanted)
        ]
        longest = max((len(one.tokens) - 1 for one in wanted), default=1)
        length = max(ROW_TOKENS, 1 << (longest - 1).bit_length())
        laid = list(lay(wanted, length))
        rows = self._chips.rounded(max(1, self._batch_tokens // length))
        for start in range(0, len(laid), rows):
            self._score_rows(laid[start : start + rows], rows, length, out)
            self._worked()
        return out

    def _score_rows(self, laid: Sequence[Row], rows: int, length: int, out: list[Scored]) -> None:
        tokens, positions, ends = (np.zeros((rows, length), np.int32) for _ in range(3))
        ends[:] = np.arange(1, length + 1)  # padding sees itself
        for row, one in enumerate(laid):
            for held, new in ((tokens, one.tokens), (positions, one.positions), (ends, self._seen_until(one))):
                held[row, : len(new)] = new
        with self._chips.at_work():
            embedded = self._embedded(self._model, *map(self._chips.spread, (tokens, positions, ends)))
        at = np.concatenate([one.at + row * length for row, one in enumerate(laid)])
        targets = np.concatenate([one.targets for one in laid])
        count = max(1, min(rows * length, LOGIT_BYTES // (4 * self.vocabulary)))
        logprobs, greedy = np.zeros(len(at), np.float64), np.zeros(len(at), np.bool_)
        for start in range(0, len(at), count):
            padded = np.zeros((2, count), np.int32)
            found = min(count, len(at) - start)
            padded[:, :found] = at[start : start + count], targets[start : start + count]
            answer = self._chips.whole(self._predicted(self._model, embedded, *padded))
            logprobs[start : start + found], greedy[start : start + found] = (held[:found] for held in answer)
        of = np.concatenate([one.of for one in laid])
        offsets = np.concatenate([one.offsets for one in laid])
        for index, offset, logprob, best in zip(of.tolist(), offsets.tolist(), logprobs, greedy, strict=True):
            out[index].logprobs[offset], out[index].greedy[offset] = logprob, best

    def _seen_until(self, row: Row) -> np.ndarray:
        """Return, for each token, the place after the last token that sees it.

        No other token sees a separator at the beginning.
        """
        separates = (row.tokens == self._separator) & (row.positions == 0)
        return np.where(separates, np.arange(1, len(row.ends) + 1), row.ends)

    def generate(
        self,
        prompts: Sequence[np.ndarray],
        most: int,
        end: int,
        finished: Callable[[Sequence[int]], bool],
        *,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[list[int]]:
        """Return continuations of prompts. temperature: 0 for the likeliest tokens. seed: seed of the sampling."""
        from marin.training.decoding import Drawing, drawing_key, written_on

        for prompt in prompts:
            self._must_fit(prompt, len(prompt) + most - (len(prompt) > 1 and prompt[0] == self._separator))
        drawing = None
        if temperature and prompts:
            keys = np.stack([drawing_key(seed, number) for number in range(len(prompts))])
            drawing = Drawing(np.full(len(prompts), temperature, np.float32), keys)
        return written_on(
            self._model, prompts, most, end, finished, self._chips, separator=self._separator, drawing=drawing
        )

    def _must_fit(self, tokens: np.ndarray, length: int) -> None:
        if length > self.length:
            raise InputError(f"a sequence of {length} tokens: {self._url} was built for {self.length}; use windows")
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < self.vocabulary:
            raise InputError(
                f"tokens from {tokens.min()} to {tokens.max()}: {self._url} knows 0 to {self.vocabulary - 1}; "
                "use the tokenizer that the model was trained with"
            )


def _log_probabilities(model: Any, tokens: Any) -> Any:
    """Return the log-probabilities of tokens[:, 1:]: (R, T) → (R, T-1)."""
    import haliax
    import jax
    import jax.numpy as jnp
    from levanter.layers.attention import AttentionMask

    named = haliax.named(tokens, ("batch", "position"))
    logits = model(named, AttentionMask.causal()).rearrange(("batch", "position", "vocab")).array.astype(jnp.float32)
    scored = jnp.take_along_axis(logits[:, :-1], tokens[:, 1:, None], axis=-1)[..., 0]
    return scored - jax.nn.logsumexp(logits[:, :-1], axis=-1)


def _activations(model: Any, tokens: Any, positions: Any, ends: Any) -> Any:
    """Return the activations of rows that marin.evaluation.prefix_tree laid out: (R, N) tokens → (R × N, embed)."""
    import haliax
    import jax.numpy as jnp

    place = jnp.arange(tokens.shape[1])
    seen = (place[None, None, :] <= place[None, :, None]) & (place[None, :, None] < ends[:, None, :])
    made = model.activations(
        haliax.named(tokens, ("batch", "position")),
        haliax.named(seen, ("batch", "position", "key_position")),
        pos_ids=haliax.named(positions, ("batch", "position")),
    )
    return made.flatten_axes(("batch", "position"), "place")


def _predictions(model: Any, activations: Any, at: Any, targets: Any) -> tuple[Any, Any]:
    """Return ((S,) log-probability of each target after its place, (S,) whether the target is the likeliest token)."""
    import haliax
    import jax
    import jax.numpy as jnp

    chosen = activations["place", haliax.named(at, "prediction")]
    logits = haliax.dot(chosen, model.get_lm_head(), axis="embed")
    logits = logits.rearrange(("prediction", "vocab")).array.astype(jnp.float32)
    scored = jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
    return scored - jax.nn.logsumexp(logits, axis=-1), jnp.argmax(logits, axis=-1) == targets
