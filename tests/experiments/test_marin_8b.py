"""Test the 8B: at full scale against the numbers of its configurations, and in a rehearsal that runs every part."""

from dataclasses import replace
from itertools import pairwise
from math import sqrt
from typing import Any

import pytest

from experiments import exp600_phoenix, exp898_raccoon, exp916_spoonbill, exp1237_sft
from experiments.marin_8b import Marin8B
from experiments.pipeline import Pipeline
from marin import Experiment, Scale
from marin.data.draw_table import draw_table
from marin.data.stage_draws import stage_draws
from marin.training.course import phase
from marin.training.model import Architecture
from operators.datasets import gsm8k
from operators.train import Fork, OptimizerState, Train


def trainings(scale: Scale) -> dict[str, Train]:
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(gsm8k.test_items(scale),)))
    chain = Experiment(issue=600, question="the whole run", results={"end": run.deeper_starling()})
    return {step.label: step for step in chain.steps() if isinstance(step, Train)}


FULL, REHEARSAL = trainings(Scale.FULL), trainings(Scale.REHEARSAL)


def rate(name: str, step: int) -> float:
    run = FULL[name]
    return run.schedule.learning_rate(step, run.optimizer.peak_lr)


@pytest.mark.parametrize(
    ("name", "first", "end", "trillions", "so_far"),
    [
        ("8b-kestrel", 0, 660_000, 2.768, 2.768),
        ("8b-ocelot", 660_000, 738_376, 0.986, 3.754),
        ("8b-jellyfish", 738_376, 820_000, 1.027, 4.781),
        ("8b-phoenix", 819_924, 1_320_000, 6.292, 11.073),
        ("8b-starling", 1_320_000, 1_400_000, 1.342, 12.415),
        ("8b-deeper-starling", 1_399_923, 1_420_000, 0.337, 12.751),
    ],
)
def test_tokens_are_the_published_ones(name: str, first: int, end: int, trillions: float, so_far: float) -> None:
    run = FULL[name]
    assert (run.first_step, run.end_step) == (first, end)
    assert round(run.tokens_trained() / 1e12, 3) == trillions
    assert round(run.batch.tokens(4096, 0, end) / 1e12, 3) == so_far


def test_jellyfish_had_read_3_781_trillion_where_its_cooldown_began() -> None:
    assert round(FULL["8b-jellyfish"].batch.tokens(4096, 0, 740_500) / 1e12, 3) == 3.781


RATES = {
    "8b-kestrel": {
        0: 0.0, 500: 5e-4, 1_000: 1e-3, 8_999: 1e-3, 9_000: 1e-3, 9_500: 1e-3 / 5.5, 10_000: 1e-3, 359_500: 1e-3 / 5.5,
        650_000: 1e-3, 659_000: 1e-3,
    },
    "8b-ocelot": {660_000: 1.7e-3, 738_375: 1.7e-3},
    "8b-jellyfish": {738_376: 1.7e-3, 740_500: 1.7e-3, 780_250: 9.35e-4},
    "8b-phoenix": {820_000: 1.7e-4, 821_000: 9.35e-4, 822_000: 1.7e-3, 1_000_000: 1.7e-3, 1_319_999: 1.7e-3},
    "8b-starling": {1_320_000: 1.7e-3, 1_360_000: 8.585e-4},
    "8b-deeper-starling": {1_399_923: 1.7e-5, 1_419_999: 1.7e-5},
}  # fmt: skip


@pytest.mark.parametrize(("name", "step", "expected"), [(name, *at) for name in RATES for at in RATES[name].items()])
def test_the_learning_rate_is_the_published_one(name: str, step: int, expected: float) -> None:
    assert rate(name, step) == pytest.approx(expected, rel=1e-6)


def test_cooldowns_end_at_their_floors() -> None:
    assert rate("8b-kestrel", 659_999) == pytest.approx(1e-4, rel=2e-3)
    assert rate("8b-jellyfish", 820_000) == pytest.approx(1.7e-4)
    assert rate("8b-starling", 1_400_000) == pytest.approx(1.7e-5)
    # Phoenix goes on 76 steps before Jellyfish's end, at Jellyfish's rate there.
    assert rate("8b-phoenix", 819_924) == rate("8b-jellyfish", 819_924)


@pytest.mark.parametrize(
    ("name", "step", "sequences", "machines", "chips"),
    [
        ("8b-kestrel", 0, 1024, "2 × v5litepod-256", 512),
        ("8b-kestrel", 659_999, 1024, "2 × v5litepod-256", 512),
        ("8b-ocelot", 660_000, 1024, "v4-2048", 1024),
        ("8b-ocelot", 660_001, 3072, "v4-2048", 1024),
        ("8b-phoenix", 1_319_999, 3072, "v4-2048", 1024),
        ("8b-starling", 1_320_000, 3072, "v4-2048", 1024),
        ("8b-starling", 1_320_001, 4096, "v4-2048", 1024),
        ("8b-deeper-starling", 1_419_999, 4096, "v4-2048", 1024),
    ],
)
def test_batches_and_machines(name: str, step: int, sequences: int, machines: str, chips: int) -> None:
    accelerator = FULL[name].resources.accelerator
    assert accelerator is not None
    assert (FULL[name].batch.batch(step), str(accelerator), accelerator.chips) == (sequences, machines, chips)


def test_the_recipe_of_each_run() -> None:
    for name, run in FULL.items():
        recipe = run.optimizer
        assert (recipe.weight_decay, recipe.beta1, recipe.beta2, recipe.eps) == (0.05, 0.9, 0.95, 1e-8)
        assert (recipe.max_grad_norm, recipe.clip_update_norm, recipe.skip_bad_steps) == (1.0, None, None)
        assert recipe.ema == (None if name == "8b-kestrel" else 0.995)
        assert recipe.z_loss == (1e-4 if "starling" in name else 0.0)
    peaks = {name: run.optimizer.peak_lr for name, run in FULL.items()}
    assert peaks["8b-ocelot"] == pytest.approx(sqrt(3) * peaks["8b-kestrel"], rel=0.02)  # for three times the batch


def test_the_model_has_8_billion_parameters_and_new_positions_from_ocelot_on() -> None:
    for name, run in FULL.items():
        shape = run.model
        assert shape.parameters(128_256) == 8_030_261_248
        assert (shape.hidden, shape.intermediate, shape.layers) == (4096, 14336, 32)
        assert (shape.heads, shape.kv_heads, shape.seq_len, shape.architecture) == (32, 8, 4096, Architecture.LLAMA)
        rope = shape.rope
        if name == "8b-kestrel":
            assert (shape.rope_theta, rope) == (10_000, None)
        else:
            assert rope is not None
            assert (shape.rope_theta, rope.factor, rope.low, rope.high, rope.original) == (5e5, 8, 1, 4, 8192)


def test_every_run_goes_on_where_the_one_before_it_was_left() -> None:
    left = {"8b-jellyfish": 819_924, "8b-starling": 1_399_923}
    for earlier, later in pairwise(FULL.values()):
        step = left.get(earlier.label, earlier.end_step)
        assert later.start == Fork(earlier.at(step))
        assert later.first_step == step


SHARES = {
    ("8b-kestrel", 0): {"dclm_baseline": 92.57, "starcoderdata": 6.09, "proofpile_2": 1.34},
    ("8b-jellyfish", 740_500): {
        "dolmino/dclm": 67.77, "dolma/pes2o": 10.78, "finemath-3-plus": 6.31, "dolma/arxiv": 5.18,
        "dolma/stackexchange": 3.17, "starcoderdata": 2.23, "dolma/algebraic-stack": 2.13, "dolma/open-web-math": 0.94,
        "dolma/megawika": 0.82, "dolma/wiki": 0.68,
    },
    ("8b-phoenix", 820_000): {
        "dclm_baseline": 25.66, "nemotron_cc/medium": 22.82, "nemotron_cc/hq_synth": 18.36, "starcoderdata": 1.69,
        "proofpile_2": 0.37,
    },
    ("8b-phoenix", 822_000): {
        "nemotron_cc/medium": 30.85, "nemotron_cc/hq_synth": 24.82, "nemotron_cc/medium_low": 14.06,
        "nemotron_cc/hq_actual": 8.34, "nemotron_cc/medium_high": 7.53, "nemotron_cc/low_actual": 6.40,
        "nemotron_cc/low_synth": 5.73, "starcoderdata": 2.28,
    },
    ("8b-starling", 1_320_000): {
        "nemotron_cc/medium": 22.10, "starcoderdata": 4.47, "proofpile_2": 4.47, "dolmino/pes2o": 5.20,
        "arxiv_markdownified": 5.20, "dolmino/flan": 3.04, "finemath-3-plus": 3.04, "dolmino/stackexchange": 1.53,
        "stackexchange_custom": 1.53, "all_math": 0.76, "dolmino/wiki": 0.33, "wikipedia_markdown": 0.33,
        "medu_science_qa": 0.11,
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "step"), SHARES)
def test_shares_of_each_stage(name: str, step: int) -> None:
    shares = {source.label: share for source, share in FULL[name].data.known()[step].weights.items()}
    for source, percent in SHARES[name, step].items():
        assert 100 * shares[source] == pytest.approx(percent, abs=0.011), source


def test_blocks_of_starling_hold_what_its_shares_say_within_one_sequence() -> None:
    """Levanter's block held 6 sequences of Wikipedia, .293 %, and gave the remaining places to the largest source."""
    run = FULL["8b-starling"]
    stage = stage_draws(run.data, run.batch, run.data.sources)[-1]
    [wiki] = (source for source in stage.sources if source.label == "dolmino/wiki")
    assert (run.block, int(stage.shares[wiki] * run.block)) == (2048, 6)
    for blocks in (1, 2, 3, 1000):
        held = stage.counts(blocks * 2048)
        assert sum(held.values()) == blocks * 2048
        assert held[wiki] == pytest.approx(blocks * 2048 * stage.shares[wiki], abs=1)


def test_starling_reads_high_quality_five_and_ten_times_as_often() -> None:
    """Its table's column: how often, by the tokens that the weights count. Markdown's cards say other counts."""
    run = FULL["8b-starling"]
    weights = {source: 1e12 for source in run.data.sources}
    stage = draw_table(
        run.data, run.batch, block=2048, seq_len=4096, first=1_320_000, end=1_400_000,
        tokens={source: int(count) for source, count in weights.items()},
    )  # fmt: skip
    drawn = {row.name: row.drawn for row in stage.total}
    once = drawn["dolmino/wiki"] / 5 / 0.00365
    assert drawn["dolmino/flan"] / 0.017 / once == pytest.approx(10, rel=1e-3)
    assert drawn["dolmino/pes2o"] / 0.0581 / once == pytest.approx(5, rel=1e-3)
    assert drawn["all_math"] / 0.00422 / once == pytest.approx(10, rel=1e-3)


def of(module: Any, label: str, scale: Scale = Scale.FULL) -> Train:
    return next(step for step in module.build(scale).steps() if isinstance(step, Train) and step.label == label)


SIDE_RUNS = {
    (exp898_raccoon, "8b-soft-raccoon"): {820_000: 1.7e-4, 825_000: 9.35e-5, 830_000: 1.7e-5},
    (exp898_raccoon, "8b-softer-raccoon"): {829_992: 1.7e-5, 835_000: 9e-6, 840_000: 1e-6},
    (exp916_spoonbill, "8b-hypnotic-spoonbill"): {820_000: 1.7e-4, 824_524: 1.055e-4, 830_000: 2.75e-5},
    (exp916_spoonbill, "8b-focused-spoonbill"): {824_524: 1.055e-4, 830_000: 2.75e-5},
    (exp916_spoonbill, "8b-deeper-spoonbill"): {829_947: 2.75e-5, 840_000: 2.75e-6},
}


@pytest.mark.parametrize(("module", "label"), SIDE_RUNS, ids=[label for _, label in SIDE_RUNS])
def test_side_runs_decay_as_published_on_their_machines(module: Any, label: str) -> None:
    run = of(module, label)
    for step, expected in SIDE_RUNS[module, label].items():
        assert run.schedule.learning_rate(step, run.optimizer.peak_lr) == pytest.approx(expected, rel=5e-4), step
    assert (str(run.resources.accelerator), run.batch.batch(run.first_step), run.optimizer.ema) == (
        "4 × v4-128", 3072, 0.995,
    )  # fmt: skip
    assert run.optimizer.z_loss == (1e-4 if label in ("8b-focused-spoonbill", "8b-deeper-spoonbill") else 0.0)


def test_ten_thousand_steps_of_a_side_run_are_125_8_billion_tokens() -> None:
    """The retrospective has 100."""
    assert round(of(exp898_raccoon, "8b-soft-raccoon").batch.tokens(4096, 820_000, 830_000) / 1e9, 1) == 125.8


def test_raccoons_arms_differ_in_weight_decay_and_in_the_moments_alone() -> None:
    plain, no_decay, fresh = (
        of(exp898_raccoon, f"8b-softer-raccoon{name}") for name in ("", "-no-decay", "-fresh")
    )  # fmt: skip
    assert isinstance(plain.start, Fork)
    assert replace(no_decay, label=plain.label, optimizer=replace(no_decay.optimizer, weight_decay=0.05)) == plain
    assert replace(fresh, label=plain.label, start=plain.start) == plain
    assert fresh.start == Fork(plain.start.checkpoint, OptimizerState.FRESH)


def test_spoonbills_arms_differ_in_z_loss_alone() -> None:
    without, focused = (of(exp916_spoonbill, f"8b-{name}-spoonbill") for name in ("hypnotic", "focused"))
    assert focused.start == Fork(without.at(824_524))
    assert replace(
        focused, label=without.label, start=without.start, first_step=without.first_step,
        optimizer=replace(focused.optimizer, z_loss=0.0),
    ) == without  # fmt: skip
    shares = {source.label: share for source, share in without.data.known()[820_000].weights.items()}
    assert (shares["dolmino/flan"], shares["tulu_sft_train"]) == (pytest.approx(0.029), pytest.approx(0.001))
    assert int(2048 * shares["tulu_sft_train"]) == 2  # of 2.05 in a block: .098 %


def test_fine_tuning_has_the_published_size_rate_and_sets() -> None:
    run, mixed = of(exp1237_sft, "8b-sft"), of(exp1237_sft, "8b-sft-mixed")
    assert (run.end_step, run.batch.batch(0), run.seed) == (10_228, 128, 1)
    assert round(run.tokens_trained() / 1e9, 3) == 5.362
    assert [run.schedule.learning_rate(step, run.optimizer.peak_lr) for step in (153, 306, 10_227)] == [
        5e-5,
        1e-4,
        1e-4,
    ]
    recipe = run.optimizer
    assert (recipe.weight_decay, recipe.max_grad_norm, recipe.z_loss, recipe.ema) == (0.0, 1.0, 0.0, None)
    assert run.start == Fork(FULL["8b-deeper-starling"].at(1_420_000), OptimizerState.FRESH)
    shares = {source.label: share for source, share in run.data.known()[0].weights.items()}
    assert shares["natural_reasoning"] == pytest.approx(1_145_824 / 4_899_256)
    assert shares["bespoke_stratos"] == pytest.approx(16_710 / 4_899_256)
    ours = {source.label: share for source, share in mixed.data.known()[0].weights.items()}
    assert sum(ours[name] for name in shares) == pytest.approx(0.8)
    assert ours["nemotron_cc/medium"] == pytest.approx(0.2 * 0.3085, rel=1e-3)


def test_side_runs_of_a_rehearsal_are_long_enough_to_decay_and_to_compare() -> None:
    lengths = {label: of(module, label, Scale.REHEARSAL) for module, label in SIDE_RUNS}
    steps = {label: run.end_step - run.first_step for label, run in lengths.items()}
    assert steps == {
        "8b-soft-raccoon": 24, "8b-softer-raccoon": 18, "8b-hypnotic-spoonbill": 24, "8b-focused-spoonbill": 11,
        "8b-deeper-spoonbill": 18,
    }  # fmt: skip
    phoenix, abrupt = (of(exp600_phoenix, f"8b-phoenix{name}", Scale.REHEARSAL) for name in ("", "-abrupt"))
    assert [abrupt.schedule.learning_rate(step, 1.0) for step in (174, 175)] == [0.1, 1.0]
    assert [phoenix.schedule.learning_rate(step, 1.0) for step in (174, 182)] == [0.1, 1.0]


def test_each_part_of_the_recipe_happens_in_a_rehearsal() -> None:
    """Steps that the learning rate spends in each of its phases, in order."""

    def course(name: str) -> list[tuple[str, int]]:
        run = REHEARSAL[name]
        found: list[tuple[str, int]] = []
        for step in range(run.first_step, run.end_step):
            now = phase(run.schedule, step)
            found[-1:] = [(now, found[-1][1] + 1)] if found and found[-1][0] == now else [*found[-1:], (now, 1)]
        return found

    assert course("8b-kestrel") == [
        ("warmup", 6), ("hold", 28), ("decay", 6), ("hold", 34), ("decay", 6), ("hold", 34), ("decay", 6),
    ]  # fmt: skip
    assert course("8b-jellyfish") == [("hold", 2), ("decay", 28)]
    assert course("8b-phoenix") == [("rewarmup", 8), ("hold", 44)]
    assert course("8b-starling") == [("decay", 24)]
    assert list(REHEARSAL["8b-phoenix"].data.at) == [0, 146, 174, 182]
    sizes = [run.batch.batch(run.end_step - 1) for run in REHEARSAL.values()]
    assert sizes == [8, 24, 24, 24, 32, 32]
    assert sum(run.end_step - run.first_step for run in REHEARSAL.values()) == 258
