"""Level shifts on simulated curves: found where they are, rarely where they are not."""

import numpy as np
import pytest
from numpy.typing import NDArray

from marin.errors import BadField, NonFiniteLoss
from marin.health.level_shift import ShiftCause, level_shift, shift_cause

SIGMA = 0.03


def curve(n: int, seed: int, correlation: float = 0.0) -> NDArray[np.float64]:
    """A decaying loss with noise of standard deviation .03, AR(1) with the given correlation."""
    noise = np.random.default_rng(seed).normal(size=n)
    for i in range(1, n):
        noise[i] = correlation * noise[i - 1] + np.sqrt(1 - correlation**2) * noise[i]
    return 2 + 4 * np.arange(1, n + 1) ** -0.3 + SIGMA * noise


def shifted(n: int, seed: int, at: int, size: float = SIGMA, correlation: float = 0.0) -> NDArray[np.float64]:
    made = curve(n, seed, correlation)
    made[at:] += size
    return made


@pytest.mark.parametrize(
    ("n", "correlation", "at_most"), [(100, 0.0, 0.04), (300, 0.0, 0.03), (2000, 0.0, 0.01), (2000, 0.5, 0.01)]
)
def test_false_alarms_are_rare(n: int, correlation: float, at_most: float):
    """Measured on 1000 curves: .02, .01, .001, .001; here on 300, with room for chance."""
    alarms = [level_shift(curve(n, seed, correlation)).detected for seed in range(300)]
    assert np.mean(alarms) <= at_most


def test_a_shift_of_one_sigma_is_found_where_it_is():
    found = [level_shift(shifted(2000, seed, 1400)) for seed in range(40)]
    assert all(each.detected for each in found)
    assert np.mean([abs(each.position - 1400) <= 20 for each in found]) > 0.9
    assert abs(np.mean([each.size for each in found]) - SIGMA) < 0.005
    assert level_shift(shifted(2000, 0, 1400, -SIGMA)).size < 0


def test_correlated_noise_hides_some_but_not_most():
    found = [level_shift(shifted(2000, seed, 1400, correlation=0.5)).detected for seed in range(40)]
    assert np.mean(found) > 0.6


def test_the_unit_does_not_matter():
    one, two = level_shift(shifted(500, 3, 300)), level_shift(1000 * shifted(500, 3, 300))
    assert one.position == two.position
    assert np.isclose(one.t, two.t)
    assert np.isclose(1000 * one.size, two.size)


def test_train_only_points_to_data_order():
    quiet, loud = curve(2000, 1), shifted(2000, 2, 1400)
    assert shift_cause(loud, quiet)[0] is ShiftCause.DATA_ORDER
    assert shift_cause(loud, shifted(2000, 3, 1400))[0] is ShiftCause.MODEL
    assert shift_cause(quiet, loud)[0] is ShiftCause.MODEL
    assert shift_cause(quiet, curve(2000, 4))[0] is ShiftCause.NONE
    assert shift_cause(loud, quiet, mixture_changes=(1390,))[0] is ShiftCause.NONE
    assert shift_cause(loud, quiet[:30])[0] is ShiftCause.UNKNOWN
    assert shift_cause(loud[:30], quiet) == (ShiftCause.UNKNOWN, None, level_shift(quiet))


def test_curves_that_cannot_be_judged():
    with pytest.raises(BadField, match=r"shape \(32,\)"):
        level_shift(np.ones(32))
    broken = curve(200, 0)
    broken[17] = np.nan
    with pytest.raises(NonFiniteLoss, match="index 17"):
        level_shift(broken)
