"""Pseudo-random permutations of [0, N) without a table: affine (linear) and two Feistel networks, with inverses.

LINEAR and FEISTEL are the permutations of Levanter's loader (Marin 32B, Bison and Mantis). Equal parameters
give equal outputs, with one exception: beyond about 10^8 sequences Levanter's linear map computes in
float64 and is no permutation, while marin's is exact up to 2^32.

Both have known weaknesses. Consecutive indices of the affine map keep one distance, so a batch is a comb or
a clump. In Levanter's Feistel network carries only go up, so the lowest bits of an output depend only on
the lowest bits of the input's halves (among 2^20 sequences, 1024 consecutive draws have one parity).
SPLITMIX is the same network with rounds that mix all bits. No measure in marin can tell SPLITMIX from a
true shuffle.

All arithmetic is elementwise on uint64 arrays. The parameters may be arrays too, so that one call permutes
indices of many sources at once.

Parameters are drawn from the raw stream of PCG64, seeded by 128 bits of SHA-256 of the key material.
NumPy guarantees the raw stream across versions, but not its distributions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marin.data.mixture import Shuffle
from marin.errors import BadField

U64 = NDArray[np.uint64]

ROUNDS = 5  # Levanter's default
MULTIPLIER = np.uint64(2654435761)  # 2^32 / golden ratio (Knuth's multiplicative hash)
# a·x + b must fit in 64 bits. For longer stores Levanter lets the sum wrap, and its map is no bijection.
MAX_LENGTH = 1 << 32


class Permutation(Protocol):
    """A bijection of [0, length)."""

    @property
    def length(self) -> int: ...
    def __call__(self, x: NDArray[np.integer[Any]]) -> NDArray[np.int64]: ...
    def inverse(self, y: NDArray[np.integer[Any]]) -> NDArray[np.int64]: ...


def raw_stream(*material: object) -> np.random.PCG64:
    """Return the generator for this key material (text form, length-prefixed). Use only its raw 64-bit stream."""
    parts = [str(part).encode() for part in material]
    encoded = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return np.random.PCG64(int.from_bytes(hashlib.sha256(encoded).digest()[:16], "big"))


@dataclass(frozen=True)
class Linear:
    """p(x) = (a·x + b) mod length, gcd(a, length) = 1: a walk of constant stride."""

    length: int
    a: int
    b: int

    def __post_init__(self) -> None:
        _check_length(self.length)
        if math.gcd(self.a, self.length) != 1:
            raise BadField(f"linear permutation: a = {self.a} shares a factor with the length {self.length}")

    def __call__(self, x: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        return affine(_inside(x, self.length), self.a, self.b, self.length).astype(np.int64)

    def inverse(self, y: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        back = pow(self.a, -1, self.length)
        return affine(_inside(y, self.length), back, -self.b * back % self.length, self.length).astype(np.int64)


def multiplied(right: U64, key: U64) -> U64:
    """Apply Levanter's round function: multiplication by an odd number, whose carries only go up."""
    return right * MULTIPLIER + key


def splitmix(right: U64, key: U64) -> U64:
    """Apply the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit depends on every bit."""
    mixed = right + key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


Round = Callable[[U64, U64], U64]
ROUND: Mapping[Shuffle, Round] = {Shuffle.FEISTEL: multiplied, Shuffle.SPLITMIX: splitmix}


@dataclass(frozen=True)
class Feistel:
    """A Feistel network on the bits of x, applied again until it lands in [0, length).

    keys: one per round, below 2^64. shuffle: FEISTEL or SPLITMIX, which selects the function of a round.
    """

    length: int
    keys: tuple[int, ...]
    shuffle: Shuffle = Shuffle.FEISTEL

    def __post_init__(self) -> None:
        _check_length(self.length)

    def __call__(self, x: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        return feistel(_inside(x, self.length), *self._parameters(x)).astype(np.int64)

    def inverse(self, y: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        return feistel(_inside(y, self.length), *self._parameters(y), backwards=True).astype(np.int64)

    def _parameters(self, x: NDArray[np.integer[Any]]) -> tuple[U64, U64, U64, Round]:
        keys = np.array(self.keys, np.uint64)[:, None]
        shape = (x.size,)
        return (
            np.broadcast_to(np.uint64(self.length), shape),
            np.broadcast_to(np.uint64(right_bits(self.length)), shape),
            np.broadcast_to(keys, (len(self.keys), x.size)),
            ROUND[self.shuffle],
        )


def draw_linear(length: int, *material: object) -> Linear:
    """Draw a linear permutation: a uniform over the numbers in [1, length) coprime to length, b over [0, length)."""
    _check_length(length)
    stream = raw_stream("linear", length, *material)
    if length == 1:
        return Linear(1, 1, 0)
    while True:
        a = 1 + int(stream.random_raw()) % (length - 1)
        if math.gcd(a, length) == 1:
            return Linear(length, a, int(stream.random_raw()) % length)


def draw_feistel(length: int, *material: object, shuffle: Shuffle = Shuffle.FEISTEL) -> Feistel:
    """Draw a Feistel network with one uniform key per round. Keys have the bits of a half, or 64 for SPLITMIX."""
    _check_length(length)
    stream = raw_stream(shuffle.value, length, *material)
    bits = right_bits(length) if shuffle is Shuffle.FEISTEL else 64
    return Feistel(length, tuple(int(stream.random_raw()) & ((1 << bits) - 1) for _ in range(ROUNDS)), shuffle)


def draw(shuffle: Shuffle, length: int, *material: object) -> Permutation:
    """Draw the permutation of this kind and length for the key material (seed, source, epoch …)."""
    if shuffle is Shuffle.LINEAR:
        return draw_linear(length, *material)
    return draw_feistel(length, *material, shuffle=shuffle)


def right_bits(length: int) -> int:
    """Return the bits of the network's right half: half the bits of the next power of two, rounded up."""
    return ((length - 1).bit_length() + 1) // 2


def affine(x: U64, a: int | U64, b: int | U64, length: int | U64) -> U64:
    """Return (a·x + b) mod length, elementwise. All numbers must be below 2^32."""
    return (np.asarray(a, np.uint64) * x + np.asarray(b, np.uint64)) % np.asarray(length, np.uint64)


def feistel(
    x: U64, lengths: U64, bits: U64, keys: U64, function: Round = multiplied, *, backwards: bool = False
) -> U64:
    """Pass each x through its own network, and repeat until the result is below its length.

    x, lengths, bits: (n,). keys: (rounds, n). bits: of the right half. Rounds are
    (L, R) ← (R, L xor F(R, k)), F(R, k) = function(R, k) mod 2^bits. After a round both halves have
    that many bits, as in Levanter. One pass is therefore a bijection of [0, 2^(2·bits)), which is up to
    four times the length.
    """
    rounds = _backward if backwards else _forward
    out = rounds(x, bits, keys, function)
    outside = np.flatnonzero(out >= lengths)
    while outside.size:
        out[outside] = rounds(out[outside], bits[outside], keys[:, outside], function)
        outside = outside[out[outside] >= lengths[outside]]
    return out


def _forward(x: U64, bits: U64, keys: U64, function: Round) -> U64:
    mask = (np.uint64(1) << bits) - np.uint64(1)
    right, left = x & mask, x >> bits
    for key in keys:
        left, right = right, left ^ (function(right, key) & mask)
    return (left << bits) | right


def _backward(y: U64, bits: U64, keys: U64, function: Round) -> U64:
    mask = (np.uint64(1) << bits) - np.uint64(1)
    right, left = y & mask, y >> bits
    for key in keys[::-1]:
        left, right = right ^ (function(left, key) & mask), left
    return (left << bits) | right


def _inside(x: NDArray[np.integer[Any]], length: int) -> U64:
    if x.size and (int(x.min()) < 0 or int(x.max()) >= length):
        raise IndexError(f"permutation of [0, {length}): index {int(x.min())} … {int(x.max())} is outside")
    return np.atleast_1d(x).astype(np.uint64)


def _check_length(length: int) -> None:
    if not 1 <= length <= MAX_LENGTH:
        raise BadField(f"permutation: the length is {length}, wanted 1 … {MAX_LENGTH} (2^32) sequences")
