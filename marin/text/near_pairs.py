"""Which texts are worth comparing: those that share keys, and which of those that are copies go.

However many texts share a key, each is paired with the first LEADERS of them only: pairs grow with the texts, not with
their square. Shapes: n keys, p pairs.
"""

# pyright: basic
from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marin.text.near_keys import BAND, KEY, Keys, sample_bound
from marin.text.near_rule import NearDuplicates
from marin.text.shingles import U64

LEADERS = 16
MERGED = 1 << 22  # pairs that are held before equal ones are put together
# size: of the earlier. weight: sum of what they share.
PAIR = np.dtype([("later", "<u8"), ("earlier", "<u8"), ("size", "<u4"), ("weight", "<u4")])
# id: of the earlier.
COPY = np.dtype([("later", "<u8"), ("earlier", "<u8"), ("id", "<u8", (2,)), ("jaccard", "<f8"), ("containment", "<f8")])

type Pairs = NDArray[np.void]
type Copies = NDArray[np.void]


@dataclass(frozen=True)
class Proposed:
    """pairs: (p,) in order. crowded: keys of theirs that more than LEADERS earlier texts have."""

    pairs: Pairs
    crowded: int


def proposals(batches: Iterable[Keys], first: int, rule: NearDuplicates) -> Iterator[Proposed]:
    """Pairs of texts that share a key, for each batch those whose later text is in it.

    batches: in order of places. first: the place of the first text that may go. Memory: LEADERS + 1 keys each, a batch
    and its pairs.
    """
    known = np.empty(0, KEY)
    for batch in batches:
        together = np.concatenate([known, batch])
        order = np.argsort(together["key"], kind="stable")
        new = order >= len(known)
        together = together[order]
        starts = np.flatnonzero(np.concatenate(([True], together["key"][1:] != together["key"][:-1])))
        sizes = np.diff(np.append(starts, len(together)))
        start = np.repeat(starts, sizes)
        rank = np.arange(len(together)) - start
        may_go = new & (together["place"] >= first)
        found = [np.empty(0, PAIR)]
        for leader in range(LEADERS):
            later = np.flatnonzero(may_go & (rank > leader))
            found.append(_pairs(together[later], together[start[later] + leader], rule))
            if sum(map(len, found)) > MERGED + 2 * len(found[0]):
                found = [merged(found)]
        yield Proposed(merged(found), int(np.count_nonzero(may_go & (rank > LEADERS))))
        known = together[rank <= LEADERS]


def _pairs(later: Keys, earlier: Keys, rule: NearDuplicates) -> Pairs:
    """Without those whose sizes rule a copy out, or, if they share a shingle only, leave it to the bands.

    If c of the later's n shingles are among the earlier's m, similarity is c n / (n + m - c n): below s only if m is
    larger than n (c / s + c - 1).
    """
    contained = max(rule.containment / rule.jaccard + rule.containment - 1, rule.containment)
    least = np.where(later["weight"] == BAND, min(rule.jaccard, rule.containment), contained)
    large = (earlier["size"] >= least * later["size"]) & (earlier["place"] < later["place"])
    made = np.empty(np.count_nonzero(large), PAIR)
    made["later"], made["earlier"] = later["place"][large], earlier["place"][large]
    made["size"], made["weight"] = earlier["size"][large], later["weight"][large]
    return made


def merged(parts: Sequence[Pairs]) -> Pairs:
    """Each pair once, weights added, in order of the later texts, then of the earlier."""
    pairs = np.concatenate(parts)
    if not len(pairs):
        return pairs
    pairs = pairs[np.lexsort((pairs["earlier"], pairs["later"]))]
    again = (pairs["later"][1:] == pairs["later"][:-1]) & (pairs["earlier"][1:] == pairs["earlier"][:-1])
    firsts = np.flatnonzero(np.concatenate(([True], ~again)))
    once = pairs[firsts]
    once["weight"] = np.add.reduceat(pairs["weight"], firsts)
    return once


def plausible(pairs: Pairs, shingles: U64, rule: NearDuplicates) -> Pairs:
    """Those that share a band, or half of what a contained text would share of the samples.

    pairs: of one later text. shingles: of that text, sorted.
    """
    bounds = sample_bound(np.maximum(pairs["size"], len(shingles)), rule)
    sampled = np.searchsorted(shingles, bounds, side="right")
    return pairs[(pairs["weight"] >= BAND) | (pairs["weight"] >= sampled * rule.containment / 2)]


def first_copies(shards: Iterable[Copies]) -> Iterator[Copies]:
    """Of copies in order, shard by shard, those that count: each later text's first whose earlier text stays.

    No transitive closure: a text goes only for its own similarity to one that stays. (Closing over unverified pairs
    removed a median 76 % of documents per source in one lab.) Memory: 8 bytes for each that goes.
    """
    gone = array("Q")  # ascending, as places of later shards are larger
    for copies in shards:
        before = _among(copies["earlier"], gone).tolist()
        here: dict[int, int] = {}
        for at, (later, earlier) in enumerate(zip(copies["later"].tolist(), copies["earlier"].tolist(), strict=True)):
            if not before[at] and earlier not in here:
                here.setdefault(later, at)
        gone.extend(here)
        yield copies[list(here.values())]


def _among(places: U64, gone: array[int]) -> NDArray[np.bool_]:
    if not gone:
        return np.zeros(len(places), np.bool_)
    held = np.frombuffer(gone, np.uint64)
    return held[np.minimum(np.searchsorted(held, places), len(held) - 1)] == places
