"""Find questions that are too short for a seed: they must occur whole, with their result soon after."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marin.text.overlap_rule import Overlap
from marin.text.places import U64
from marin.text.shingles import shingles

BITS = 16  # high bits of a question's number, which index a table that rules out almost every look-up


class ShortQuestions:
    """An index of short questions. items: by length in words and the question's number, the item and its result."""

    def __init__(self, rule: Overlap) -> None:
        self.rule = rule
        self.items: dict[int, dict[int, list[tuple[int, U64]]]] = {}
        self.tables: dict[int, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}

    def add(self, item: int, question: U64, result: U64) -> bool:
        """Add a question. Returns False if it is long enough for a seed, or too short even with its result."""
        length = len(question)
        if not 0 < length < self.rule.seed or not len(result) or length + len(result) < self.rule.least:
            return False
        number = int(shingles(question, length)[0])
        self.items.setdefault(length, {}).setdefault(number, []).append((item, result))
        table = self.tables.setdefault(length, np.zeros(1 << BITS, np.bool_))
        table[number >> (64 - BITS)] = True
        return True

    def find(self, words: U64) -> Iterator[tuple[int, int, int]]:
        """Yield (item, first word, last word) of each question found."""
        for length, questions in self.items.items():
            numbers = shingles(words, length)
            for start in np.flatnonzero(self.tables[length][numbers >> np.uint64(64 - BITS)]).tolist():
                for item, result in questions.get(int(numbers[start]), ()):
                    if (last := follows(words, start + length, result, self.rule.reach)) is not None:
                        yield item, start, last


def follows(words: U64, after: int, result: U64, reach: int) -> int | None:
    """Return the last word of a result that occurs at most ``reach`` words after ``after``, or None."""
    found = shingles(words[after : after + reach + len(result)], len(result)) == shingles(result, len(result))[0]
    return after + int(np.argmax(found)) + len(result) - 1 if found.any() else None
