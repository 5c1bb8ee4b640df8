from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin.data.artifacts import Tokens
from marin.data.mixture import BatchSchedule, Mixture, Shuffle, Stages
from marin.data.token_store import write_token_store
from marin.errors import BadField, InputError, UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.metrics import read_metrics
from marin.training.model import Recompute
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from marin_infra.hardware import gpu, tpu
from marin_operators.train import Fork, Milestone, OptimizerState, Train, WarmStart
from tests.marin_operators.running import Given, RunningStep, run_step
from tests.training.runs import LLAMA, QWEN3, SEQ_LEN, VOCABULARY

WEB = Given(name_of_input="web", label="web")
PRETRAIN = Train(
    label="pretrain",
    model=LLAMA,
    vocabulary=VOCABULARY,
    optimizer=Adam(peak_lr=1e-2, ema=0.8),
    schedule=Schedule(warmup=1),
    data=Stages({0: Mixture({WEB: 1.0})}),
    batch=BatchSchedule({0: 8, 2: 6}),
    seq_len=SEQ_LEN,
    shuffle=Shuffle.FEISTEL,
    seed=0,
    block=16,
    end_step=6,
    checkpoint_every=2,
)


def changed(step: Train, **fields: Any) -> Train:
    return replace(step, **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"end_step": 0}, "cannot train from step 0 to 0: end must come later"),
        (
            {"first_step": 8, "start": Fork(PRETRAIN.at(4)), "end_step": 7},
            "cannot anneal from step 8 to 7: end must come later",
        ),
        ({"seq_len": 64}, "seq_len is 64, the model was shaped for 32"),
        ({"first_step": 3}, "begins at step 3 with nothing to begin from"),
        ({"first_step": 3, "start": Fork(PRETRAIN.at(4))}, "begins at step 3, but forks from step 4"),
        ({"first_step": 4, "start": Fork(PRETRAIN.at(4)), "model": QWEN3}, "use WarmStart"),
        ({"first_step": 4, "start": WarmStart(PRETRAIN.at(4)), "model": replace(QWEN3, hidden=64)}, "the same sizes"),
        ({"first_step": 4, "start": Fork(PRETRAIN.at(4)), "vocabulary": 80}, "begins from one of 64"),
        ({"checkpoint_every": 0}, "wanted at least 2 and 1"),
        ({"schedule": Schedule(warmup=6)}, "the warmup takes 6 steps and the run ends at step 6, before it reaches"),
        (
            {"first_step": 3, "start": WarmStart(PRETRAIN.at(4), OptimizerState.KEPT)},
            "begins at step 3, but starts from step 4",
        ),
        (
            {"resources": gpu("h100", count=8)},
            "a batch of 6 sequences, from step 2 on, cannot be shared by the 8 chips of h100. Nearest that can: 8;",
        ),
        (
            {"batch": BatchSchedule({0: 7680}), "resources": tpu("v4-2048")},
            "a batch of 7,680 sequences, from step 0 on, cannot be shared by the 1,024 chips of v4-2048. "
            "Nearest that can: 7,168 and 8,192; or make those steps a run of its own",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_when_built(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadField, match=message):
        changed(PRETRAIN, **fields)


def test_a_batch_counts_only_while_the_run_trains_with_it() -> None:
    on = {"batch": BatchSchedule({0: 8192, 10: 7680, 20: 8192}), "block": 2048}
    changed(PRETRAIN, **on, resources=tpu("v4-2048"))  # ends at step 6
    changed(PRETRAIN, **on, first_step=10, end_step=20, start=Fork(PRETRAIN, OptimizerState.FRESH),
            resources=tpu("v5p-512", slices=3))  # fmt: skip


@pytest.mark.parametrize("step", [0, 7])
def test_a_milestone_outside_the_run_is_refused(step: int) -> None:
    with pytest.raises(BadField, match=rf"at\({step}\): the run makes the steps 0 to 6"):
        PRETRAIN.at(step)


def test_a_fork_without_the_optimizer_state_may_count_from_anywhere() -> None:
    fork = changed(PRETRAIN, start=Fork(PRETRAIN.at(4), OptimizerState.FRESH), end_step=3)
    assert set(fork.dependencies) == {WEB, PRETRAIN.at(4)}
    assert fork != changed(PRETRAIN, start=WarmStart(PRETRAIN.at(4)), end_step=3)


def test_how_it_runs_is_not_what_it_makes() -> None:
    assert changed(PRETRAIN, checkpoint_every=5, recompute=Recompute.LAYERS) == PRETRAIN
    assert changed(PRETRAIN, seed=1) != PRETRAIN
    assert changed(PRETRAIN, optimizer=replace(PRETRAIN.optimizer, adamc=True)) != PRETRAIN


def test_a_milestone_is_made_by_its_run() -> None:
    assert PRETRAIN.at(4).producer == PRETRAIN
    assert PRETRAIN.at(4) == Milestone(training=PRETRAIN, step=4)
    assert PRETRAIN.at(4).dependencies == (PRETRAIN,)


def test_the_cost_is_known_before_anything_runs() -> None:
    tokens = (2 * 8 + 4 * 6) * SEQ_LEN
    assert PRETRAIN.tokens_trained() == tokens
    work = PRETRAIN.work()
    assert (work.steps, work.tokens) == (6, tokens)
    assert work.flops == tokens * LLAMA.flops_per_token(VOCABULARY, SEQ_LEN)
    later = changed(PRETRAIN, first_step=4, start=Fork(PRETRAIN.at(4)))
    assert later.tokens_trained() == 2 * 6 * SEQ_LEN


def given_tokens(where: Path) -> Tokens:
    directory = Directory(str(where))
    texts = [(start + np.arange(20)) % (VOCABULARY - 1) + 1 for start in range(200)]
    meta = write_token_store(directory, texts, vocabulary=VOCABULARY, tokenizer="counting", eos=0)
    made: Any = Tokens(tokens=meta.tokens, documents=meta.documents, vocabulary=VOCABULARY, tokenizer="counting")
    return made.at(directory)


def test_tokens_beyond_the_vocabulary_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="web has token ids up to 63, the model has a vocabulary of 40"):
        run_step(changed(PRETRAIN, vocabulary=40), {WEB: given_tokens(tmp_path / "web")}, tmp_path)


@pytest.mark.slow
def test_a_run_publishes_its_milestones_and_keeps_them(tmp_path: Path) -> None:
    inputs: dict[Any, Any] = {WEB: given_tokens(tmp_path / "web")}
    ctx = RunningStep(Directory(str(tmp_path / "out")), Directory(str(tmp_path / "state")), inputs, (4,))
    made: Any = PRETRAIN.run(ctx).at(ctx.out)
    assert (made.step, made.tokens, made.architecture) == (6, PRETRAIN.tokens_trained(), "llama")
    assert made.parameters == LLAMA.parameters(VOCABULARY)
    checkpoint.verify(made.directory)
    assert [row["step"] for row in read_metrics(made.directory)] == list(range(6))
    # What it prints (on some machines nothing) is in the attempt's log.
    printed = (tmp_path / "state/training.log").read_text().splitlines()
    told = [line.removeprefix("trainer: ") for line in ctx.logged if line.startswith("trainer: ")]
    assert told == [line.rpartition("\r")[2] for line in printed]
    [(milestone, artifact, _)] = ctx.published
    assert (milestone, artifact.step) == (PRETRAIN.at(4), 4)
    # An attempt that died before it could publish: the next one does, from the checkpoints that are left.
    again = RunningStep(Directory(str(tmp_path / "again")), ctx.state, inputs, (4,))
    PRETRAIN.run(again)
    assert again.published == ctx.published
    # Asked for later, the kept one is there and another is not.
    later: Any = run_step(PRETRAIN.at(4), {PRETRAIN: made}, tmp_path)
    assert later == artifact
    assert [row["step"] for row in read_metrics(later.directory)] == list(range(4))
    assert run_step(PRETRAIN.at(6), {PRETRAIN: made}, tmp_path).step == 6
    with pytest.raises(UnreadableCheckpoint, match="kept no checkpoint of step 3; it has 4, 6"):
        run_step(PRETRAIN.at(3), {PRETRAIN: made}, tmp_path)
    # What the milestone holds, a warm start takes.
    qwen = changed(PRETRAIN, model=QWEN3, first_step=4, start=WarmStart(PRETRAIN.at(4)))
    warm: Any = run_step(qwen, inputs | {PRETRAIN.at(4): later}, tmp_path)
    assert (warm.step, warm.architecture, warm.tokens) == (6, "qwen3", made.tokens)
    assert "q_norm" in warm.directory.read_text("warm_start.json")
