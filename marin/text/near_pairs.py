"""Choose the pairs of texts to compare (texts that share keys), and the copies to remove.

A text is paired only with the first LEADERS texts that share a key with it. The number of pairs therefore grows with
the number of texts, not with its square. Shapes: n keys, p pairs.
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
MERGED = 1 << 22  # pairs in memory before equal ones are merged
# size: of the earlier text. weight: sum over the shared keys.
PAIR = np.dtype([("later", "<u8"), ("earlier", "<u8"), ("size", "<u4"), ("weight", "<u4")])
# id: of the earlier text.
COPY = np.dtype([("later", "<u8"), ("earlier", "<u8"), ("id", "<u8", (2,)), ("jaccard", "<f8"), ("containment", "<f8")])

type Pairs = NDArray[np.void]
type Copies = NDArray[np.void]


@dataclass(frozen=True)
class Proposed:
    """Proposed pairs. pairs: (p,) in order. crowded: keys of later texts that more than LEADERS earlier texts share."""

    pairs: Pairs
    crowded: int


def proposals(batches: Iterable[Keys], first: int, rule: NearDuplicates) -> Iterator[Proposed]:
    """Yield the pairs of texts that share a key, for each batch the pairs whose later text is in the batch.

    batches: in order of places. first: the place of the first text that may be removed. Memory: LEADERS + 1 entries for
    each key, a batch and its pairs.
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
    """Return the pairs whose sizes permit a copy. Drop pairs that share only a shingle and that bands would find.

    If a share c of the later's n shingles is among the earlier's m, the similarity is c n / (n + m - c n). It is below
    s only if m is larger than n (c / s + c - 1).
    """
    contained = max(rule.containment / rule.jaccard + rule.containment - 1, rule.containment)
    least = np.where(later["weight"] == BAND, min(rule.jaccard, rule.containment), contained)
    large = (earlier["size"] >= least * later["size"]) & (earlier["place"] < later["place"])
    made = np.empty(np.count_nonzero(large), PAIR)
    made["later"], made["earlier"] = later["place"][large], earlier["place"][large]
    made["size"], made["weight"] = earlier["size"][large], later["weight"][large]
    return made


def merged(parts: Sequence[Pairs]) -> Pairs:
    """Return each pair once, with weights added, in order of later, then earlier texts."""
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
    """Return the pairs that share a band, or at least half the samples that a contained text would share.

    pairs: of one later text. shingles: of that text, sorted.
    """
    bounds = sample_bound(np.maximum(pairs["size"], len(shingles)), rule)
    sampled = np.searchsorted(shingles, bounds, side="right")
    return pairs[(pairs["weight"] >= BAND) | (pairs["weight"] >= sampled * rule.containment / 2)]


def first_copies(shards: Iterable[Copies]) -> Iterator[Copies]:
    """Yield, shard by shard, the copies to remove: for each later text the first copy whose earlier text stays.

    There is no transitive closure: a text goes only for its own similarity to a text that stays. (Closing over
    unverified pairs removed a median 76 % of documents per source in one lab.) Memory: 8 bytes per removed text.
    """
    gone = array("Q")  # ascending, because later shards have larger places
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
