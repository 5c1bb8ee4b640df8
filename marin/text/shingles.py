"""Compute word n-grams (shingles) as 64-bit numbers, for a whole text at once.

Shapes: B bytes of the text in light form, T words, n words per shingle.
A word's number is the polynomial of its bytes modulo 2^64, mixed. A shingle's number is the polynomial
of its words' numbers, mixed. The polynomials of all words come from one cumulative sum. Dividing by a power of
the multiplier is a multiplication by the power's inverse, which exists because the multiplier is odd.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from marin.text.normalize import light_bytes

type U64 = npt.NDArray[np.uint64]

MULTIPLIER = 0x9E3779B97F4A7C15  # odd: 2^64 / golden ratio
WORD_MULTIPLIER = 0xD6E8FEB86659FD93  # odd, unlike the other
# The smallest table of powers, in bytes of text. Tables grow by doubling.
SMALLEST_TABLE = 1 << 12


def word_numbers(text: str) -> U64:
    """Return (T,) one number per word of light(text), equal for equal words."""
    encoded = np.frombuffer(light_bytes(text), dtype=np.uint8)
    if not len(encoded):
        return np.zeros(0, dtype=np.uint64)
    size = SMALLEST_TABLE
    while size < len(encoded) + 1:
        size *= 2
    powers, inverses = _powers(size)
    sums = np.zeros(len(encoded) + 1, dtype=np.uint64)
    # +1, because a zero byte would not count. Space is 32 and never inside a word.
    np.cumsum((encoded.astype(np.uint64) + np.uint64(1)) * powers[: len(encoded)], out=sums[1:])
    in_word = np.zeros(len(encoded) + 2, np.bool_)
    in_word[1:-1] = encoded != 32
    edges = np.flatnonzero(in_word[1:] != in_word[:-1])
    starts, ends = edges[::2], edges[1::2]
    return _mix((sums[ends] - sums[starts]) * inverses[starts])


def shingles(words: U64, n: int) -> U64:
    """Return (max(T - n + 1, 0),) one number per run of n words."""
    count = len(words) - n + 1
    if count <= 0:
        return np.zeros(0, dtype=np.uint64)
    total = np.zeros(count, dtype=np.uint64)
    for offset in range(n):
        total = total * np.uint64(WORD_MULTIPLIER) + words[offset : offset + count]
    return _mix(total)


def shingle_set(text: str, n: int) -> U64:
    """Return the sorted distinct shingles of a text. A text with 1 to n - 1 words has one shingle of all its words."""
    words = word_numbers(text)
    if not len(words):
        return words
    found = np.sort(shingles(words, min(n, len(words))))  # np.unique takes three times as long
    return found[np.concatenate(([True], found[1:] != found[:-1]))]


@lru_cache(maxsize=4)
def _powers(size: int) -> tuple[U64, U64]:
    def table(multiplier: int) -> U64:
        factors = np.full(size, multiplier, dtype=np.uint64)
        factors[0] = 1
        return np.cumprod(factors, dtype=np.uint64)

    return table(MULTIPLIER), table(pow(MULTIPLIER, -1, 1 << 64))


def _mix(numbers: U64) -> U64:
    """Apply splitmix64's finaliser: every input bit reaches every output bit (Steele, Lea and Flood 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
