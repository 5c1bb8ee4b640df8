"""Measures of correlated batches: quiet on independent draws, loud on walks that are not."""

from itertools import combinations

import numpy as np
import pytest

from marin.data.mixture import BatchSchedule, Shuffle, Stages, mixture
from marin.data.order import DataOrder
from marin.errors import BadField
from marin.training.health.batches import Draws, GroupOf, against, compare, draws_of, independent, measures
from marin.training.health.permutation_spread import spread_over_seeds

LENGTHS = {"web": 900, "code": 400, "math": 60}
STAGES = Stages({0: mixture({"web": 0.5, "code": 0.3, "math": 0.2})})


def fixed_blocks(length: int) -> GroupOf:
    """Groups of ``length`` consecutive sequences."""
    return lambda source, sequences: sequences // length


def run_of(shuffle: Shuffle, seed: int = 0) -> Draws:
    return draws_of(DataOrder(STAGES, LENGTHS, BatchSchedule({0: 16}), shuffle, seed, 64), range(160, 192))


def one_source(batches: list[list[int]], length: int) -> Draws:
    flat = [sequence for batch in batches for sequence in batch]
    return Draws(
        batch=np.repeat(np.arange(len(batches)), [len(batch) for batch in batches]),
        source=np.zeros(len(flat), np.int64),
        sequence=np.array(flat),
        lengths=np.array([length]),
        before=np.array([0]),
    )


def test_pairs_are_the_pairs():
    """Against a loop over all pairs of every batch, three sources mixed."""
    draws = run_of(Shuffle.FEISTEL)
    _, series = measures(draws, fixed_blocks(8))
    for batch in range(draws.batches):
        mine = draws.batch == batch
        rows = list(zip(draws.source[mine].tolist(), draws.sequence[mine].tolist(), strict=True))
        pairs = [(a, b) for a, b in combinations(rows, 2) if a[0] == b[0]]
        assert series["same_group"][batch] == sum(a[1] // 8 == b[1] // 8 for a, b in pairs)
        reach = [max(1, int(draws.lengths[source]) // 32) for source in range(3)]
        assert series["near"][batch] == sum(abs(a[1] - b[1]) <= reach[a[0]] for a, b in pairs)


def test_discrepancy_is_the_textbook_statistic():
    """n ω² = 1/12n + Σ((2i-1)/2n - u)²: for u = .25, .75 it is 1/24; for .05, .15 of 10, by hand."""
    even = measures(one_source([[2, 7]], 10), fixed_blocks(2))[0]["discrepancy"]
    assert np.isclose(even, 1 / 24)
    clumped = measures(one_source([[0, 1]], 10), fixed_blocks(2))[0]["discrepancy"]
    assert np.isclose(clumped, 1 / 24 + (0.25 - 0.05) ** 2 + (0.75 - 0.15) ** 2)


def test_a_walk_from_front_to_back_is_clumped_and_in_phase():
    walk = one_source([list(range(start, start + 16)) for start in range(0, 960, 16)], 960)
    run = compare(walk, fixed_blocks(8), seed=0, simulations=60).run
    assert run["same_group"].z > 20
    assert run["mean_position"].z > 20
    assert run["phase"].value > 0.9
    assert run["phase"].z > 5
    assert run["coverage"].z < -5
    assert run["same_group"].percentile == 1


def test_a_comb_is_too_even():
    comb = one_source([list(range(start, 960, 60)) for start in range(60)], 960)
    run = compare(comb, fixed_blocks(8), seed=0, simulations=60).run
    assert run["same_group"].value == 0
    assert run["discrepancy"].z < -5
    assert run["mean_position"].value < 0.1
    assert run["near"].z < -5


def test_independent_draws_are_quiet():
    """z of 40 independent runs: mean 0, variance 1, within four standard errors."""
    rng = np.random.default_rng(5)
    template = run_of(Shuffle.LINEAR)
    compared = [compare(independent(template, rng), fixed_blocks(8), seed=s, simulations=40).run for s in range(40)]
    for name in compared[0]:
        z = np.array([run[name].z for run in compared])
        assert abs(z.mean()) < 4 / np.sqrt(40), name
        assert 0.4 < z.std() < 1.8, name


def test_simulated_runs_keep_counts_and_epochs():
    draws = run_of(Shuffle.LINEAR)
    simulated = independent(draws, np.random.default_rng(0))
    assert simulated.batch.tolist() == draws.batch.tolist()
    assert simulated.source.tolist() == draws.source.tolist()
    math = simulated.sequence[simulated.source == list(draws.lengths).index(60)]
    to_epoch_end = 60 - int(draws.before[list(draws.lengths).index(60)]) % 60
    epoch = math[to_epoch_end : to_epoch_end + 60]
    assert len(set(epoch.tolist())) == len(epoch)


def test_per_batch_series_have_their_band():
    compared = compare(run_of(Shuffle.FEISTEL), fixed_blocks(8), seed=0, simulations=40)
    for series in compared.per_batch.values():
        assert len(series.value) == len(series.reference_low) == len(series.reference_high) == 32
        assert all(a <= b for a, b in zip(series.reference_low, series.reference_high, strict=True))


def test_the_reference_is_reproducible_and_large_enough():
    draws = run_of(Shuffle.FEISTEL)
    assert compare(draws, fixed_blocks(8), seed=1, simulations=20) == compare(
        draws, fixed_blocks(8), seed=1, simulations=20
    )
    with pytest.raises(BadField, match="at least 20"):
        compare(draws, fixed_blocks(8), seed=1, simulations=5)


def test_where_a_number_lies():
    assert against(2.0, [1.0, 2.0, 3.0]).percentile == 0.5
    assert against(2.0, [1.0, 2.0, 3.0]).z == 0
    assert against(1.0, [1.0, 1.0]).z == 0
    assert against(2.0, [1.0, 1.0]).z == np.inf


def test_over_many_seeds_linear_leaves_the_band_of_true_shuffles():
    """A 1760-sequence share of a batch of 8192 from 1e7 sequences in blocks of 1e4."""
    found = spread_over_seeds(10_000_000, 1760, 10_000, seeds=150)
    linear, true = found.walks["linear"], found.walks["true shuffle"]
    assert linear.clumped_seeds > 0.03
    assert linear.even_batches > 0.5
    assert linear.clumped_batches + linear.even_batches <= 1
    for kind in ("feistel", "splitmix", "true shuffle"):
        assert found.walks[kind].clumped_batches < 0.02, kind
    assert linear.most > true.most
    assert found == spread_over_seeds(10_000_000, 1760, 10_000, seeds=150)
    with pytest.raises(BadField, match="4 batches of 30 from 100"):
        spread_over_seeds(100, 30, 10)


def test_the_remainders_of_a_batch_show_what_feistel_does_not_mix():
    """A batch of 1,760 from 2^24 sequences: Levanter's network holds too many of one parity, a mixed one does not."""

    def departures(shuffle: Shuffle) -> dict[str, float]:
        stages, lengths = Stages({0: mixture({"web": 1.0})}), {"web": 1 << 24}
        draws = draws_of(DataOrder(stages, lengths, BatchSchedule({0: 1760}), shuffle, 0, 64), range(4))
        compared = compare(draws, fixed_blocks(1000), seed=0, simulations=40).run
        return {name: compared[name].z for name in ("parity", "remainder")}

    assert min(departures(Shuffle.FEISTEL).values()) > 5
    assert all(abs(z) < 5 for z in departures(Shuffle.SPLITMIX).values())
