"""Align a passage with a text: measure the share of the passage's words that the text holds near given seeds.

Shapes: P words of the passage, T words of the text. A shift is a position in the text minus one in the passage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from marin.text.places import I64, U64

SHIFTS = 256  # shifts to look at per passage, the ones with the most seeds
TABLE_BITS = 12  # high bits of a word's number, which index a table of the words that a passage may hold


def same_runs(passage: U64, text: U64, shifts: I64, n: int) -> tuple[npt.NDArray[np.bool_], int, int]:
    """Return (max(P - n + 1, 0),) whether each run of n words of the passage occurs in the text at one of the shifts.

    Also return the first and the last word of the text in a matching run, or 0 and 0 if no run matches.
    """
    each, counts = np.unique(shifts, return_counts=True)
    each = each[np.argsort(-counts, kind="stable")][:SHIFTS]
    at = each[:, None] + np.arange(len(passage))
    inside = (at >= 0) & (at < len(text))
    same = inside & (text[np.where(inside, at, 0)] == passage)
    sums = np.zeros((len(each), len(passage) + 1), np.int64)
    np.cumsum(same, axis=1, out=sums[:, 1:])
    whole = sums[:, n:] - sums[:, :-n] == n
    rows, starts = np.nonzero(whole)
    if not len(rows):
        return np.zeros(max(len(passage) - n + 1, 0), np.bool_), 0, 0
    places = each[rows] + starts
    return whole.any(axis=0), int(places.min()), int(places.max()) + n - 1


def masks(passage: Iterable[int]) -> dict[int, int]:
    """Return the places of each word in the passage, as the bits of a number."""
    made: dict[int, int] = {}
    for place, word in enumerate(passage):
        made[word] = made.get(word, 0) | 1 << place
    return made


def held_of(passage: U64, text: U64) -> I64:
    """Return (T + 1,) for each place in the text: how many words before it may be words of the passage.

    The count is at least the true one, and hardly more. A count in any order is a bound on the count in order.
    """
    table = np.zeros(1 << TABLE_BITS, np.bool_)
    table[passage >> np.uint64(64 - TABLE_BITS)] = True
    return np.concatenate(([0], np.cumsum(table[text >> np.uint64(64 - TABLE_BITS)])))


def in_order(passage: Mapping[int, int], length: int, text: Sequence[int]) -> int:
    """Return how many words of the passage occur in the text in the same order (longest common subsequence).

    passage: the result of ``masks`` for ``length`` words. Bit-parallel, with one addition per word (Hyyrö 2004).
    """
    ones = (1 << length) - 1
    free = ones
    for word in text:
        if there := passage.get(word):
            taken = free & there
            free = ((free + taken) | (free - taken)) & ones
    return length - free.bit_count()
