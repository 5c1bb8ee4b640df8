"""A sample of a training's data: batches spread over its steps, and some sequences of every source from each batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.data.order import DataOrder
from marin.data.permutation import raw_stream
from marin.data.token_store import TokenStore

I64 = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The batch of an optimizer step: b sequences with t tokens each. The sample reads r sequences of the batch.

    source, sequence: (b,) number of the source, and of the sequence in its store. places: (r,) places in the batch of
    the sequences that were read. tokens: (r, t).
    """

    step: int
    source: I64
    sequence: I64
    places: I64
    tokens: NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """The part of one document that a sequence holds.

    start, end: within the sequence. length: of the whole document. begins, ends: whether the piece holds the
    document's first token, and its last (the end-of-sequence token).
    """

    step: int
    source: int
    document: int
    start: int
    end: int
    length: int
    begins: bool
    ends: bool
    tokens: NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class BatchSample:
    """Sampled batches. stores: by number of their source in the order. first, end: optimizer steps of the training."""

    order: DataOrder[Any]
    stores: Sequence[TokenStore]
    seq_len: int
    first: int
    end: int
    batches: Sequence[Batch]

    @property
    def sequences(self) -> int:
        return sum(len(batch.tokens) for batch in self.batches)

    @cached_property
    def pieces(self) -> list[Piece]:
        """Return the pieces of every sequence that was read. The stores' own offsets divide the sequences."""
        return [piece for batch in self.batches for piece in self._pieces_of(batch)]

    def rows(self, source: int) -> list[tuple[int, NDArray[np.integer[Any]]]]:
        """Return (step, tokens) of each sequence that was read from a source, given by its number."""
        return [
            (batch.step, row) for batch in self.batches for row in batch.tokens[batch.source[batch.places] == source]
        ]

    def whole(self, piece: Piece, most: int) -> NDArray[np.integer[Any]]:
        """Return at most ``most`` tokens of the piece's document, from the document's beginning."""
        store = self.stores[piece.source]
        start, end = (int(each) for each in store.offsets[piece.document : piece.document + 2])
        return store.tokens[start : min(end, start + most)]

    def _pieces_of(self, batch: Batch) -> Iterator[Piece]:
        for place, row in zip(batch.places.tolist(), batch.tokens, strict=True):
            source, begin = int(batch.source[place]), int(batch.sequence[place]) * self.seq_len
            store = self.stores[source]
            last = min(begin + len(row), store.meta.tokens) - 1
            low, high = store.document_of(np.array([begin, last])).tolist()
            offsets = [int(each) for each in store.offsets[low : high + 2]]
            for document, (of, to) in enumerate(pairwise(offsets), start=low):
                start, end = max(of - begin, 0), min(to - begin, len(row))
                yield Piece(
                    step=batch.step,
                    source=source,
                    document=document,
                    start=start,
                    end=end,
                    length=to - of,
                    begins=of >= begin,
                    ends=to - begin <= len(row),
                    tokens=row[start:end],
                )


def sample_batches(
    order: DataOrder[Any],
    stores: Sequence[TokenStore],
    seq_len: int,
    first: int,
    end: int,
    *,
    batches: int = 16,
    sequences: int = 64,
    seed: int = 0,
) -> BatchSample:
    """Sample the first two batches, and one from each of ``batches`` equal stretches of the steps first … end - 1.

    sequences: most sequences to read of a batch, spread evenly over its sources. seed: for the choice.
    """
    found: list[Batch] = []
    for step in _steps(first, end, batches, seed):
        source, sequence = order.batch_at(step)
        places = _places(source, sequences, raw_stream("inspect sequences", seed, step))
        tokens = np.empty((len(places), seq_len), np.int32)
        for number in sorted({int(each) for each in source[places]}):
            rows = source[places] == number
            tokens[rows] = stores[number].read(sequence[places][rows], seq_len)
        found.append(Batch(step=step, source=source, sequence=sequence, places=places, tokens=tokens))
    return BatchSample(order=order, stores=stores, seq_len=seq_len, first=first, end=end, batches=found)


def _steps(first: int, end: int, batches: int, seed: int) -> list[int]:
    if end - first <= batches + 2:
        return list(range(first, end))
    edges = [first + (end - first) * number // batches for number in range(batches + 1)]
    random = raw_stream("inspect steps", seed).random_raw(batches).tolist()
    drawn = {
        low + chance % (high - low)
        for low, high, chance in ((*edge, chance) for edge, chance in zip(pairwise(edges), random, strict=True))
    }
    return sorted({first, first + 1, *drawn})


def _places(source: I64, most: int, stream: np.random.PCG64) -> I64:
    """Return at most ``most`` places of a batch, ascending. Each source in turn gives one of its places at random."""
    shuffled = np.argsort(stream.random_raw(len(source)), kind="stable")
    by_source = shuffled[np.argsort(source[shuffled], kind="stable")]
    of = source[by_source]
    turn = np.empty_like(by_source)
    turn[by_source] = np.arange(len(of)) - np.searchsorted(of, of)
    return np.sort(shuffled[np.argsort(turn[shuffled], kind="stable")][:most]).astype(np.int64)
