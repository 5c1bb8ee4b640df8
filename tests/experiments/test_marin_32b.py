"""The 32B run at full scale, against the numbers of its configurations and its retrospective, at every boundary."""

import itertools
from typing import Any

import pytest

from experiments.exp1529_mantis import build
from marin import Scale
from marin.training.optimizer import Adam, ClipUpdateNorm, SkipBadSteps
from marin_operators.train import Fork, OptimizerState, Train, WarmStart
from tests.support.project import ROOT

RUNS = {step.label: step for step in build(Scale.FULL).steps() if isinstance(step, Train)}
LLAMA = [run for label, run in RUNS.items() if label.startswith("32b-llama")]


def training(step: int, arm: str = "mantis") -> Train:
    """The run that makes the update after so many steps."""
    return next(run for label, run in RUNS.items() if run.first_step <= step < run.end_step and (
        label.startswith("32b") or label == arm))  # fmt: skip


def rate(step: int) -> float:
    run = training(step)
    return run.schedule.learning_rate(step, run.optimizer.peak_lr)


# From the published configurations: marin-community/marin, experiments/tootsie/exp1295_32b, exp1395_qwen3_32b,
# exp1529_32b_{bison,mantis}_cooldown, and Levanter's defaults of their time (a floor of .1).
RATES = {
    0: 0.0, 5_000: 3.5e-4, 10_000: 7e-4, 18_500: 7e-4, 79_999: 7e-4, 80_000: 7e-5, 80_500: 3.85e-4, 81_000: 7e-4,
    159_999: 7e-4, 160_000: 7e-4, 174_000: 4.244e-4, 176_000: 3.85e-4, 190_000: 1.094e-4,
}  # fmt: skip


@pytest.mark.parametrize(("step", "expected"), RATES.items())
def test_the_learning_rate_is_the_published_one(step: int, expected: float) -> None:
    assert rate(step) == pytest.approx(expected, rel=5e-4)


def test_the_cooldown_ends_at_a_tenth_of_the_peak() -> None:
    run = training(191_999)
    assert run.schedule.learning_rate(192_000, run.optimizer.peak_lr) == pytest.approx(7e-5)


@pytest.mark.parametrize(
    ("step", "batch", "machines", "chips"),
    [
        (0, 8192, "4 × v5p-512", 1024),
        (18_499, 8192, "4 × v5p-512", 1024),
        (18_500, 7680, "3 × v5p-512", 768),
        (21_009, 7680, "3 × v5p-512", 768),
        (21_010, 8192, "v4-2048", 1024),
        (80_000, 8192, "v4-2048", 1024),
        (191_999, 8192, "v4-2048", 1024),
    ],
)
def test_each_phase_is_on_its_machines(step: int, batch: int, machines: str, chips: int) -> None:
    run = training(step)
    accelerator = run.resources.accelerator
    assert accelerator is not None
    assert (run.batch.batch(step), str(accelerator), accelerator.chips) == (batch, machines, chips)


CLIP = ClipUpdateNorm(sigma=2.0, window=128)


@pytest.mark.parametrize(
    ("step", "max_grad_norm", "clip"),
    [
        (0, 1.0, None),
        (56_399, 1.0, None),
        (56_400, 0.2, None),
        (72_232, 0.2, None),
        (72_233, 0.2, CLIP),
        (73_999, 0.2, CLIP),
        (74_000, 0.2, None),
        (79_999, 0.2, None),
        (80_000, 0.2, CLIP),
        (191_999, 0.2, CLIP),
    ],
)
def test_the_guards_came_one_by_one(step: int, max_grad_norm: float, clip: ClipUpdateNorm | None) -> None:
    recipe = training(step).optimizer
    assert (recipe.max_grad_norm, recipe.clip_update_norm) == (max_grad_norm, clip)
    assert (recipe.skip_bad_steps, recipe.z_loss, recipe.ema) == (SkipBadSteps(sigma=6.0, window=128), 1e-4, 0.995)
    assert recipe.adamc == (step >= 160_000)


def test_every_phase_goes_on_where_the_one_before_it_ended_with_its_optimizer_state() -> None:
    assert [(run.first_step, run.end_step) for run in LLAMA] == [
        (0, 18_500), (18_500, 21_010), (21_010, 56_400), (56_400, 72_233), (72_233, 74_000), (74_000, 80_000),
    ]  # fmt: skip
    for earlier, later in itertools.pairwise(LLAMA):
        assert later.start == Fork(earlier.at(later.first_step))
    qwen3 = RUNS["32b-qwen3"]
    assert qwen3.start == WarmStart(LLAMA[-1].at(80_000), OptimizerState.KEPT)
    assert (qwen3.first_step, qwen3.end_step) == (80_000, 160_000)


def test_positions_are_stretched_as_in_llama_3() -> None:
    shapes: list[dict[str, Any]] = [{"theta": run.model.rope_theta, "rope": run.model.rope} for run in RUNS.values()]
    assert all(shape == shapes[0] for shape in shapes)
    rope = RUNS["mantis"].model.rope
    assert rope is not None
    assert (RUNS["mantis"].model.rope_theta, rope.factor, rope.low, rope.high, rope.original) == (5e5, 8, 1, 4, 8192)


def test_the_recipes_defaults_are_the_last_phases() -> None:
    assert RUNS["32b-qwen3"].optimizer == Adam()


def test_the_documented_change_of_a_run() -> None:
    page = (ROOT / "docs/howto/change-a-run.md").read_text()
    names: dict[str, Any] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], names)
    changed: Train = names["calmer"](RUNS["32b-llama"], 10_000)
    assert (changed.first_step, changed.end_step, changed.start) == (10_000, 18_500, Fork(RUNS["32b-llama"].at(10_000)))
    assert changed.optimizer.max_grad_norm == 0.2
    assert changed.resources.accelerator is not None
    assert changed.resources.accelerator.chips == 2048
