"""Permutations: bijective, invertible, and the same as the formulas of the literature, one index at a time."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin.data.mixture import Shuffle
from marin.data.permutation import MAX_LENGTH, Feistel, Linear, draw, draw_feistel, draw_linear, raw_stream
from marin.errors import BadField

LENGTHS = st.one_of(st.integers(1, 70), st.integers(1, 5000), st.sampled_from([1024, 4096, 4095, 4097, 2048]))


def multiplied_by_hand(right: int, key: int) -> int:
    return right * 2654435761 + key


def splitmix_by_hand(right: int, key: int) -> int:
    mixed = (right + key) % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    return mixed ^ (mixed >> 31)


def feistel_by_hand(
    x: int, length: int, keys: tuple[int, ...], function: Callable[[int, int], int] = multiplied_by_hand
) -> int:
    """Outline §6.3.6, one index: 5 rounds on the bits of the next power of two, cycle walking."""
    bits = (length - 1).bit_length()
    right_bits = bits - bits // 2
    while True:
        left, right = x >> right_bits, x % 2**right_bits
        for key in keys:
            left, right = right, left ^ (function(right, key) % 2**right_bits)
        x = (left << right_bits) + right
        if x < length:
            return x


@given(LENGTHS, st.sampled_from(Shuffle), st.integers(0, 2**64))
def test_bijective_and_invertible(length: int, shuffle: Shuffle, seed: int):
    permutation = draw(shuffle, length, seed)
    every = np.arange(length)
    image = permutation(every)
    assert sorted(image.tolist()) == every.tolist()
    assert permutation.inverse(image).tolist() == every.tolist()
    assert permutation(every[::-1]).tolist() == image[::-1].tolist()


@given(LENGTHS, st.integers(0, 2**64))
def test_feistel_is_the_formula(length: int, seed: int):
    permutation = draw_feistel(length, seed)
    some = np.arange(length)[:40]
    assert len(permutation.keys) == 5
    if length > 1:
        assert permutation(some).tolist() == [feistel_by_hand(int(x), length, permutation.keys) for x in some]


@given(st.integers(1, MAX_LENGTH), st.integers(0, 2**64), st.lists(st.integers(0, 2**63), max_size=20))
def test_linear_is_the_formula_up_to_the_longest_store(length: int, seed: int, indices: list[int]):
    permutation = draw_linear(length, seed)
    x = np.array([index % length for index in indices], dtype=np.int64)
    assert permutation(x).tolist() == [(permutation.a * int(i) + permutation.b) % length for i in x]
    assert permutation.inverse(permutation(x)).tolist() == x.tolist()


def test_the_stride_is_drawn_from_all_that_are_coprime():
    """Only 1, 5, 7, 11 in [1, 12) are coprime to 12; the draw is uniform over these (chi-square, 3 dof, p > 1e-4)."""
    drawn = [draw_linear(12, seed).a for seed in range(4000)]
    counts = np.array([drawn.count(a) for a in (1, 5, 7, 11)])
    assert counts.sum() == 4000
    assert ((counts - 1000) ** 2 / 1000).sum() < 21.1


def test_feistels_known_weakness():
    """Odd multipliers carry upwards only: parity stays for as long as the left half of the index does."""
    walked = draw_feistel(1 << 20, 1)(np.arange(8192)) % 2
    assert {len(set(stretch)) for stretch in walked.reshape(8, 1024).tolist()} == {1}
    # Cycle walking blurs it: one past a power of two, half of all indices go round again.
    blurred = draw_feistel((1 << 20) + 1, 1)(np.arange(8192)) % 2
    assert {len(set(stretch)) for stretch in blurred.reshape(8, 1024).tolist()} == {2}


@given(LENGTHS, st.integers(0, 2**64))
def test_splitmix_is_the_formula(length: int, seed: int):
    permutation = draw_feistel(length, seed, shuffle=Shuffle.SPLITMIX)
    some = np.arange(length)[:40]
    if length > 1:
        wanted = [feistel_by_hand(int(x), length, permutation.keys, splitmix_by_hand) for x in some]
        assert permutation(some).tolist() == wanted


def test_splitmix_has_no_such_weakness():
    """The parity of 8,192 draws in a row is a coin's: no stretch of 1,024 has fewer than 400 of either."""
    walked = draw_feistel(1 << 20, 1, shuffle=Shuffle.SPLITMIX)(np.arange(8192)) % 2
    odd = walked.reshape(8, 1024).sum(axis=1)
    assert abs(odd - 512).max() < 112


def test_key_material_is_kept_apart():
    assert raw_stream(1, 23).random_raw() != raw_stream(12, 3).random_raw()
    assert draw_feistel(1000, 0, "web", 0) != draw_feistel(1000, 0, "web", 1)
    assert draw_feistel(1000, 0, "web", 0) == draw_feistel(1000, 0, "web", 0)


def test_pinned_parameters():
    """The order of every run depends on these draws, so a change here changes the meaning of a seed."""
    assert draw_linear(1_000_003, 7, "web") == Linear(1_000_003, 38252, 223966)
    assert draw_feistel(1_000_003, 7, "web").keys == (298, 343, 171, 728, 856)
    mixed = draw(Shuffle.SPLITMIX, 1_000_003, 7, "web")
    assert mixed(np.arange(4)).tolist() == [121491, 797568, 201825, 188503]


def test_what_is_refused():
    with pytest.raises(BadField, match="shares a factor"):
        Linear(12, 3, 0)
    with pytest.raises(BadField, match="length is 0"):
        draw_feistel(0)
    with pytest.raises(BadField, match="length is 4294967297"):
        draw_linear(MAX_LENGTH + 1)
    with pytest.raises(IndexError, match=r"\[0, 10\)"):
        Feistel(10, (0,) * 5)(np.array([10]))
    with pytest.raises(IndexError, match=r"\[0, 10\)"):
        draw_linear(10)(np.array([-1]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what importing levanter warns of is not ours
@pytest.mark.parametrize("length", [2, 3, 100, 1024, 2048, 99_991, 1 << 20])
def test_equal_to_levanter_for_equal_parameters(length: int):
    import jax.random as jrandom
    from levanter.data._prp import FeistelPermutation, LcgPermutation

    indices = np.unique(np.linspace(0, length - 1, 5000).astype(np.int64))
    theirs = FeistelPermutation(length, jrandom.PRNGKey(3))
    ours = Feistel(length, tuple(int(key) for key in theirs.keys))
    assert ours(indices).tolist() == theirs(indices).astype(np.int64).tolist()
    affine = LcgPermutation(length, jrandom.PRNGKey(3))
    assert Linear(length, int(affine.a), int(affine.b))(indices).tolist() == affine(indices).tolist()
