"""Word n-grams of one document, numbered exactly.

Shapes: T words. Words are numbered by first occurrence and n-grams by exact pairs of numbers, so
no hash can make two n-grams one.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

type I64 = npt.NDArray[np.int64]


class NgramView:
    """The word n-grams of a document."""

    def __init__(self, words: list[str]) -> None:
        numbers: dict[str, int] = {}
        self.words: I64 = np.fromiter((numbers.setdefault(word, len(numbers)) for word in words), np.int64, len(words))
        self.lengths: I64 = np.fromiter(map(len, words), np.int64, len(words))
        self._numbered: dict[int, I64] = {1: self.words}

    @cached_property
    def ends(self) -> I64:
        """(T + 1,) characters before each word, none counted between words."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.lengths)))

    def numbered(self, n: int) -> I64:
        """(T - n + 1,) a number per n-gram; equal n-grams have equal numbers."""
        if n not in self._numbered:
            shorter = self.numbered(n - 1)
            pairs = shorter[:-1] * (int(self.words.max(initial=0)) + 1) + self.words[n - 1 :]
            self._numbered[n] = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
        return self._numbered[n]

    def characters(self, n: int) -> I64:
        """(T - n + 1,) characters of each n-gram, none counted between words."""
        return self.ends[n:] - self.ends[:-n]

    def all_unique(self, n: int) -> bool:
        """No n-gram occurs twice."""
        numbered = self.numbered(n)
        return len(numbered) == 0 or int(numbered.max()) + 1 == len(numbered)

    def most_frequent(self, n: int) -> tuple[int, int]:
        """How often the most frequent n-gram occurs (the first of equals), and its characters."""
        numbered = self.numbered(n)
        counts = np.bincount(numbered)
        first = int(np.argmax(counts[numbered]))
        return int(counts[numbered[first]]), int(self.characters(n)[first])

    def repeated_characters(self, n: int) -> int:
        """Characters in n-grams that occurred before, read from left to right without overlap."""
        characters = self.characters(n).tolist()
        numbered = self.numbered(n).tolist()
        seen: set[int] = set()
        found = position = 0
        while position < len(numbered):
            if numbered[position] in seen:
                found += characters[position]
                position += n
            else:
                seen.add(numbered[position])
                position += 1
        return found
