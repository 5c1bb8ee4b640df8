"""Exact duplicates: whole texts and paragraphs, the first one kept, found over any number of shards.

A shard's texts become keys, in as many buckets as keep one in memory; what came before is found within each bucket
alone. Shapes: n keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

_PARAGRAPH = re.compile(r"\n{2,}")
# xxh3-128 of a text, so no false match in practice (10^12 texts collide with probability below 10^-14), and which one
# of its shard it is.
KEY = np.dtype([("high", "<u8"), ("low", "<u8"), ("place", "<u8")])

type Keys = NDArray[np.void]


def whole(text: str) -> list[str]:
    """The text as what is compared."""
    return [text]


def paragraphs(text: str) -> list[str]:
    """What stands between blank lines."""
    return _PARAGRAPH.split(text)


def long_paragraphs(text: str, at_least: int) -> list[str]:
    """Those of at least so many words: headings and one-line code are alike without being copies."""
    return [each for each in paragraphs(text) if len(each.split()) >= at_least]


def keys(texts: Iterable[str], compared: Callable[[str], Iterable[str]], buckets: int) -> list[Keys]:
    """(n,) KEY for each bucket, in order of places."""
    digests = b"".join(xxhash.xxh3_128_digest(part.encode()) for text in texts for part in compared(text))
    halves = np.frombuffer(digests, ">u8").reshape(-1, 2)
    found = np.empty(len(halves), KEY)
    found["high"], found["low"], found["place"] = halves[:, 0], halves[:, 1], np.arange(len(halves))
    return [found[found["high"] % buckets == bucket] for bucket in range(buckets)]


def repeats(shards: Sequence[Keys]) -> list[NDArray[np.uint64]]:
    """The places, of each shard, whose key an earlier place or shard has. All keys are of one bucket."""
    together = np.concatenate(shards)
    order = np.lexsort((together["low"], together["high"]))  # stable: equal keys stay in order
    ordered = together[order]
    again = np.zeros(len(together), np.bool_)
    again[order[1:]] = (ordered["high"][1:] == ordered["high"][:-1]) & (ordered["low"][1:] == ordered["low"][:-1])
    ends = np.cumsum([len(shard) for shard in shards])
    return [shard["place"][mask] for shard, mask in zip(shards, np.split(again, ends[:-1]), strict=True)]


def without_repeats(text: str, gone: Collection[int], first: int, at_least: int) -> tuple[str, int, int]:
    """The text without those long paragraphs that are repeats; how many those were; the place of the next text's.

    gone: places. first: the place of its first long paragraph.
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
