"""Find the word n-grams that occur more than once in a document, exactly.

Shapes: T words. Words and n-grams are numbered by exact pairs of numbers, so no hash can confuse two n-grams. An
n-gram can repeat only if both its (n-1)-grams repeat, so each n looks only at the repeats for n - 1. In plain text
these are a few words in a hundred from n = 4 on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

type I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Repeats:
    """The n-grams that occur more than once. at: (R,) the start of each, ascending.

    numbers: (R,) equal for equal n-grams, below ``len(counts)``. counts: occurrences of each n-gram.
    """

    at: I64
    numbers: I64
    counts: I64


class NgramView:
    """The word n-grams of a document."""

    def __init__(self, words: list[str], distinct: Iterable[str] | None = None) -> None:
        """Number the words. distinct: each word once, if the caller has them already."""
        numbers = {word: number for number, word in enumerate(distinct or dict.fromkeys(words))}
        self.words: I64 = np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))
        self._lengths: I64 = np.fromiter(map(len, numbers), np.int64, len(numbers))
        self._repeats = {1: _several(np.arange(len(words)), self.words, np.bincount(self.words))}

    @cached_property
    def ends(self) -> I64:
        """Return (T + 1,) characters before each word, not counting characters between words."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self._lengths[self.words])))

    def repeats(self, n: int) -> Repeats:
        if n not in self._repeats:
            shorter = self.repeats(n - 1)
            follows = np.flatnonzero(shorter.at[1:] == shorter.at[:-1] + 1)
            pairs = shorter.numbers[follows] * len(shorter.counts) + shorter.numbers[follows + 1]
            self._repeats[n] = _repeated(shorter.at[follows], pairs)
        return self._repeats[n]

    def characters(self, n: int, at: I64) -> I64:
        """Return the characters of the n-grams that start at ``at``, not counting characters between words."""
        return self.ends[at + n] - self.ends[at]

    def all_unique(self, n: int) -> bool:
        """Return whether no n-gram occurs twice."""
        return len(self.repeats(n).at) == 0

    def most_frequent(self, n: int) -> tuple[int, int]:
        """Return the count and the characters of the most frequent n-gram (the first of equals). n: at most T."""
        repeats = self.repeats(n)
        if not len(repeats.at):
            return 1, int(self.ends[n])
        counts = repeats.counts[repeats.numbers]
        first = np.argmax(counts)
        return int(counts[first]), int(self.characters(n, repeats.at[first]))

    def repeated_characters(self, n: int) -> int:
        """Return the characters in n-grams that occurred before, read from left to right without overlap."""
        repeats = self.repeats(n)
        seen: set[int] = set()
        found = free = 0
        characters = self.characters(n, repeats.at)
        for at, number, length in zip(repeats.at.tolist(), repeats.numbers.tolist(), characters.tolist(), strict=True):
            if at < free:
                continue
            if number in seen:
                found += length
                free = at + n
            seen.add(number)
        return found


def _repeated(at: I64, numbers: I64) -> Repeats:
    """Return the n-grams whose number occurs more than once. numbers: any numbering."""
    _, dense, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return _several(at, dense, counts)


def _several(at: I64, numbers: I64, counts: I64) -> Repeats:
    several = counts > 1
    kept = several[numbers]
    return Repeats(at[kept], (np.cumsum(several) - 1)[numbers[kept]], counts[several])
