"""Find held-out documents among training tokens by common runs of tokens.

Training data may share a licence or a repeated description with a held-out document. Two documents therefore match only
if most of the shorter one is in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.data.batch_sample import BatchSample, Piece

U64 = NDArray[np.uint64]

RUN = 32  # tokens in a run
LEAST_UNLIKE = 12  # different tokens in a run; rulers and rows of spaces are alike in all texts
MOST = 0.8  # share of the shorter document, or of a piece, that must match; similar texts share less
READ = 1 << 17  # tokens of a training document to compare
NOBODY = -1  # no held-out document
FACTOR = 0x9E3779B97F4A7C15


@dataclass(frozen=True, kw_only=True)
class Found:
    """A training piece that matches a held-out document. document: its number there. tokens: common to both."""

    piece: Piece
    document: int
    tokens: int


class HeldOutTokens:
    """An index of held-out documents. documents: token ids of each.

    Documents with fewer than RUN tokens cannot be found. ``too_short`` counts them.
    """

    def __init__(self, documents: Sequence[NDArray[np.integer[Any]]]) -> None:
        self.lengths = [len(ids) for ids in documents]
        self.too_short = sum(length < RUN for length in self.lengths)
        runs = [np.unique(runs_of(ids)[_unlike(ids) >= LEAST_UNLIKE]) for ids in documents]
        owners = np.repeat(np.arange(len(runs)), [len(each) for each in runs])
        every = np.concatenate(runs) if runs else np.empty(0, np.uint64)
        self._runs, first = np.unique(every, return_index=True)
        self._owner = owners[first]  # a run in several documents belongs to the first

    def find(self, sample: BatchSample) -> list[Found]:
        """Return the sample's pieces whose document equals, contains or is contained in a held-out document."""
        found: list[Found] = []
        for piece in sample.pieces:
            for document, tokens in self._covered(piece.tokens).items():
                if tokens < MOST * min(self.lengths[document], len(piece.tokens)):
                    continue
                text = sample.whole(piece, READ)
                copied = self._covered(text).get(document, 0)
                if copied >= MOST * min(self.lengths[document], len(text)):
                    found.append(Found(piece=piece, document=document, tokens=copied))
        return found

    def _covered(self, tokens: NDArray[np.integer[Any]]) -> dict[int, int]:
        """Return the number of these tokens in runs of each held-out document, by document number."""
        runs, found = runs_of(tokens), dict[int, int]()
        if not len(self._runs) or not len(runs):
            return found
        place = np.minimum(np.searchsorted(self._runs, runs), len(self._runs) - 1)
        owners = np.where(self._runs[place] == runs, self._owner[place], NOBODY)
        for document in sorted({int(each) for each in owners[owners >= 0]}):
            covered = np.zeros(len(tokens), bool)
            for start in np.flatnonzero(owners == document).tolist():
                covered[start : start + RUN] = True
            found[document] = int(covered.sum())
        return found


def runs_of(ids: NDArray[np.integer[Any]]) -> U64:
    """Return a hash of the RUN tokens from each place on."""
    if len(ids) < RUN:
        return np.empty(0, np.uint64)
    powers = np.array([pow(FACTOR, number, 1 << 64) for number in range(RUN)], np.uint64)
    return np.lib.stride_tricks.sliding_window_view(ids.astype(np.uint64) + np.uint64(1), RUN) @ powers


def _unlike(ids: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the number of different tokens in each run."""
    if len(ids) < RUN:
        return np.empty(0, np.int64)
    ordered = np.sort(np.lib.stride_tricks.sliding_window_view(ids, RUN), axis=1)
    return (np.diff(ordered, axis=1) != 0).sum(axis=1) + 1
