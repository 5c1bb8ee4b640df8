import numpy as np
import pytest
from scipy import stats

from marin.errors import NothingScored
from marin.evaluation.statistics import (
    detectable_effect,
    holm,
    mean,
    paired_difference,
    paired_rate_difference,
    pooled_difference,
    unpaired_difference,
)

DRAW = np.random.default_rng(3)
A, B = DRAW.normal(1, 2, 40), DRAW.normal(0, 1, 60)


def test_intervals_agree_with_scipy():
    ours, theirs = mean(A.tolist()), stats.ttest_1samp(A, 0)
    assert (ours.low, ours.high) == pytest.approx(theirs.confidence_interval(0.95))
    assert ours.z == pytest.approx(theirs.statistic)
    ours, theirs = paired_difference(A, B[:40]), stats.ttest_rel(A, B[:40])
    assert (ours.low, ours.high) == pytest.approx(theirs.confidence_interval(0.95))
    ours, theirs = unpaired_difference(A, B), stats.ttest_ind(A, B, equal_var=False)
    assert (ours.low, ours.high) == pytest.approx(theirs.confidence_interval(0.95))
    assert ours.n == 100
    ours, theirs = pooled_difference(A, B), stats.ttest_ind(A, B, equal_var=True)
    assert (ours.low, ours.high) == pytest.approx(theirs.confidence_interval(0.95))
    assert (ours.z, ours.n) == (pytest.approx(theirs.statistic), 100)


def test_a_few_items_drawn_at_random_pass_no_threshold_by_luck():
    draw = np.random.default_rng(5)
    pooled, welch = [], []
    for _ in range(2000):
        items = draw.normal(0, 1, 128)
        pooled.append(abs(pooled_difference(items[:5], items[5:]).z))
        welch.append(abs(unpaired_difference(items[:5], items[5:]).z))
    assert max(pooled) < 5
    assert 5 < sum(z > 5 for z in welch) < 50  # one in 130 with 4 degrees of freedom


def test_a_rate_weighs_by_bytes_and_its_error_agrees_with_the_bootstrap():
    sizes = DRAW.integers(100, 4000, 80)
    b = sizes * 2 + DRAW.normal(0, 40, 80)
    a = b - sizes * 0.1 + DRAW.normal(0, 30, 80)
    ours = paired_rate_difference(a, b, sizes)
    assert ours.value == pytest.approx((a.sum() - b.sum()) / sizes.sum())
    picks = np.random.default_rng(0).integers(0, 80, (4000, 80))
    resampled = (a - b)[picks].sum(axis=1) / sizes[picks].sum(axis=1)
    assert ours.se == pytest.approx(resampled.std(), rel=0.06)
    # With one size for all it is the plain paired difference.
    same = paired_rate_difference(a, b, [10] * 80)
    plain = paired_difference(a / 10, b / 10)
    assert (same.value, same.se) == pytest.approx((plain.value, plain.se))


def test_four_in_five_of_detectable_effects_are_detected():
    effect = detectable_effect(0.1, 5.0)
    z = np.random.default_rng(1).normal(effect, 0.1, 20_000) / 0.1
    assert np.mean(z > 5) == pytest.approx(0.8, abs=0.01)


def test_items_that_agree_exactly():
    assert mean([0.0, 0.0]).z == 0
    assert mean([2.0, 2.0]).z == np.inf
    assert unpaired_difference([1.0, 1.0], [2.0, 2.0]).z == -np.inf


def test_one_item_has_no_interval():
    with pytest.raises(NothingScored, match="at least 2"):
        mean([1.0])


def test_p_values_agree_with_scipy_and_with_the_interval():
    assert mean(A.tolist()).p == pytest.approx(stats.ttest_1samp(A, 0).pvalue)
    assert unpaired_difference(A, B).p == pytest.approx(stats.ttest_ind(A, B, equal_var=False).pvalue)
    assert mean([1.0, 1.0, 1.0]).p == 0
    assert mean([0.0, 0.0]).p == 1
    for shift in np.linspace(-1, 1, 21):
        estimate = mean((B + shift).tolist())
        assert (estimate.p < 0.05) is estimate.excludes_zero


def test_holm_agrees_with_statsmodels():
    from statsmodels.stats.multitest import multipletests

    draw = np.random.default_rng(2)
    for size in (1, 2, 5, 20):
        ps = (draw.random(size) ** 3).tolist()
        assert holm(ps) == pytest.approx(multipletests(ps, method="holm")[1])
    assert holm([]) == []
