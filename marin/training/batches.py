"""Batches of a run: sequence i of marin's data order, as the examples that Levanter trains on.

Stateless: the batch of a step depends on nothing but the step, so resuming needs no replay. A thread prepares batches
ahead of the training, so the training waits for a distant store only if the store is slower than the training.
Shapes: b sequences of a batch, n sequences, t tokens.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

AHEAD = 4  # batches that are ready before they are needed

Index = np.ndarray


class Order(Protocol):
    """The part of marin.data.order.DataOrder that this module uses."""

    names: tuple[str, ...]

    def at(self, indices: Index) -> tuple[Index, Index]:
        """Map global sequence numbers to (source number, sequence number within that source), (n,) each."""
        ...


class Store(Protocol):
    def read(self, indices: Index, seq_len: int) -> np.ndarray: ...

    def counts(self, indices: Index, seq_len: int) -> np.ndarray: ...


class Batches:
    """The batches of a run, by optimizer step.

    stores: in the order's numbering of its sources. eos: the token id that ends a document; no token after it attends
    to one before. None for attention across documents.
    """

    def __init__(
        self, order: Order, stores: Sequence[Store], schedule: Any, *, seq_len: int, eos: int | None, trainer: Any
    ) -> None:
        self._order, self._stores, self._schedule = order, stores, schedule
        self._seq_len, self._eos = seq_len, eos
        self._mesh, self._mapping = trainer.device_mesh, trainer.compute_axis_mapping
        self._batch_axis = trainer.config.batch_axis_name or "batch"

    def numbers(self, step: int) -> np.ndarray:
        """Return the global numbers of the sequences in the batch of a step: (b,) int64."""
        return np.arange(self._schedule.sequences_before(step), self._schedule.sequences_before(step + 1))

    def tokens(self, numbers: Index) -> np.ndarray:
        """Return the tokens of (n,) global sequence numbers: (n, t) int32."""
        sources, sequences = self._order.at(numbers)
        out = np.empty((len(numbers), self._seq_len), np.int32)
        for source in np.unique(sources):
            rows = sources == source
            out[rows] = self._stores[int(source)].read(sequences[rows], self._seq_len)
        return out

    def weights(self, numbers: Index) -> np.ndarray:
        """Return the loss weight of each position, which is the weight of the next token: (n,) → (n, t) float32.

        The last position has weight 1, although no token follows: Levanter leaves this position out itself.
        """
        sources, sequences = self._order.at(numbers)
        out = np.ones((len(numbers), self._seq_len), np.float32)
        for source in np.unique(sources):
            rows = sources == source
            out[rows, :-1] = self._stores[int(source)].counts(sequences[rows], self._seq_len)[:, 1:]
        return out

    def source_counts(self, step: int) -> dict[str, int]:
        """Return the number of the batch's sequences from each source, by name, without sources that have none."""
        counts = np.bincount(self._order.at(self.numbers(step))[0], minlength=len(self._stores))
        return {name: int(n) for name, n in sorted(zip(self._order.names, counts, strict=True)) if n}

    def example(self, step: int) -> Any:
        """Return the LmExample of a step. Each process reads only the rows that its devices hold, each row once."""
        import haliax
        import jax
        from levanter.layers.attention import AttentionMask
        from levanter.models.lm_model import LmExample

        numbers, held = self.numbers(step), dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]()
        axes = (haliax.Axis(self._batch_axis, len(numbers)), haliax.Axis("position", self._seq_len))
        sharding: Any = haliax.partitioning.sharding_for_axis(axes, self._mapping, self._mesh)

        def read(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            start, stop, _ = rows.indices(len(numbers))
            if (start, stop) not in held:
                held[start, stop] = self.tokens(numbers[start:stop]), self.weights(numbers[start:stop])
            return held[start, stop]

        def placed(rows_of: Any) -> Any:
            def there(at: Any) -> np.ndarray:
                rows, positions = at
                return rows_of(*read(rows))[:, positions]

            shape = (len(numbers), self._seq_len)
            return haliax.NamedArray(jax.make_array_from_callback(shape, sharding, there), axes)

        mask = AttentionMask.causal()
        if self._eos is not None:
            mask = mask.with_segment_ids(placed(lambda tokens, _: segments(tokens, self._eos)))
        return LmExample(
            tokens=placed(lambda tokens, _: tokens), loss_weight=placed(lambda _, weights: weights), attn_mask=mask
        )

    def examples(self, first: int, end: int) -> Iterator[Any]:
        """Return the examples of the steps first … end - 1."""
        return map(self.example, range(first, end))

    def ahead(self, first: int, end: int) -> Iterator[Any]:
        """Yield the same examples, prepared in a thread. An error in the thread is raised here."""
        from levanter.utils.background_iterable import BackgroundIterator

        found = BackgroundIterator(self.examples(first, end), AHEAD)
        try:
            yield from found
        finally:
            found.stop()


def segments(tokens: np.ndarray, eos: int | None) -> np.ndarray:
    """Return the number of each token's document, from 0 in each row: (n, t) → (n, t) int32.

    The end-of-sequence token belongs to the document that it ends.
    """
    ended = np.zeros(tokens.shape, np.int32)
    ended[:, 1:] = tokens[:, :-1] == eos
    return np.cumsum(ended, axis=1, dtype=np.int32)
