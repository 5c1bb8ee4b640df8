"""Find near duplicates: shared keys propose pairs, the exact similarity decides, the first text of a pair stays.

NearDedup works over shards and buckets. ``near_duplicates`` does the same in one call.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marin.text.near_keys import KEY, chunks, keys
from marin.text.near_pairs import COPY, PAIR, Copies, Pairs, first_copies, plausible, proposals
from marin.text.near_rule import NearDuplicates
from marin.text.shingles import U64, shingle_set

PORTION = 1 << 23  # shingles in memory at a time, of later and of earlier texts each


@dataclass(frozen=True)
class Copy:
    """The verdict that a text is a copy. of: position of the original among all texts."""

    of: int
    jaccard: float
    containment: float


@dataclass(frozen=True)
class Sets:
    """Facts about some texts. ids: (n, 2), the two halves of each id. stay: whether a text surely stays."""

    ids: U64
    shingles: list[U64]
    stay: NDArray[np.bool_]


# Returns the Sets of the earlier texts of pairs, each text once, in order.
type Reader = Callable[[Pairs], Sets]


def near_duplicates(texts: Iterable[str], rule: NearDuplicates, stay: int = 0) -> Iterator[Copy | None]:
    """Yield for each text, in order: None if it stays, else a Copy of the first earlier text that stays.

    Texts without words stay, and so do the first ``stay`` texts. Memory: 8 bytes per word, and 24 per key.
    """
    sets: list[U64] = []
    found = [np.empty(0, KEY)]
    for chunk in chunks(shingle_set(text, rule.words) for text in texts):
        found.append(keys(chunk, np.arange(len(sets), len(sets) + len(chunk), dtype=np.uint64), rule))
        sets += chunk
    [proposed] = proposals([np.concatenate(found)], stay, rule)
    pairs = candidates(proposed.pairs, dict(enumerate(sets)), rule)
    copied = set(pairs["later"].tolist())

    def read(wanted: Pairs) -> Sets:
        places = wanted["earlier"].tolist()
        stay = np.array([place not in copied for place in places], np.bool_)
        return Sets(np.zeros((len(places), 2), np.uint64), [sets[place] for place in places], stay)

    copies, _ = compare(pairs, dict(enumerate(sets)), read, rule)
    [removed] = first_copies([copies])
    of = dict(zip(removed["later"].tolist(), removed[["earlier", "jaccard", "containment"]].tolist(), strict=True))
    for position in range(len(sets)):
        yield Copy(*of[position]) if position in of else None


def candidates(pairs: Pairs, sets: Mapping[int, U64], rule: NearDuplicates) -> Pairs:
    """Return the plausible pairs. pairs: in order of the later texts. sets: of the later texts, by place."""
    later, starts = np.unique(pairs["later"], return_index=True)
    groups = np.split(pairs, starts[1:])
    held = [plausible(group, sets[place], rule) for place, group in zip(later.tolist(), groups, strict=False)]
    return np.concatenate([np.empty(0, PAIR), *held])


def compare(pairs: Pairs, sets: Mapping[int, U64], read: Reader, rule: NearDuplicates) -> tuple[Copies, int]:
    """Return the pairs that are copies, in order, and the number of pairs compared.

    sets: of the later texts, by place. Comparisons of a text end once it copies a text that surely stays. Reads about
    PORTION shingles at a time.
    """
    found: list[tuple[int, int, list[int], float, float]] = []
    settled: set[int] = set()
    compared = 0
    pairs = pairs[np.argsort(pairs["earlier"], kind="stable")]
    _, starts = np.unique(pairs["earlier"], return_index=True)
    parts = np.cumsum(pairs["size"][starts], dtype=np.int64) // PORTION
    for part in np.unique(parts):
        low = starts[np.searchsorted(parts, part)]
        high = starts[end] if (end := np.searchsorted(parts, part, side="right")) < len(starts) else len(pairs)
        open_pairs = pairs[low:high]
        open_pairs = open_pairs[[later not in settled for later in open_pairs["later"].tolist()]]
        _, firsts, which = np.unique(open_pairs["earlier"], return_index=True, return_inverse=True)
        earlier = read(open_pairs[firsts])
        for pair, at in zip(open_pairs, which.tolist(), strict=True):
            later = int(pair["later"])
            if later in settled:
                continue
            compared += 1
            jaccard, containment = similarity(sets[later], earlier.shingles[at])
            if jaccard >= rule.jaccard or containment >= rule.containment:
                found.append((later, int(pair["earlier"]), earlier.ids[at].tolist(), jaccard, containment))
                if earlier.stay[at]:
                    settled.add(later)
    copies = np.array(found, COPY)
    return copies[np.lexsort((copies["earlier"], copies["later"]))], compared


def similarity(one: U64, other: U64) -> tuple[float, float]:
    """Return the Jaccard similarity of two sorted distinct shingle sets, and the share of ``one`` in ``other``.

    Two empty sets are dissimilar.
    """
    if not len(one) or not len(other):
        return 0.0, 0.0
    # Look up the smaller set in the larger. A merge would sort both again.
    small, large = (one, other) if len(one) <= len(other) else (other, one)
    found = np.searchsorted(large, small)
    shared = int(np.count_nonzero(large[np.minimum(found, len(large) - 1)] == small))
    return shared / (len(one) + len(other) - shared), shared / len(one)
