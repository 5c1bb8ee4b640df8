"""The 32B run at full scale, against the numbers of its configurations and its retrospective, at every boundary."""

import itertools
import runpy
from dataclasses import replace
from typing import Any

import pytest

from experiments import exp1380_muon, exp1388_nadamw, exp1390_necro
from experiments.exp1529_mantis import build
from infra.hardware import tpu
from marin import BatchSchedule, Scale
from marin.data.stage_draws import stage_draws
from marin.training.model import Architecture
from marin.training.optimizer import Adam, ClipUpdateNorm, Muon, NewtonSchulz, SkipBadSteps
from marin.training.schedule import Schedule
from operators.evaluate import Evaluate, Weights
from operators.phases import PhasedRun
from operators.train import Fork, OptimizerState, Train, WarmStart
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
    skip = SkipBadSteps(sigma=6.0, window=128) if step >= 72_233 else None
    assert (recipe.skip_bad_steps, recipe.z_loss, recipe.ema) == (skip, 1e-4, 0.995)
    assert isinstance(recipe, Adam)
    assert recipe.adamc == (step >= 160_000)


def test_every_phase_goes_on_where_the_one_before_it_ended_with_its_optimizer_state() -> None:
    assert [(run.first_step, run.end_step) for run in LLAMA] == [
        (0, 18_500), (18_500, 21_010), (21_010, 56_400), (56_400, 72_233), (72_233, 74_000), (74_000, 80_000),
    ]  # fmt: skip
    for earlier, later in itertools.pairwise(LLAMA):
        assert later.start == Fork(earlier.at(later.first_step))
    qwen3 = RUNS["32b-qwen3"]
    # Llama's clip was off in its last phase, so the history comes from the phase before.
    assert qwen3.start == WarmStart(LLAMA[-1].at(80_000), OptimizerState.KEPT, clip_history=LLAMA[-2].at(74_000))
    assert (qwen3.first_step, qwen3.end_step) == (80_000, 160_000)


def test_the_average_of_the_weights_is_evaluated_where_it_was() -> None:
    """Levanter's tasks and exports took the average. A rehearsal is shorter than the average's window."""
    for scale, weights in ((Scale.FULL, Weights.AVERAGED), (Scale.REHEARSAL, Weights.LAST)):
        found = {step.weights for step in build(scale).steps() if isinstance(step, Evaluate)}
        assert found == {weights}


def test_positions_are_stretched_as_in_llama_3() -> None:
    shapes: list[dict[str, Any]] = [{"theta": run.model.rope_theta, "rope": run.model.rope} for run in RUNS.values()]
    assert all(shape == shapes[0] for shape in shapes)
    rope = RUNS["mantis"].model.rope
    assert rope is not None
    assert (RUNS["mantis"].model.rope_theta, rope.factor, rope.low, rope.high, rope.original) == (5e5, 8, 1, 4, 8192)


def test_the_recipes_defaults_are_the_last_phases() -> None:
    assert RUNS["32b-qwen3"].optimizer == Adam()


def test_the_documented_change_of_a_run() -> None:
    names = runpy.run_path(str(ROOT / "docs/howto/change_a_run.py"))
    changed: Train = names["calmer"](RUNS["32b-llama"], 10_000, tpu("v5p-1024", slices=4))
    assert (changed.first_step, changed.end_step, changed.start) == (10_000, 18_500, Fork(RUNS["32b-llama"].at(10_000)))
    assert changed.optimizer.max_grad_norm == 0.2
    assert changed.resources.accelerator is not None
    assert changed.resources.accelerator.chips == 2048
    parts: PhasedRun = names["in_phases"](replace(RUNS["32b-llama"], end_step=80_000, batch=BatchSchedule({0: 8192})))
    assert [run.optimizer.clip_update_norm for run in parts.trainings] == [None, CLIP, None, CLIP]
    assert parts.last.start == Fork(parts.at(60_000), clip_history=parts.at(40_000))


def test_tokens_are_the_published_ones() -> None:
    def trillions(*runs: Train) -> float:
        return round(sum(run.tokens_trained() for run in runs) / 1e12, 3)

    assert trillions(*LLAMA) == 2.679
    assert trillions(RUNS["32b-qwen3"]) == 2.684
    assert trillions(RUNS["mantis"]) == trillions(RUNS["bison"]) == 1.074
    assert trillions(*LLAMA, RUNS["32b-qwen3"], RUNS["mantis"]) == 6.437


def test_the_models_have_the_published_shapes() -> None:
    counted = {"32b-llama": 32_519_623_680, "32b-qwen3": 32_519_640_064, "bison": 32_519_640_064}
    for label, parameters in counted.items():
        shape = RUNS[label].model
        assert shape.parameters(128_256) == parameters
        assert (shape.hidden, shape.intermediate, shape.layers) == (5120, 27648, 64)
        assert (shape.heads, shape.kv_heads, shape.head_size, shape.seq_len) == (40, 8, 128, 4096)
        assert (shape.architecture is Architecture.QWEN3) == (label != "32b-llama")


def stages(label: str) -> dict[int, dict[str, float]]:
    """Percent of each source, by the first step of the stage."""
    return {
        step: {source.label: 100 * share for source, share in mix.weights.items()}
        for step, mix in RUNS[label].data.known().items()
    }


SHARES = {
    ("32b-llama", 0): {
        "nemotron_cc/medium": 30.69, "nemotron_cc/hq_synth": 24.70, "nemotron_cc/medium_low": 13.98,
        "nemotron_cc/hq_actual": 8.30, "nemotron_cc/medium_high": 7.49, "nemotron_cc/low_actual": 6.37,
        "nemotron_cc/low_synth": 5.70, "starcoderdata": 2.27, "proofpile_2": 0.50,
    },
    ("bison", 160_000): {
        "nemotron_cc/medium": 21.49, "arxiv_markdownified": 7.41, "dolmino/flan": 4.33, "all_math": 1.08,
    },
    ("mantis", 160_000): {"megamath/web": 5.57, "megamath/text_code_block": 4.24, "dolmino/flan": 2.66},
    ("mantis", 174_000): {
        "common_pile_stackv2_edu_filtered_python": 1.10, "megamath/web": 5.36, "megamath/text_code_block": 4.09,
        "megamath/web_pro": 1.23, "megamath/translated_code": 0.585, "megamath/qa": 0.569, "dolmino/pes2o": 4.37,
        "arxiv_markdownified": 4.37, "dolmino/flan": 2.56, "finemath-3-plus": 2.56, "dolmino/stackexchange": 1.29,
        "stackexchange_custom": 1.29, "dolmino/wiki": 0.275, "wikipedia_markdown": 0.275, "medu_science_qa": 0.090,
    },
}  # fmt: skip


@pytest.mark.parametrize(("label", "step"), SHARES)
def test_shares_of_each_stage(label: str, step: int) -> None:
    for source, percent in SHARES[label, step].items():
        assert stages(label)[step][source] == pytest.approx(percent, abs=0.006), source


def test_flan_is_read_twice_and_mathematics_too_by_the_tokens_of_the_weights() -> None:
    """The final retrospective says ten times for FLAN; the code doubles both."""
    shares = stages("bison")[160_000]
    once = shares["dolmino/pes2o"] / 0.0581
    assert shares["dolmino/flan"] / 0.017 / once == pytest.approx(2)
    assert shares["all_math"] / 0.00422 / once == pytest.approx(2)


ROUNDED = {"dolmino/wiki": 5, "medu_science_qa": 1, "common_pile_stackv2_edu_filtered_python": 22}


@pytest.mark.parametrize(("source", "whole"), ROUNDED.items())
def test_a_block_holds_what_a_share_says_within_one_sequence(source: str, whole: int) -> None:
    """Levanter's block held ``whole`` sequences, and gave the remaining places to the largest source."""
    run = RUNS["mantis"]
    stage = stage_draws(run.data, run.batch, run.data.sources)[-1]
    [step] = (each for each in stage.sources if each.label == source)
    assert (run.block, int(stage.shares[step] * 2048)) == (2048, whole)
    for blocks in (1, 7, 1000):
        assert stage.counts(2048 * blocks)[step] == pytest.approx(2048 * blocks * stage.shares[step], abs=1)


def test_no_stage_needs_a_batch_cut_short_to_begin() -> None:
    """Levanter's stages began on whole blocks, so step 159,999 got a batch of 1,024; ours begin anywhere."""
    run = RUNS["mantis"]
    assert run.batch.sequences_before(160_000) % 2048 == 1024
    assert [stage.sequence for stage in stage_draws(run.data, run.batch, run.data.sources)] == [
        run.batch.sequences_before(step) for step in (0, 160_000, 174_000)
    ]


def tried(module: Any, label: str, scale: Scale = Scale.FULL) -> Train:
    return next(step for step in module.build(scale).steps() if isinstance(step, Train) and step.label == label)


def test_nadamw_is_tried_on_a_cosine_without_guards() -> None:
    run = tried(exp1388_nadamw, "32b-nadamw")
    recipe = run.optimizer
    assert isinstance(recipe, Adam)
    assert (recipe.nesterov, recipe.beta1, recipe.beta2, recipe.weight_decay) == (True, 0.95, 0.95, 0.05)
    assert (recipe.max_grad_norm, recipe.clip_update_norm, recipe.skip_bad_steps) == (1.0, None, None)
    assert run.schedule.learning_rate(77_096, recipe.peak_lr) == pytest.approx(6.929e-4, rel=1e-4)
    assert run.schedule.learning_rate(5_000, recipe.peak_lr) == pytest.approx(3.5e-4)
    assert run.start == Fork(LLAMA[-1].at(77_096))


def test_muon_is_tried_with_the_published_rates() -> None:
    run = tried(exp1380_muon, "32b-muon")
    recipe = run.optimizer
    assert isinstance(recipe, Muon)
    assert (recipe.peak_lr, recipe.adam_lr, recipe.momentum, recipe.weight_decay) == (2e-3, 7e-4, 0.98, 0.1)
    assert (recipe.nesterov, recipe.iterations, recipe.polynomial) == (True, 5, NewtonSchulz.SIMPLE)
    assert (recipe.max_grad_norm, recipe.clip_update_norm, recipe.skip_bad_steps) == (1.0, None, None)
    assert run.schedule.learning_rate(77_096, recipe.peak_lr) == 2e-3
    assert run.start == Fork(LLAMA[-1].at(77_096))


def test_both_are_compared_with_what_llama_did_there() -> None:
    control = tried(exp1380_muon, "32b-llama-as-it-was")
    assert control == tried(exp1388_nadamw, "32b-llama-as-it-was")
    assert control.optimizer == LLAMA[-1].optimizer
    assert (control.first_step, control.end_step) == (77_096, 82_000)


def test_necromancy_grafts_the_last_history_that_there_was() -> None:
    grafted, empty = (tried(exp1390_necro, label) for label in ("32b-necro", "32b-necro-empty"))
    assert grafted.start == Fork(LLAMA[-1].at(80_000), clip_history=LLAMA[-2].at(74_000))
    assert empty.start == Fork(LLAMA[-1].at(80_000))
    assert grafted.optimizer == empty.optimizer == Adam()
    assert replace(grafted, label=empty.label, start=empty.start) == empty


def test_a_rehearsal_loses_the_clip_and_grafts_it_and_changes_the_batch() -> None:
    """A clip acts from half a window on, and at once where the history was grafted."""
    runs = {label: tried(exp1390_necro, label, Scale.REHEARSAL) for label in ("32b-llama", "32b-llama-unclipped")}
    llama, unclipped = runs.values()
    assert llama.optimizer.clip_update_norm is not None
    assert llama.optimizer.clip_update_norm == ClipUpdateNorm(sigma=2.0, window=16)
    assert (unclipped.optimizer.clip_update_norm, unclipped.first_step, unclipped.end_step) == (None, 74, 80)
    assert [llama.batch.batch(step) for step in (17, 18, 20, 21)] == [32, 30, 30, 32]
    assert llama.keep_at == (74, 77)
    grafted, empty = (tried(exp1390_necro, f"32b-necro{name}", Scale.REHEARSAL) for name in ("", "-empty"))
    assert grafted.start == Fork(unclipped.at(80), clip_history=llama.at(74))
    assert grafted.end_step - grafted.first_step > 2 * 8
    assert grafted.optimizer == empty.optimizer
    assert grafted.optimizer.clip_update_norm == ClipUpdateNorm(sigma=0.5, window=16)  # two sigma would clip none


PUBLISHED = {"lr_schedule": "linear", "decay": 0.4}  # the floor is Levanter's default


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
@pytest.mark.parametrize(
    ("fields", "steps", "at"),
    [
        (
            {**PUBLISHED, "warmup": 10_000}, 1_000_000,
            (0, 1, 5_000, 9_999, 10_000, 18_499, 18_500, 21_009, 21_010, 56_400, 72_233, 74_000, 79_999),
        ),
        (
            {**PUBLISHED, "warmup": 10_000, "cycles": [80_000, 1_000_000_000], "rewarmup": 1000},
            1_000_000,
            (80_000, 80_001, 80_500, 80_999, 81_000, 120_000, 159_999),
        ),
        (
            {**PUBLISHED, "decay": 1 / 6, "warmup": 0}, 192_000,
            (160_000, 160_001, 174_000, 176_000, 190_000, 191_999),
        ),
    ],
    ids=["llama", "qk-norm", "cooldown"],
)  # fmt: skip
def test_rates_and_batches_are_levanters_for_the_published_configurations(
    fields: dict[str, Any], steps: int, at: tuple[int, ...]
) -> None:
    from levanter.optim.config import AdamConfig
    from levanter.schedule import BatchSchedule as LevantersBatches
    from levanter.schedule import ScheduleStep

    theirs = AdamConfig(learning_rate=7e-4, **fields).lr_scheduler(steps)
    published = {0: 8192, 18_500: 7680, 21_010: 8192}
    batches = LevantersBatches([ScheduleStep(start=step, value=size) for step, size in published.items()])
    for step in at:
        assert rate(step) == pytest.approx(float(theirs(step)), rel=1e-5, abs=1e-10), step
        assert training(step).batch.batch(step) == batches.batch_size_at_step(step), step


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
@pytest.mark.parametrize("step", [0, 56_400, 72_233, 74_000, 80_000, 160_000])
def test_the_recipe_of_each_phase_moves_weights_as_levanters_does(step: int) -> None:
    """With a window of 4 updates instead of 128, so that the guards look at something."""
    from levanter.optim.clip_update_norm import ClipUpdateNormConfig
    from levanter.optim.config import AdamConfig
    from levanter.optim.skipstep import SkipStepConfig

    from marin.training.levanter_optimizer import build_optimizer
    from tests.training.test_levanter_agreement import WARM, agree, moved

    recipe = training(step).optimizer
    clip, skip = recipe.clip_update_norm, recipe.skip_bad_steps
    published = SkipStepConfig.from_bool_int_or_config(True)
    wanted = SkipBadSteps(6.0, 128) if step >= 72_233 else None
    assert (skip, published) == (wanted, SkipStepConfig(rolling_interval_length=128, sigma_factor=6.0))
    theirs = AdamConfig(
        learning_rate=7e-4, weight_decay=0.05, beta1=0.9, beta2=0.95, epsilon=1e-8, min_lr_ratio=0.1,
        max_grad_norm=1.0 if step < 56_400 else 0.2, adamc_weight_decay=step >= 160_000,
        clip_update_norm=ClipUpdateNormConfig(rolling_interval_length=4, sigma_factor=2.0) if clip else None,
        skip_bad_steps=SkipStepConfig(rolling_interval_length=4, sigma_factor=6.0) if skip else None, **WARM,
    ).build(100)  # fmt: skip
    short = replace(
        recipe, clip_update_norm=clip and replace(clip, window=4), skip_bad_steps=skip and replace(skip, window=4)
    )
    agree(moved(build_optimizer(short, Schedule(warmup=4)), 8), moved(theirs, 8))
