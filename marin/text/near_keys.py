"""Keys that near copies share: the bands of a MinHash signature, and a sample of the shingles.

For two texts of Jaccard similarity s, all ``rows`` numbers of a band are equal with probability s^rows. Bands miss an
excerpt, whose similarity to the longer text is low. The sample finds excerpts: the shingles of an excerpt below a bound
are also shingles of the longer text.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.text.near_rule import NearDuplicates
from marin.text.shingles import U64

# One key of a text. place: in the order of all texts. size: number of shingles. weight: BAND, or 1 for a shingle.
KEY = np.dtype([("key", "<u8"), ("place", "<u8"), ("size", "<u4"), ("weight", "<u4")])
BAND = 1 << 20

SEED = 0x6D6172696E  # arbitrary, but fixed, so that the output does not change
CHUNK = 1 << 20  # shingles per call that computes signatures
FEW = 8  # average sample of a short text, in shingles
LARGEST = 0xFFFFFFFFFFFFFFFF

type Keys = NDArray[np.void]


def chunks(sets: Iterable[U64]) -> Iterator[list[U64]]:
    """Yield shingle sets in portions of bounded size."""
    chunk: list[U64] = []
    size = 0
    for each in sets:
        chunk.append(each)
        size += len(each) + 1
        if size > CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def keys(sets: Sequence[U64], places: U64, rule: NearDuplicates) -> Keys:
    """Return the keys of texts from their shingle sets, equal keys in the order of the texts. Empty sets have none."""
    some = [at for at, each in enumerate(sets) if len(each)]
    if not some:
        return np.empty(0, KEY)
    held, places = [sets[at] for at in some], places[some]
    sizes = np.array([len(each) for each in held])
    flat = np.concatenate(held)
    in_bands = np.repeat(np.arange(len(held)), rule.bands)
    bands = _keys(_band_keys(flat, sizes, rule).ravel(), places[in_bands], sizes[in_bands], BAND)
    if rule.containment > 1:
        return bands
    sampled = np.flatnonzero(flat <= np.repeat(sample_bound(sizes, rule), sizes))
    owners = np.repeat(np.arange(len(held)), sizes)[sampled]
    return np.concatenate([bands, _keys(flat[sampled], places[owners], sizes[owners], 1)])


def sample_bound(sizes: NDArray[Any], rule: NearDuplicates) -> U64:
    """Return the largest sampled shingle for texts of these sizes. The bound never rises with the size."""
    return np.uint64(LARGEST) // np.clip(sizes // FEW, 1, rule.one_in).astype(np.uint64)


def _keys(numbers: U64, places: U64, sizes: NDArray[Any], weight: int) -> Keys:
    made = np.empty(len(numbers), KEY)
    made["key"], made["place"], made["size"], made["weight"] = numbers, places, sizes, weight
    return made


def _band_keys(flat: U64, sizes: NDArray[Any], rule: NearDuplicates) -> U64:
    """Return (texts, bands) keys. Texts whose signatures agree in a whole band share that band's key."""
    import rensa

    minhash: Any = rensa  # compiled, without types

    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.uint64)
    matrix = minhash.RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, rule.bands * rule.rows, SEED)
    signatures = np.array(matrix.to_rows(), dtype=np.uint64).reshape(len(sizes), rule.bands, rule.rows)
    found = np.arange(rule.bands, dtype=np.uint64)[None, :] + np.zeros((len(sizes), 1), dtype=np.uint64)
    for row in range(rule.rows):
        found = (found ^ signatures[:, :, row]) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return found
