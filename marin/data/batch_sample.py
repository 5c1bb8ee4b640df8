"""Some of what a training reads: batches spread over its steps, and of each some sequences of every source."""

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
    """The batch of an optimizer step: b sequences, of which r were read, with t tokens each.

    source, sequence: (b,) number of the source, and of the sequence in its store. places: (r,) which were read.
    tokens: (r, t).
    """

    step: int
    source: I64
    sequence: I64
    places: I64
    tokens: NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What a sequence holds of one document.

    start, end: within the sequence. length: of the whole document. begins, ends: whether its first token is among them,
    and its last, which ends it.
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
    """stores: by number of their source, as the order has them. first, end: optimizer steps of the training."""

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
        """Of every sequence that was read, as the stores' own offsets part it."""
        return [piece for batch in self.batches for piece in self._pieces_of(batch)]

    def rows(self, source: int) -> list[tuple[int, NDArray[np.integer[Any]]]]:
        """The sequences that were read of a source, by its number, each after its step."""
        return [
            (batch.step, row) for batch in self.batches for row in batch.tokens[batch.source[batch.places] == source]
        ]

    def whole(self, piece: Piece, most: int) -> NDArray[np.integer[Any]]:
        """The tokens of the document that the piece is of, from its beginning, at most so many."""
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
    """The first two batches, and one of each of ``batches`` equal stretches of the steps from ``first`` to ``end``.

    sequences: that are read of a batch, as many of each source as there are. seed: of what is chosen.
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
    """Places of a batch, in order: the first drawn one of every source, then the second of each …"""
    shuffled = np.argsort(stream.random_raw(len(source)), kind="stable")
    by_source = shuffled[np.argsort(source[shuffled], kind="stable")]
    of = source[by_source]
    turn = np.empty_like(by_source)
    turn[by_source] = np.arange(len(of)) - np.searchsorted(of, of)
    return np.sort(shuffled[np.argsort(turn[shuffled], kind="stable")][:most]).astype(np.int64)
