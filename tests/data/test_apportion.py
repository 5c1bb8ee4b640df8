"""Apportionment: whole numbers near the shares, at every prefix."""

import math

from hypothesis import given
from hypothesis import strategies as st

from marin.data.apportion import Apportionment, Shift, draws_until
from marin.data.mixture import mixture

WEIGHTS = st.lists(st.floats(1e-5, 1), min_size=1, max_size=25).map(
    lambda raw: list(mixture(dict(enumerate(raw))).weights.values())
)


@given(WEIGHTS, st.integers(0, 400))
def test_one_more_draw_is_one_more_for_one_source(weights: list[float], n: int):
    shares = Apportionment(weights)
    now, then = shares.counts(n), shares.counts(n + 1)
    assert sum(now) == n
    assert sorted(b - a for a, b in zip(now, then, strict=True)) == [0] * (len(weights) - 1) + [1]


@given(WEIGHTS, st.integers(0, 10**12))
def test_long_runs_do_not_drift(weights: list[float], n: int):
    """1.6e9 sequences are the 32B's run; up to 1e12 every count stays within the tree's depth / 2 of its share."""
    for weight, count in zip(weights, Apportionment(weights).counts(n), strict=True):
        assert abs(count - n * weight) <= len(weights) / 2 + n * 1e-15


def test_the_published_mixture_is_off_by_less_than_two_sequences():
    """Mantis, 23 rows: the bound that holds in practice, over block ends of a whole run."""
    percent = [21.49, 17.29, 9.79, 5.81, 5.24, 4.46, 3.99, 5.57, 4.54, 4.24, 4.54, 1.27, 0.61, 0.59, 2.66, 2.66]
    percent += [1.34, 1.34, 1.59, 0.35, 0.29, 0.29, 0.09]
    weights = [each / math.fsum(percent) for each in percent]
    shares = Apportionment(weights)
    worst = max(
        abs(count - n * weight)
        for n in (*range(3000), *range(0, 300_000_000, 1_234_567))
        for weight, count in zip(weights, shares.counts(n), strict=True)
    )
    assert 0.5 < worst < 2


@given(WEIGHTS, st.integers(1, 20), st.data())
def test_draws_until_is_the_first_prefix_that_has_them(weights: list[float], count: int, data: st.DataObject):
    index = data.draw(st.integers(0, len(weights) - 1))
    shares = Apportionment(weights)
    n = draws_until(shares, index, count)
    assert shares.counts(n)[index] == count
    assert shares.counts(n - 1)[index] == count - 1


@given(WEIGHTS, WEIGHTS, st.integers(1, 300), st.integers(0, 700))
def test_a_shift_adds_one_draw_at_a_time_and_ends_with_the_second(
    first: list[float], second: list[float], length: int, n: int
):
    """The two mixtures have different sources, so the draws of the first one's sources fall and then end."""
    places = range(len(first)), range(len(first), len(first) + len(second))
    shift = Shift((Apportionment(first), places[0]), (Apportionment(second), places[1]), length=length)
    now, then = shift.counts(n), shift.counts(n + 1)
    assert sum(now) == n
    assert sorted(b - a for a, b in zip(now, then, strict=True)) == [0] * (len(now) - 1) + [1]
    within = min(n, length)
    assert abs(sum(now[: len(first)]) - (within - within**2 / (2 * length))) <= 0.5
    if n >= length:
        assert now[: len(first)] == then[: len(first)]


def test_a_shift_between_two_that_share_a_source_keeps_its_share():
    shift = Shift((Apportionment([0.5, 0.5]), (0, 1)), (Apportionment([0.5, 0.5]), (1, 2)), length=1000)
    assert shift.counts(1000) == [250, 500, 250]
    assert [b - a for a, b in zip(shift.counts(450), shift.counts(550), strict=True)] == [25, 50, 25]
    assert draws_until(shift, 2, 300) == 1100
