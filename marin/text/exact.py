"""Find exact duplicates of whole texts or paragraphs over any number of shards, and keep the first of each.

A shard's texts become keys in buckets. There are enough buckets for one to fit in memory, and each bucket is searched
for repeats by itself. Shapes: n keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

_PARAGRAPH = re.compile(r"\n{2,}")
# xxh3-128 of a text, and its place in the shard. False matches do not occur in practice: among 10^12 texts, the
# probability is below 10^-14.
KEY = np.dtype([("high", "<u8"), ("low", "<u8"), ("place", "<u8")])

type Keys = NDArray[np.void]


def whole(text: str) -> list[str]:
    """Return the whole text as the one part to compare."""
    return [text]


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, which blank lines separate."""
    return _PARAGRAPH.split(text)


def long_paragraphs(text: str, at_least: int) -> list[str]:
    """Return the paragraphs with at least ``at_least`` words. Headings and one-line code are alike without copying."""
    return [each for each in paragraphs(text) if len(each.split()) >= at_least]


def keys(texts: Iterable[str], compared: Callable[[str], Iterable[str]], buckets: int) -> list[Keys]:
    """Return (n,) KEY for each bucket, in order of places."""
    digests = b"".join(xxhash.xxh3_128_digest(part.encode()) for text in texts for part in compared(text))
    halves = np.frombuffer(digests, ">u8").reshape(-1, 2)
    found = np.empty(len(halves), KEY)
    found["high"], found["low"], found["place"] = halves[:, 0], halves[:, 1], np.arange(len(halves))
    return [found[found["high"] % buckets == bucket] for bucket in range(buckets)]


def repeats(shards: Sequence[Keys]) -> list[NDArray[np.uint64]]:
    """Return the places of each shard whose key occurs at an earlier place or shard. All keys are of one bucket."""
    together = np.concatenate(shards)
    order = np.lexsort((together["low"], together["high"]))  # stable: equal keys stay in order
    ordered = together[order]
    again = np.zeros(len(together), np.bool_)
    again[order[1:]] = (ordered["high"][1:] == ordered["high"][:-1]) & (ordered["low"][1:] == ordered["low"][:-1])
    ends = np.cumsum([len(shard) for shard in shards])
    return [shard["place"][mask] for shard, mask in zip(shards, np.split(again, ends[:-1]), strict=True)]


def without_repeats(text: str, gone: Collection[int], first: int, at_least: int) -> tuple[str, int, int]:
    """Return the text without repeated long paragraphs, their number, and the first place of the next text.

    gone: places of repeats. first: the place of this text's first long paragraph.
    """
    kept: list[str] = []
    place, removed = first, 0
    for each in paragraphs(text):
        is_long = len(each.split()) >= at_least
        if is_long and place in gone:
            removed += 1
        else:
            kept.append(each)
        place += is_long
    return "\n\n".join(kept), removed, place
