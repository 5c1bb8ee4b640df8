"""Find the evaluation items that occur in a text, in any prompt format, edited or not.

Every run of ``seed`` words of an item's fields (a seed) is looked up exactly. A text with two seeds about as far apart
as in the item is then compared with the item word by word. No Bloom filter is used, so there are no false hits, and
every hit names its item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from marin.text.alignment import held_of, in_order, masks, same_runs
from marin.text.overlap_rule import Overlap
from marin.text.places import I64, U64, Words, letters_of, numbers_of, words_of
from marin.text.prompt_form import prompt_form
from marin.text.shingles import shingles
from marin.text.short_questions import ShortQuestions, follows
from marin.text.way import CopyKind, is_disguised


class Item(Protocol):
    """One evaluation item. fields: its texts by name, question first. final: its result alone, may be empty."""

    @property
    def id(self) -> str: ...
    @property
    def fields(self) -> Mapping[str, str]: ...
    @property
    def final(self) -> str: ...


@dataclass(frozen=True)
class Hit:
    """An item found in a text. item: its position in the index. part: the name of a field, WHOLE, or ALL.

    hits: matching runs of words, or of letters if the item is spelt out letter by letter. coverage: share of the part.
    start, end: characters of the text. form: the prompt form, see prompt_form. way: how the item was copied.
    """

    item: int
    part: str
    hits: int
    coverage: float
    start: int = 0
    end: int = 0
    form: str = ""
    way: CopyKind = CopyKind.VERBATIM


WHOLE = "question and result"
ALL = "all fields"
QUESTION = "question"
# Fields that are too short to tell apart can be told apart together.
SHORT = 24  # words of a question
DRIFT = 6  # words that edits may insert or delete between two places of one copy
LETTERS = Overlap(words=32, hits=16, seed=20, similar=0.9, edited_words=40)  # the rule for spelt-out text


@dataclass(frozen=True)
class Stretch:
    """A part of an item to look for. numbers: of its words. digits: whether a word is a number, which says little."""

    part: str
    numbers: U64
    digits: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Passage:
    """A stretch of an item, prepared for the search.

    evidence: whether each run of ``words`` words is evidence. result: must follow the passage if it is a short
    question. wanted: the fewest seeds that lead to a comparison. edited: whether an edited copy counts.
    """

    item: int
    part: str
    words: U64
    digits: npt.NDArray[np.bool_]
    evidence: npt.NDArray[np.bool_]
    result: U64 | None
    wanted: int
    edited: bool

    @cached_property
    def masks(self) -> dict[int, int]:
        return masks(self.words.tolist())

    @cached_property
    def number_masks(self) -> dict[int, int]:
        return masks(self.words[self.digits].tolist())


class OverlapIndex:
    """An index of the runs of words of evaluation items.

    items: in the given order. unindexed: ids of items that are too short to be found.
    """

    def __init__(self, items: Iterable[Item], rule: Overlap) -> None:
        self.items = tuple(items)
        self.rule = rule
        self._short = ShortQuestions(rule)
        words = numbers_of(text for item in self.items for text in (*item.fields.values(), item.final))
        stretches: list[list[Stretch]] = []
        results: list[U64] = []
        found: set[int] = set()
        for number, item in enumerate(self.items):
            fields = {name: next(words) for name in item.fields}
            result, _ = next(words)
            if self._short.add(number, fields[QUESTION][0], result):
                found.add(number)
            stretches.append(list(_stretches(fields)))
            results.append(result)
        self._search = _Search(stretches, results, rule)
        found.update(passage.item for passage in self._search.passages)
        self.unindexed = tuple(item.id for number, item in enumerate(self.items) if number not in found)

    def find(self, text: str | Words) -> list[Hit]:
        """Return the items that the text contains, the best covered first."""
        words = words_of(text) if isinstance(text, str) else text
        found = dict[tuple[int, str], Hit]()
        for hit in self._spelt.find(words.letters) if words.letters else ():
            found[hit.item, hit.part] = replace(hit, way=CopyKind.SPELT_OUT)
        for hit in self._search.find(words):
            known = found.get((hit.item, hit.part))
            if known is None or known.coverage < hit.coverage:
                found[hit.item, hit.part] = hit
        for number, first, last in self._short.find(words.numbers):
            start, end = words.span(first, last)
            hit = Hit(number, WHOLE, 1, 1.0, start, end, prompt_form(words.text, start, end))
            found.setdefault((number, WHOLE), hit)
        hits = [self._unmasked(hit, words.text) for hit in found.values()]
        return sorted(hits, key=lambda hit: (-hit.coverage, -hit.hits, hit.item, hit.part))

    def _unmasked(self, hit: Hit, text: str) -> Hit:
        if hit.way is not CopyKind.SPELT_OUT and is_disguised(
            text[hit.start : hit.end], self.items[hit.item].fields.values()
        ):
            return replace(hit, way=CopyKind.DISGUISED)
        return hit

    @cached_property
    def _spelt(self) -> _Search:
        """Return the search for spelt-out items. Built on demand, because almost no text needs it."""
        nothing = [np.zeros(0, np.uint64)] * len(self.items)
        return _Search([list(_spelt(item)) for item in self.items], nothing, LETTERS)


def _stretches(fields: Mapping[str, tuple[U64, npt.NDArray[np.bool_]]]) -> Iterator[Stretch]:
    """Yield the stretches of an item. fields: numbers and digits of their words."""
    for name, (numbers, digits) in fields.items():
        yield Stretch(name, numbers, digits)
    if len(fields) > 1 and len(next(iter(fields.values()))[0]) < SHORT:
        together, digits = (np.concatenate(each) for each in zip(*fields.values(), strict=True))
        yield Stretch(ALL, together, digits)


def _spelt(item: Item) -> Iterator[Stretch]:
    for name, text in item.fields.items():
        letters = letters_of(text)
        yield Stretch(name, letters, np.zeros(len(letters), np.bool_))


class _Search:
    def __init__(self, items: list[list[Stretch]], results: list[U64], rule: Overlap) -> None:
        self.rule = rule
        most = max(rule.common_items, rule.common_share * len(items))
        runs, seeds = (_uncommon(items, n, most) for n in (rule.words, rule.seed))
        self.passages: list[_Passage] = []
        grams: list[U64] = [np.zeros(0, np.uint64)]
        owners: list[I64] = [np.zeros(0, np.int64)]
        places: list[I64] = [np.zeros(0, np.int64)]
        rares: list[npt.NDArray[np.bool_]] = [np.zeros(0, np.bool_)]
        for number, stretches in enumerate(items):
            for stretch in stretches:
                held, rare = next(seeds)
                passage = self._passage(number, stretch, results[number], next(runs)[1])
                if passage is None:
                    continue
                # Boilerplate seeds are left out, unless there is little else.
                use = np.flatnonzero(rare if np.count_nonzero(rare) >= rule.hits else np.ones_like(rare))
                grams.append(held[use])
                owners.append(np.full(len(use), len(self.passages)))
                places.append(use)
                rares.append(rare[use])
                self.passages.append(passage)
        all_grams = np.concatenate(grams)
        order = np.argsort(all_grams, kind="stable")
        self.grams = all_grams[order]
        self.owners, self.places = np.concatenate(owners)[order], np.concatenate(places)[order]
        self.rares = np.concatenate(rares)[order]
        self.wanted = np.array([passage.wanted for passage in self.passages], dtype=np.int64)
        # This table rules out almost every run of a text: 64 places per entry, a byte each.
        self.bits = min(max(int(len(self.grams) * 64).bit_length(), 12), 26)
        self.table = np.zeros(1 << self.bits, dtype=np.bool_)
        self.table[self.grams >> np.uint64(64 - self.bits)] = True

    def _passage(self, item: int, stretch: Stretch, result: U64, evidence: npt.NDArray[np.bool_]) -> _Passage | None:
        """Return the passage, or None if it is too short or boilerplate. evidence: runs that are no boilerplate."""
        rule, words = self.rule, stretch.numbers
        telling = evidence & ~_all(stretch.digits, rule.words)
        if np.count_nonzero(telling) >= rule.hits:
            evidence = telling
        short = stretch.part == QUESTION and rule.seed <= len(words) < rule.words
        follows = result if short and len(result) and len(words) + len(result) >= rule.least else None
        if not evidence.any() and follows is None:
            # An item that is all boilerplate is found only as a whole.
            if len(words) < rule.edited_words:
                return None
            evidence = np.ones_like(evidence)
        kinds = len(set(words[~stretch.digits].tolist()))
        edited = len(words) >= rule.edited_words and kinds * 3 >= rule.edited_words * 2
        wanted = 2 if len(words) - rule.seed + 1 >= 2 * rule.hits and rule.words > rule.seed else 1
        return _Passage(item, stretch.part, words, stretch.digits, evidence, follows, wanted, edited)

    def find(self, text: Words) -> Iterator[Hit]:
        seen = shingles(text.numbers, self.rule.seed)
        at = np.flatnonzero(self.table[seen >> np.uint64(64 - self.bits)])
        if not len(at):
            return
        first = np.searchsorted(self.grams, seen[at], "left")
        counts = np.searchsorted(self.grams, seen[at], "right") - first
        if not counts.any():
            return
        entries = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
        at, owners = np.repeat(at, counts), self.owners[entries]
        enough = np.bincount(owners, minlength=len(self.passages)) >= self.wanted
        use = enough[owners]
        at, owners, entries = at[use], owners[use], entries[use]
        order = np.lexsort((at, owners))
        at, owners, entries = at[order], owners[order], entries[order]
        borders = np.flatnonzero(np.diff(owners)) + 1
        for low, high in zip([0, *borders.tolist()], [*borders.tolist(), len(owners)], strict=True):
            if low < high:
                passage = self.passages[int(owners[low])]
                yield from self._judge(passage, text, at[low:high], entries[low:high])

    def _judge(self, passage: _Passage, text: Words, at: I64, entries: I64) -> Iterator[Hit]:
        shifts = at - self.places[entries]
        covered, first, last = same_runs(passage.words, text.numbers, shifts, self.rule.words)
        hits, size = int(np.count_nonzero(covered & passage.evidence)), int(np.count_nonzero(passage.evidence))
        if hits and hits >= min(self.rule.hits, size) and hits >= self.rule.coverage * size:
            yield _hit(passage, text, hits, hits / size, first, last)
        elif passage.result is not None:
            yield from self._short(passage, passage.result, text, shifts)
        elif passage.edited:
            yield from self._edited(passage, text, at, shifts, self.rares[entries])

    def _short(self, passage: _Passage, result: U64, text: Words, shifts: I64) -> Iterator[Hit]:
        length = len(passage.words)
        for start in np.unique(shifts[shifts >= 0]).tolist():
            if not np.array_equal(text.numbers[start : start + length], passage.words):
                continue
            last = follows(text.numbers, start + length, result, self.rule.reach)
            if last is not None:
                yield replace(_hit(passage, text, 1, 1.0, start, last), part=WHOLE)
                return

    def _edited(
        self, passage: _Passage, text: Words, at: I64, shifts: I64, rare: npt.NDArray[np.bool_]
    ) -> Iterator[Hit]:
        length, size = len(passage.words), len(text.numbers)
        slack = min(DRIFT, length // 6)
        order = np.argsort(shifts, kind="stable")
        shifts = shifts[order]
        borders = np.flatnonzero(np.diff(shifts) > slack) + 1
        begins, ends = np.concatenate(([0], borders)), np.concatenate((borders, [len(shifts)]))
        able = ends - begins >= passage.wanted
        if not able.any():
            return
        first = np.maximum(shifts[begins] - slack, 0)
        last = np.minimum(shifts[ends - 1] + length + slack, size)
        # Almost no group has enough of the passage's words, even in any order.
        held = held_of(passage.words, text.numbers)
        able &= (held[last] - held[first]) / length >= min(self.rule.similar, self.rule.similar_boilerplate)
        best: Hit | None = None
        for number in np.flatnonzero(able).tolist():
            group, window = order[begins[number] : ends[number]], slice(int(first[number]), int(last[number]))
            words, digits = text.numbers[window], text.digits[window]
            share = in_order(passage.masks, length, words.tolist()) / length
            similar = self.rule.similar if np.any(rare[group]) else self.rule.similar_boilerplate
            if share < similar or (best is not None and share <= best.coverage):
                continue
            # Another problem of the same kind has other numbers.
            numbers = int(np.count_nonzero(passage.digits))
            if in_order(passage.number_masks, numbers, words[digits].tolist()) >= numbers * self.rule.same_numbers:
                span = int(at[group].min()), int(at[group].max()) + self.rule.seed - 1
                best = replace(_hit(passage, text, len(group), share, *span), way=CopyKind.EDITED)
        if best is not None:
            yield best


def _hit(passage: _Passage, text: Words, hits: int, coverage: float, first: int, last: int) -> Hit:
    start, end = text.span(first, last)
    form = prompt_form(text.text, start, end)
    return Hit(passage.item, passage.part, hits, round(coverage, 4), start, end, form)


def _uncommon(items: list[list[Stretch]], n: int, most: float) -> Iterator[tuple[U64, npt.NDArray[np.bool_]]]:
    """Yield for each stretch its runs of n words, and whether each run occurs in at most ``most`` items."""
    lengths = [len(stretch.numbers) for stretches in items for stretch in stretches]
    words = np.concatenate([np.zeros(0, np.uint64), *(each.numbers for stretches in items for each in stretches)])
    owners = np.repeat(np.arange(len(items)), [sum(len(each.numbers) for each in stretches) for stretches in items])
    runs = shingles(words, n)
    inside = np.repeat(np.cumsum(lengths), lengths)[: len(runs)] - np.arange(len(runs)) >= n
    runs, owners = runs[inside], owners[: len(runs)][inside]
    order = np.lexsort((owners, runs))
    one, other = runs[order], owners[order]
    unlike = np.concatenate(([True], (one[1:] != one[:-1]) | (other[1:] != other[:-1])))[: len(runs)]
    names, counts = np.unique(one[unlike], return_counts=True)
    uncommon = ~np.isin(runs, names[counts > most])
    borders = np.cumsum([0, *(max(length - n + 1, 0) for length in lengths)]).tolist()
    return ((runs[first:last], uncommon[first:last]) for first, last in pairwise(borders))


def _all(marked: npt.NDArray[np.bool_], n: int) -> npt.NDArray[np.bool_]:
    """Return for each run of n whether all its members are marked."""
    sums = np.concatenate(([0], np.cumsum(marked)))
    return sums[n:] - sums[:-n] == n if len(marked) >= n else np.zeros(0, np.bool_)
