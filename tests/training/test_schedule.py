from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin.errors import BadField
from marin.training.optimizer import Adam, ClipUpdateNorm, Muon, NAdamW, Optimizer, SkipBadSteps
from marin.training.schedule import Cycles, Decay, Rewarmup, Schedule, Shape
from marin.training.spec import from_json, to_json
from tests.training.runs import small_spec

PEAK = 7e-4
# As the 32B, to zero: QK-Norm switch at 80,000, cooldown from 160,000 to 192,000.
MARIN_32B = Schedule(warmup=800, rewarmups=(Rewarmup(80_000, 1_000),), decay=Decay(160_000, 192_000))


@pytest.mark.parametrize(
    ("step", "share"),
    [
        (0, 0.0),
        (400, 0.5),
        (800, 1.0),
        (79_999, 1.0),
        (80_000, 0.0),
        (80_250, 0.25),
        (81_000, 1.0),
        (160_000, 1.0),
        (176_000, 0.5),
        (184_000, 0.25),
        (192_000, 0.0),
        (200_000, 0.0),
    ],
)
def test_warmup_rewarmup_and_decay(step: int, share: float) -> None:
    assert MARIN_32B.learning_rate(step, PEAK) == pytest.approx(PEAK * share, abs=1e-15)


def test_without_warmup_the_first_step_is_at_the_peak() -> None:
    assert Schedule().learning_rate(0, PEAK) == PEAK


def test_the_floor_is_where_rewarmups_begin_and_the_decay_ends() -> None:
    schedule = Schedule(rewarmups=(Rewarmup(10, 4),), decay=Decay(20, 30), floor=0.1)
    assert schedule.learning_rate(10, 1.0) == pytest.approx(0.1)
    assert schedule.learning_rate(30, 1.0) == pytest.approx(0.1)
    assert schedule.learning_rate(25, 1.0) == pytest.approx(0.55)


@given(st.integers(0, 300_000))
def test_the_rate_stays_between_zero_and_the_peak(step: int) -> None:
    assert 0 <= MARIN_32B.learning_rate(step, PEAK) <= PEAK


@given(st.integers(0, 191_999).filter(lambda step: step != 79_999))
def test_it_never_jumps_except_at_the_switch(step: int) -> None:
    change = MARIN_32B.learning_rate(step + 1, PEAK) - MARIN_32B.learning_rate(step, PEAK)
    assert abs(change) <= PEAK / 800 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [
        (Schedule(decay=Decay(0, 100, Shape.COSINE), floor=0.2), {0: 1.0, 50: 0.6, 100: 0.2, 500: 0.2}),
        (Schedule(decay=Decay(0, 100, Shape.INVERSE), floor=0.1), {0: 1.0, 50: 1 / 5.5, 100: 0.1}),
        (Schedule(warmup=100, decay=Decay(100, 900, Shape.INVERSE_SQRT)), {50: 0.5, 100: 1.0, 400: 0.5, 900: 1 / 3}),
        (Schedule(cycles=Cycles(10, 4, until=30), floor=0.1), {6: 1.0, 8: 0.55, 10: 1.0, 19: 0.325, 20: 1.0, 30: 0.1}),
        (
            Schedule(cycles=Cycles(10, 4, until=25, rewarmup=2), floor=0.1),
            {10: 0.1, 11: 0.55, 12: 1.0, 20: 0.1, 22: 1.0},
        ),
    ],
    ids=["cosine", "inverse", "inverse square root", "cycles", "cycles with rewarmup"],
)
def test_shapes_and_cycles(schedule: Schedule, shares: dict[int, float]) -> None:
    assert {step: schedule.learning_rate(step, 2.0) / 2 for step in shares} == pytest.approx(shares)


def test_what_no_schedule_can_do_is_refused() -> None:
    with pytest.raises(BadField, match=r"never reaches 0; give a floor"):
        Schedule(decay=Decay(0, 10, Shape.INVERSE))
    with pytest.raises(BadField, match="cannot begin at step 0"):
        Schedule(decay=Decay(0, 10, Shape.INVERSE_SQRT))
    with pytest.raises(BadField, match="cycles of 10 steps cannot hold 3 of rewarmup and 8 of decay"):
        Schedule(cycles=Cycles(10, 8, until=30, rewarmup=3))


def test_overlapping_ramps_are_refused() -> None:
    with pytest.raises(BadField, match="begins before the one that ends at 100"):
        Schedule(warmup=100, decay=Decay(50, 200))
    with pytest.raises(BadField, match="the end must come later"):
        Schedule(decay=Decay(200, 200))


def test_a_senseless_recipe_is_refused() -> None:
    with pytest.raises(BadField, match=r"ema is 1\.0"):
        Adam(ema=1.0)
    with pytest.raises(BadField, match="window of at least 2"):
        Adam(clip_update_norm=ClipUpdateNorm(window=1))


def test_the_defaults_are_the_retrospectives() -> None:
    recipe = Adam()
    assert (recipe.peak_lr, recipe.weight_decay, recipe.max_grad_norm) == (7e-4, 0.05, 0.2)
    assert (recipe.z_loss, recipe.ema, recipe.adamc) == (1e-4, 0.995, False)
    assert recipe.clip_update_norm == ClipUpdateNorm(sigma=2.0, window=128)
    assert recipe.skip_bad_steps is not None


@pytest.mark.parametrize("recipe", [Adam(), NAdamW(), Muon(ema=None), Muon(skip_bad_steps=SkipBadSteps())])
def test_every_optimizer_reaches_the_training_process_as_it_is(recipe: Optimizer, tmp_path: Path) -> None:
    spec = small_spec(tmp_path / "run", optimizer=recipe)
    assert from_json(to_json(spec)).optimizer == recipe


def test_a_recipe_of_muon_is_checked_as_adams_is() -> None:
    with pytest.raises(BadField, match=r"Muon\.momentum is 1\.0; wanted 0 or more, below 1"):
        Muon(momentum=1.0)
    with pytest.raises(BadField, match=r"Muon\.adam_lr is 0"):
        Muon(adam_lr=0.0)
    assert (NAdamW().nesterov, NAdamW().beta1, NAdamW().skip_bad_steps) == (True, 0.95, None)
