"""Which evaluation items occur in a text, in whatever prompt format.

The recipe: calculator tags ``<<…>>`` out, lower-case alphanumeric words, 8-grams of them, looked up
exactly (no Bloom filter, so no false hit and every hit has its item). A text is contaminated when
enough different 8-grams of one item's question, or of its answer, occur in it. Formats differ in
punctuation, labels and spacing, which is what the words leave out.

Measured on GSM8K's test items: all of 250 found in the LM-Eval and OLMES forms, wrapped, inline, as
the answer alone and with a word in twelve changed. Of 7473 training problems five are hit, four of
which differ from a test item in names and numbers only. A word changed in every nine hides a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from marin.text.overlap_rule import Overlap
from marin.text.shingles import U64, shingles, word_numbers

_TAGS = re.compile(r"<<[^<>\n]*>>")


class Item(Protocol):
    """One evaluation problem; final is its result alone, may be empty."""

    @property
    def id(self) -> str: ...
    @property
    def question(self) -> str: ...
    @property
    def answer(self) -> str: ...
    @property
    def final(self) -> str: ...


@dataclass(frozen=True)
class Hit:
    """item: its position in the index. part: "question", "answer" or "question and result"."""

    item: int
    part: str
    hits: int
    coverage: float


PARTS = ("question", "answer")
WHOLE = "question and result"


class OverlapIndex:
    """The n-grams of evaluation items, ready to be looked up.

    items: in the given order. unindexed: ids of items that are too short to be found at all.
    """

    def __init__(self, items: Iterable[Item], rule: Overlap) -> None:
        self.items = tuple(items)
        self.rule = rule
        # Short questions: by length, number of the whole question → (item, its result's words).
        self.short: dict[int, dict[int, list[tuple[int, U64]]]] = {}
        grams: list[U64] = []
        owners: list[npt.NDArray[np.int64]] = []
        for number, item in enumerate(self.items):
            for part, text in enumerate((item.question, item.answer)):
                held = np.unique(shingles(_words(text), rule.words))
                grams.append(held)
                owners.append(np.full(len(held), 2 * number + part))
        self._index(np.concatenate([np.zeros(0, np.uint64), *grams]), np.concatenate([np.zeros(0, np.int64), *owners]))
        self.unindexed = tuple(
            item.id
            for number, item in enumerate(self.items)
            if not (self.sizes[2 * number] or self._add_short(number, item) or self.sizes[2 * number + 1])
        )

    def _index(self, grams: U64, owners: npt.NDArray[np.int64]) -> None:
        order = np.lexsort((owners, grams))
        grams, owners = grams[order], owners[order]
        # An n-gram in question and answer of one item counts for one item.
        held_by = np.unique(np.stack((grams, (owners // 2).astype(np.uint64))), axis=1)[0]
        names, counts = np.unique(held_by, return_counts=True)
        common = names[counts > max(self.rule.common_items, self.rule.common_share * len(self.items))]
        rare = ~np.isin(grams, common)
        self.grams, self.owners = grams[rare], owners[rare]
        self.sizes = np.bincount(self.owners, minlength=2 * len(self.items))
        # Almost every n-gram of a text ends at this table: 64 places per entry, a byte each.
        self.bits = min(max(int(len(self.grams) * 64).bit_length(), 12), 28)
        self.table = np.zeros(1 << self.bits, dtype=np.bool_)
        self.table[self.grams >> np.uint64(64 - self.bits)] = True

    def _add_short(self, number: int, item: Item) -> bool:
        question, result = _words(item.question), _words(item.final or item.answer)
        if not 0 < len(question) < self.rule.words or not len(result):
            return False
        if len(question) + len(result) < self.rule.least:
            return False
        name = int(shingles(question, len(question))[0])
        self.short.setdefault(len(question), {}).setdefault(name, []).append((number, result))
        return True

    def find(self, text: str) -> list[Hit]:
        """The items that the text contains, the best covered first."""
        words = _words(text)
        found = self._find_long(words) + self._find_short(words)
        return sorted(found, key=lambda hit: (-hit.coverage, -hit.hits, hit.item, hit.part))

    def _find_long(self, words: U64) -> list[Hit]:
        grams = shingles(words, self.rule.words)
        grams = np.unique(grams[self.table[grams >> np.uint64(64 - self.bits)]])
        first = np.searchsorted(self.grams, grams, "left")
        last = np.searchsorted(self.grams, grams, "right")
        held = [self.owners[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True) if a < b]
        if not held:
            return []
        owners, hits = np.unique(np.concatenate(held), return_counts=True)
        sizes = self.sizes[owners]
        enough = (hits >= np.minimum(self.rule.hits, sizes)) & (hits >= self.rule.coverage * sizes)
        return [
            Hit(int(owner) // 2, PARTS[int(owner) % 2], int(count), round(int(count) / int(size), 4))
            for owner, count, size in zip(owners[enough], hits[enough], sizes[enough], strict=True)
        ]

    def _find_short(self, words: U64) -> list[Hit]:
        found: dict[int, Hit] = {}
        for length, questions in self.short.items():
            names = shingles(words, length)
            wanted = np.fromiter(questions, np.uint64, len(questions))
            for start in np.flatnonzero(np.isin(names, wanted)).tolist():
                for number, result in questions[int(names[start])]:
                    after = words[start + length : start + length + self.rule.reach + len(result)]
                    if int(shingles(result, len(result))[0]) in shingles(after, len(result)).tolist():
                        found[number] = Hit(number, WHOLE, 1, 1.0)
        return list(found.values())


def _words(text: str) -> U64:
    return word_numbers(_TAGS.sub(" ", text) if "<<" in text else text)
