"""Adapters that are trained instead of the weights, and the ordinary checkpoint that comes out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.hardware import gpu
from marin.data.artifacts import Checkpoint, Tokenizer, Tokens
from marin.data.mixture import Mixture, Stages
from marin.data.token_store import write_token_store
from marin.errors import BadField, ProcessLost
from marin.report.memory import what_does_not_fit
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.held_out import lay_out, write_held_out
from marin.training.lora import MODULES, LoRA
from marin.training.model import Architecture, ModelShape, Precision
from marin.training.optimizer import Adam, ClipUpdateNorm, Muon, SkipBadSteps
from marin.training.schedule import Schedule
from marin.training.spec import Start, StartMode, TrainingSpec, Watched, to_json
from operators.export import Export
from operators.pretrained_model import FolderModel
from operators.train import Fork, OptimizerState, WarmStart
from tests.operators.running import Given, run_step
from tests.operators.test_train import PRETRAIN, WEB
from tests.training.broken import stored_arrays
from tests.training.runs import (
    LLAMA,
    SEQ_LEN,
    VOCABULARY,
    Runs,
    kill_trainer,
    prompts_in,
    resumes_of,
    samples,
    small_spec,
    train_here,
)
from tests.training.test_watching import TEXTS, ByteEncoder

LORA = LoRA(rank=2, alpha=4.0)
# Facts of a checkpoint name them.
MET = tuple(f"marin.training.{name}" for name in ("optimizer.Adam", "optimizer.Muon", "optimizer._check", "lora.LoRA"))
END = 8
RECIPE = Adam(
    peak_lr=1e-2, max_grad_norm=1.0, ema=None, clip_update_norm=ClipUpdateNorm(), skip_bad_steps=SkipBadSteps()
)
PLAIN = replace(PRETRAIN, optimizer=Adam(peak_lr=1e-2, ema=None), lora=None)
ADAPTED = replace(PLAIN, label="adapted", start=Fork(PRETRAIN, OptimizerState.FRESH), lora=LORA)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"start": None},
            r"lora adapts the weights of another checkpoint, and this run begins with none; begin with st",
        ),
        ({"start": WarmStart(PRETRAIN)}, "and a WarmStart may leave some of them fresh; begin with start=Fork"),
        (
            {"start": Fork(PRETRAIN), "first_step": 6, "end_step": 9},
            "optimizer_state is 'kept', a state of all weights",
        ),
        (
            {"start": Fork(PRETRAIN, OptimizerState.REBUILT, replayed=2), "first_step": 6, "end_step": 9},
            "optimizer_state is 'rebuilt', a state of all weights",
        ),
        ({"start": Fork(PRETRAIN, OptimizerState.FRESH, PRETRAIN)}, "clip_history holds updates of all weights"),
        ({"optimizer": Adam(peak_lr=1e-2)}, r"optimizer\.ema is 0\.995, .* give ema=None"),
        (
            {"optimizer": Muon(peak_lr=1e-2, adam_lr=1e-3, ema=None)},
            "cannot be trained with Muon, because .*; take Adam or NAdam",
        ),
        (
            {"lora": LoRA(modules=("q_proj", "wq", "lm_head"))},
            "lora.modules names wq, lm_head, which no layer of llama has; it has q_proj, k_proj, v_proj",
        ),
        (
            {"keep_every": 2},
            "keep_every and keep_at keep steps 2, 4, but a run with lora merges its adapters only at its end",
        ),
        ({"keep_at": (3,)}, "keep_every and keep_at keep steps 3, but a run with lora"),
    ],
)
def test_a_run_that_cannot_have_adapters_is_refused_when_built(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadField, match=message):
        replace(ADAPTED, **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": 0}, "rank is 0; wanted at least 1"),
        ({"alpha": 0.0}, "alpha is 0.0; wanted more than 0"),
        ({"modules": ()}, "wanted at least one name"),
        ({"modules": ("q_proj", "q_proj")}, "each name once"),
    ],
)
def test_adapters_that_make_no_sense_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadField, match=message):
        LoRA(**fields)


def test_its_output_is_of_the_end_and_has_no_optimizer_state() -> None:
    with pytest.raises(BadField, match=r"Train 'adapted': at\(4\), but a run with lora merges its adapters only at"):
        ADAPTED.at(4)
    later = {"label": "later", "first_step": 6, "end_step": 9}
    with pytest.raises(
        BadField, match=r"Train 'adapted' trains adapters \(LoRA\), and its output has no optimizer state"
    ):
        replace(PLAIN, **later, start=Fork(ADAPTED))
    with pytest.raises(BadField, match=r"adapted trains adapters \(LoRA\), and its output has no history"):
        replace(PLAIN, **later, start=Fork(PRETRAIN, OptimizerState.FRESH, ADAPTED))
    for start in (Fork(ADAPTED, OptimizerState.FRESH), Fork(ADAPTED, OptimizerState.REBUILT, replayed=2)):
        assert replace(PLAIN, **later, start=start).goes_on_from() == ADAPTED


def test_a_run_without_adapters_is_what_it_was_and_each_value_counts() -> None:
    fork = replace(PLAIN, start=Fork(PRETRAIN, OptimizerState.FRESH))
    assert replace(fork, lora=None) == fork
    values = [None, LORA, LoRA(rank=4, alpha=4.0), LoRA(rank=2), LoRA(rank=2, alpha=4.0, modules=("q_proj",))]
    assert len({replace(fork, lora=each).identity for each in values}) == len(values)


def test_memory_is_of_the_weights_and_what_the_adapters_need() -> None:
    weights, whole = LLAMA.parameters(VOCABULARY), replace(ADAPTED, lora=None)
    # Each layer has 32 → 32, 16, 16, 32 in attention and 32 ↔ 64 in the MLP.
    trained = 2 * 2 * (64 + 48 + 48 + 64 + 3 * 96)
    assert LORA.parameters(LLAMA) == trained
    assert LoRA(rank=3, modules=("down_proj",)).parameters(LLAMA) == 2 * 3 * 96
    assert ADAPTED.costs.memory_bytes == 4 * weights + 16 * trained
    # In bfloat16, two bytes a frozen weight; it is read and merged in float32.
    half = replace(ADAPTED, precision=Precision.BFLOAT16, lora=LoRA(rank=1, modules=("q_proj",)))
    assert half.costs.memory_bytes == 4 * weights
    many = replace(half, lora=LoRA(rank=8))
    assert many.costs.memory_bytes == 2 * weights + 16 * 4 * trained
    assert ADAPTED.checkpoint_bytes() == 4 * weights
    assert whole.checkpoint_bytes() == 12 * weights
    assert ADAPTED.flops() < whole.flops()
    # An 8B: no single chip of 80 GB trains its weights, and one trains adapters.
    eight = replace(LLAMA, hidden=4096, intermediate=14_336, layers=32, heads=32, kv_heads=8)
    base = Given(name_of_input="8B")
    fits = replace(
        ADAPTED,
        model=eight,
        precision=Precision.BFLOAT16,
        start=Fork(base, OptimizerState.FRESH),
        resources=gpu("h100"),
    )
    assert what_does_not_fit([fits]) == []
    with pytest.raises(BadField, match="weights, optimizer state and gradients take"):
        replace(fits, lora=None)


def architectures() -> list[ModelShape]:
    return [replace(LLAMA, architecture=each) for each in Architecture]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
@pytest.mark.parametrize("shape", architectures(), ids=lambda shape: shape.architecture.value)
@pytest.mark.parametrize("modules", [MODULES, ("v_proj", "down_proj")], ids=["all", "two"])
def test_merged_weights_compute_what_the_adapters_do(shape: ModelShape, modules: tuple[str, ...]) -> None:
    import haliax
    import jax

    from marin.training.adapters import adapters_of, own_weights_of, with_adapters, with_merged_adapters
    from marin.training.levanter_model import build_model

    lora, keys = LoRA(rank=3, alpha=2.0, modules=modules), jax.random.split(jax.random.PRNGKey(0), 3)
    model = build_model(shape, VOCABULARY, keys[0])
    fresh = with_adapters(model, lora, keys[1])
    leaves, structure = jax.tree.flatten(adapters_of(fresh))
    assert sum(each.size for each in leaves if hasattr(each, "size")) == lora.parameters(shape)
    moved = [each + 0.1 * jax.random.normal(keys[2], each.shape) if hasattr(each, "shape") else each for each in leaves]
    import equinox as eqx

    adapted = eqx.combine(jax.tree.unflatten(structure, moved), fresh)
    tokens = haliax.named(np.arange(2 * SEQ_LEN).reshape(2, SEQ_LEN) * 7 % VOCABULARY, ("batch", "position"))
    whole = with_merged_adapters(own_weights_of(adapted), adapters_of(adapted))
    told = [np.asarray(one(tokens).array) for one in (model, fresh, adapted, whole)]
    np.testing.assert_allclose(told[1], told[0], atol=1e-5)
    np.testing.assert_allclose(told[3], told[2], atol=1e-5)
    assert np.abs(told[2] - told[0]).max() > 0.1


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """spec: of a run with adapters on a small pretrained model, which watches."""
    folder = tmp_path_factory.mktemp("lora")
    base = small_spec(folder / "base", optimizer=RECIPE, end_step=6, batch={0: 8})
    train_here(base)
    held_out = Directory(str(folder / "held out"))
    write_held_out(held_out, lay_out(TEXTS, ByteEncoder(), 16))
    spec = replace(
        base,
        state=str(folder / "adapted" / "state"),
        start=Start(mode=StartMode.WEIGHTS, checkpoint=base_of(base).url),
        lora=LORA,
        end_step=END,
        checkpoint_every=3,
        schedule=Schedule(),
        watch=Watched(every=4, directory=held_out.url, separator=ByteEncoder.start, prompts=prompts_in(folder)),
    )
    made, announced = Runs(folder, spec), list[int]()
    train_here(spec, checkpoint=announced.append)
    assert announced == [END], "what else it saves is of no use to others"
    return made


def base_of(spec: TrainingSpec) -> Directory:
    return checkpoint.step_directory(Directory(spec.state) / checkpoint.RESUMABLE, spec.end_step)


def merged(spec: TrainingSpec) -> Directory:
    return checkpoint.step_directory(Directory(spec.state) / checkpoint.MERGED, spec.end_step)


def started_from(spec: TrainingSpec) -> Directory:
    assert spec.start is not None
    return Directory(spec.start.checkpoint)


def must_be_low_rank(spec: TrainingSpec, rank: int) -> None:
    """Assert that merged − base has this rank in each adapted array, and that all other arrays equal the base's."""
    before, after = (stored_arrays(each, "model") for each in (started_from(spec), merged(spec)))
    assert before.keys() == after.keys()
    adapted = {path: after[path] - before[path] for path in before if path.split("/")[-2] in MODULES}
    assert len(adapted) == len(MODULES)
    for path in before.keys() - adapted.keys():
        np.testing.assert_array_equal(after[path], before[path])
    for path, change in adapted.items():
        into = 1 if "o_proj" not in path else 2  # axes of the inputs, which come last
        for layer in change:
            matrix = layer.reshape(-1, int(np.prod(layer.shape[-into:])))
            values = np.linalg.svd(matrix.astype(np.float64), compute_uv=False)
            assert values[rank - 1] > 1e-3, path
            assert values[rank] < 1e-6, path


@pytest.mark.slow
def test_the_weights_stay_and_change_by_matrices_of_low_rank(runs: Runs) -> None:
    must_be_low_rank(runs.spec, LORA.rank)
    facts = checkpoint.read_facts(merged(runs.spec))
    assert (facts.lora, facts.step, facts.averaged) == (LORA, END, False)
    assert facts.settings["lora"] == "rank 2, alpha 4, on q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"
    checkpoint.verify(merged(runs.spec))
    assert not stored_arrays(merged(runs.spec), "opt_state")


@pytest.mark.slow
def test_optimizer_state_is_of_the_adapters_alone(runs: Runs) -> None:
    saved = checkpoint.step_directory(Directory(runs.spec.state) / checkpoint.RESUMABLE, END)
    trained = LORA.parameters(LLAMA)
    assert sum(each.size for each in stored_arrays(saved, "model").values()) == trained
    moments = [held for path, held in stored_arrays(saved, "opt_state").items() if "/mu/" in path or "/nu/" in path]
    assert sum(each.size for each in moments) == 2 * trained
    first = runs.rows(runs.spec)[0]
    assert (first["trained_parameters"], first["frozen_parameters"]) == (trained, LLAMA.parameters(VOCABULARY))


@pytest.mark.slow
def test_it_begins_with_the_loss_of_its_start_and_leaves_the_loss_that_it_has(runs: Runs) -> None:
    whole = runs.named("whole", lora=None, watch=None, end_step=1)
    runs.train(whole)
    rows = runs.rows(runs.spec)
    assert rows[0]["loss"] == pytest.approx(runs.rows(whole)[0]["loss"], abs=1e-6)
    # The next step of a longer run, and the first one of a run that begins with the output.
    longer = runs.named("longer", watch=None, end_step=END + 1)
    start = Start(mode=StartMode.WEIGHTS, checkpoint=merged(runs.spec).url)
    after = runs.named("after", lora=None, watch=None, start=start, first_step=END, end_step=END + 1)
    runs.train(longer)
    runs.train(after)
    assert runs.rows(after)[0]["loss"] == pytest.approx(runs.rows(longer)[END]["loss"], abs=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
def test_it_watches_what_it_leaves(runs: Runs) -> None:
    from marin.evaluation.scoring import Scoring, bits_per_byte
    from marin.training.scoring import load_model

    last, model = runs.rows(runs.spec)[-1], load_model(merged(runs.spec), eos=ByteEncoder.start)
    for name, texts in TEXTS.items():
        found = Scoring(model, ByteEncoder(), 16, 12).documents(texts)
        wanted = bits_per_byte([one.bits for one in found], [one.bytes for one in found])
        assert last[f"held_out/bpb/{name}"] == pytest.approx(wanted, rel=1e-5)
    factors = stored_arrays(
        checkpoint.step_directory(Directory(runs.spec.state) / checkpoint.RESUMABLE, END), "model"
    ).values()
    assert last["norm/adapters"] == pytest.approx(np.sqrt(sum(float((each**2).sum()) for each in factors)), rel=1e-5)
    assert "norm/model" not in last
    prompts = [np.array(tokens, np.int32) for tokens in ((0, 1, 2, 3, 4), (0, 7, 12, 17), (0,))]
    greedy = model.generate(prompts, 10, 0, lambda _: False)
    wrote = samples(merged(runs.spec))[-3:]
    assert [line["greedy"].split() for line in wrote] == [list(map(str, tokens)) for tokens in greedy]


@pytest.mark.slow
def test_a_killed_run_goes_on_bit_by_bit(runs: Runs) -> None:
    spec = runs.named("killed")
    with pytest.raises(ProcessLost):
        runs.train_apart(spec, step=lambda done, _: kill_trainer(spec) if done == 5 else None)
    assert runs.train(spec).began_at == 3
    assert runs.rows(spec) == runs.rows(runs.spec)
    assert resumes_of(spec) == [{"step": 3, "changed": {}}]
    ours, theirs = (stored_arrays(merged(each), "model") for each in (spec, runs.spec))
    assert all(ours[path].tobytes() == theirs[path].tobytes() for path in theirs)


@pytest.mark.slow
def test_a_run_that_died_while_it_merged_merges_again(runs: Runs) -> None:
    spec = runs.continued("half merged")
    before = stored_arrays(merged(spec), "model")
    (merged(spec).path / checkpoint.MARKER).unlink()
    announced = list[int]()
    assert runs.train(spec, checkpoint=announced.append).began_at == END
    assert announced == [END]
    checkpoint.verify(merged(spec))
    again = stored_arrays(merged(spec), "model")
    assert all(again[path].tobytes() == before[path].tobytes() for path in before)
    assert merged(spec).read_text("metrics.jsonl") == merged(runs.spec).read_text("metrics.jsonl")


@pytest.mark.slow
def test_microbatches_train_what_the_whole_batch_trains(runs: Runs) -> None:
    spec = runs.named("parts", sequences_per_device=2)
    runs.train(spec)
    whole, parts = ([row["loss"] for row in runs.rows(each)] for each in (runs.spec, spec))
    np.testing.assert_allclose(parts, whole, atol=1e-5)


@pytest.mark.slow
def test_bfloat16_rounds_no_weight_of_the_output(runs: Runs) -> None:
    spec = runs.named("bfloat16", precision=Precision.BFLOAT16)
    runs.train(spec)
    must_be_low_rank(spec, LORA.rank)
    assert runs.rows(spec)[-1]["loss"] == pytest.approx(runs.rows(runs.spec)[-1]["loss"], abs=0.02)


FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
WITH_FOUR = """
import sys
from marin.training.levanter_run import train
from marin.training.spec import from_json
train(from_json(sys.argv[1]), lambda event, **facts: None)
"""


@pytest.mark.slow
def test_four_devices_train_what_one_trains(runs: Runs) -> None:
    spec = runs.named("split", tensor=2)
    done = subprocess.run(
        [sys.executable, "-c", WITH_FOUR, to_json(spec)],
        env={**os.environ, **FOUR}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    alone, split = ([row["loss"] for row in runs.rows(each)] for each in (runs.spec, spec))
    np.testing.assert_allclose(split, alone, rtol=2e-5)
    must_be_low_rank(spec, LORA.rank)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
def test_the_step_leaves_a_checkpoint_that_is_exported_and_read_again(runs: Runs, tmp_path: Path) -> None:
    base = Given(name_of_input="base", label="base")
    step = replace(
        PLAIN, label="adapted", data=Stages({0: Mixture({WEB: 1.0})}), lora=LORA, start=Fork(base, OptimizerState.FRESH)
    )
    given: Any = Checkpoint(step=6, tokens=0, parameters=LLAMA.parameters(VOCABULARY), architecture="llama")
    store = Directory(str(tmp_path / "web"))
    texts = [(start + np.arange(20)) % (VOCABULARY - 1) + 1 for start in range(200)]
    meta = write_token_store(store, texts, vocabulary=VOCABULARY, tokenizer="counting", eos=0)
    tokens: Any = Tokens(tokens=meta.tokens, documents=meta.documents, vocabulary=VOCABULARY, tokenizer="counting")
    inputs: dict[Any, Any] = {base: given.at(started_from(runs.spec)), WEB: tokens.at(store)}
    made = run_step(step, inputs, tmp_path)
    assert checkpoint.read_facts(made.directory).lora == LORA
    assert json.loads(made.directory.read_text("warm_start.json"))["parameters_loaded"] == made.parameters
    folder = Directory(str(Path(prompts_in(tmp_path).tokenizer)))
    tokenizer: Any = Tokenizer(vocabulary=VOCABULARY, digest="")
    run = Given(name_of_input="run", label="run")
    words = Given(name_of_input="tokenizer", label="tokenizer")
    exported = run_step(
        Export(checkpoint=run, tokenizer=words), {run: made, words: tokenizer.at(folder)}, tmp_path, met=MET
    )
    back = run_step(FolderModel(path=str(exported.directory.path / exported.folder)), {}, tmp_path, met=MET)
    ours, theirs = (stored_arrays(each.directory, "model") for each in (made, back))
    assert ours.keys() == theirs.keys()
    assert all(ours[path].tobytes() == theirs[path].tobytes() for path in ours)
