from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.hardware import gpu, tpu
from marin.data.artifacts import Tokenizer, Tokens
from marin.data.documents import Document
from marin.data.mixture import BatchSchedule, Mixture, Shuffle, Stages
from marin.data.token_store import write_token_store
from marin.data.tokenizer import train_bpe
from marin.errors import BadField, InputError, UnreadableCheckpoint
from marin.report.memory import what_does_not_fit
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.metrics import read_metrics
from marin.training.model import Precision, Recompute
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.pretrained_tokenizer import FolderTokenizer
from operators.tokenize import Tokenize
from operators.tokenize_chats import TokenizeChats
from operators.train import Fork, Milestone, OptimizerState, Train, WarmStart
from operators.train_tokenizer import TrainTokenizer
from operators.watch import Watch
from tests.operators.running import Given, RunningStep, given_documents, run_step
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


SEVENTY = replace(LLAMA, hidden=8192, intermediate=28_672, layers=80, heads=64, kv_heads=8)
FOLDER = FolderTokenizer(path="/tokenizer", vocabulary=65)
BPE = TrainTokenizer(documents=(WEB,), vocabulary=300)


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
        ({"seq_len": 64}, "seq_len is 64, but the model is built for 32"),
        (
            {"data": Stages({0: Mixture({Tokenize(documents=WEB, tokenizer=BPE, label="code"): 1.0})})},
            "vocabulary is 64, but the tokenizer of tokenize/code may have 300 entries; raise the vocabulary",
        ),
        (
            {"data": Stages({0: Mixture({Tokenize(documents=WEB, tokenizer=FOLDER, label="code"): 1.0})})},
            "vocabulary is 64, but the tokenizer of tokenize/code may have 65 entries; raise the vocabulary",
        ),
        (
            {"data": Stages({0: Mixture({WEB: 0.5, Given(label="code"): 0.5})}), "block": 41},
            "block is 41 sequences, but the whole run has only 40, so a mixture would never be exact",
        ),
        ({"first_step": 3}, "begins at step 3 without a checkpoint"),
        ({"first_step": 3, "start": Fork(PRETRAIN.at(4))}, "begins at step 3, but forks from step 4"),
        ({"first_step": 4, "start": Fork(PRETRAIN.at(4)), "model": QWEN3}, "use WarmStart"),
        ({"first_step": 4, "start": WarmStart(PRETRAIN.at(4)), "model": replace(QWEN3, hidden=64)}, "the same sizes"),
        ({"first_step": 4, "start": Fork(PRETRAIN.at(4)), "vocabulary": 80}, "its start has 64"),
        (
            {"watch": Watch(domains={"web": WEB}, tokenizer=WEB, window=SEQ_LEN + 1)},
            "watch.window is 33 tokens, and the training's sequences have 32; wanted 2 to 32",
        ),
        ({"checkpoint_every": 0}, "checkpoint_every is 0; wanted more than 0"),
        ({"block": 0}, "block is 0; wanted at least 1"),
        ({"block": 41}, "block is 41 sequences, but the whole run has only 40"),
        ({"seq_len": 1}, "seq_len is 1; wanted at least 2"),
        ({"max_epochs": -1.0}, "max_epochs is -1.0; wanted more than 0"),
        ({"max_epochs": float("nan")}, "max_epochs is nan; wanted more than 0"),
        ({"checkpoint_minutes": -1.0}, "checkpoint_minutes is -1.0; wanted more than 0"),
        (
            {"data": Stages({0: Mixture({TokenizeChats(chats=WEB, tokenizer=WEB, seq_len=16, label="chats"): 1.0})})},
            "seq_len is 32, but tokenize-chats/chats packs its chats for 16; wanted the same",
        ),
        ({"keep_every": 0}, "keep_every is 0; wanted more than 0"),
        ({"schedule": Schedule(warmup=6)}, "the warmup takes 6 steps, but the run ends at step 6, before it reaches"),
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
        (
            {"batch": BatchSchedule({0: 8}), "resources": tpu("v4-8") | tpu("v4-64")},
            "a batch of 8 sequences, from step 0 on, cannot be shared by the 32 chips of v4-64. Nearest that can: 32;",
        ),
        (
            {"batch": BatchSchedule({0: 8}), "model": SEVENTY, "resources": tpu("v4-8", slices=2)},
            "weights, optimizer state and gradients take 1,369.1 GB, which is 342.3 GB on each of the 4 chips of v4-8; "
            "one has 32 GB. Without the activations it takes 43 such chips",
        ),
        (
            {"sequences_per_device": 4},
            "sequences_per_device is 4; wanted a divisor of 2, so that batches of 6 and 8 sequences are whole "
            "micro-batches on 1 device",
        ),
        ({"sequences_per_device": 0}, "sequences_per_device is 0; wanted a divisor of 2, so that"),
        (
            {"batch": BatchSchedule({0: 16}), "sequences_per_device": 3, "resources": tpu("v5e-8") | tpu("v5e-4")},
            "sequences_per_device is 3; wanted a divisor of 2, so that batches of 16 sequences are whole "
            "micro-batches on 8 chips of v5litepod-8",
        ),
        ({"tensor": 3}, "tensor is 3; wanted a divisor of 2, the kv_heads of its model"),
        ({"tensor": 0}, "tensor is 0; wanted a divisor of 2, the kv_heads of its model"),
        (
            {"tensor": 2, "resources": tpu("v5e-1")},
            "tensor is 2; wanted a divisor of 1, the chips of v5litepod-1",
        ),
        (
            {"tensor": 2, "resources": gpu("h100", count=8)},
            "a batch of 6 sequences, from step 2 on, cannot be shared by the 4 groups of 2 chips of h100. Nearest "
            "that can: 4 and 8;",
        ),
        (
            {"batch": BatchSchedule({0: 64}), "resources": tpu("v4-128")},
            "the hidden dimension of its model, 32, cannot be shared by the 64 chips of v4-128; take a slice, or",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_when_built(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadField, match=message):
        changed(PRETRAIN, **fields)


def test_a_batch_counts_only_while_the_run_trains_with_it() -> None:
    on = {"batch": BatchSchedule({0: 8192, 10: 7680, 20: 8192}), "block": 2048, "model": replace(LLAMA, hidden=1024)}
    changed(PRETRAIN, **on, resources=tpu("v4-2048"))  # ends at step 6
    start = Fork(changed(PRETRAIN, model=on["model"]), OptimizerState.FRESH)
    changed(PRETRAIN, **on, first_step=10, end_step=20, start=start, resources=tpu("v5p-512", slices=3))


def test_chips_that_split_matrices_take_the_same_sequences_and_each_hold_the_embeddings() -> None:
    split = changed(PRETRAIN, batch=BatchSchedule({0: 4}), tensor=2, resources=gpu("h100", count=8))
    whole = changed(split, tensor=1, resources=gpu("h100", count=4))
    assert split == whole, "how it runs is not what it makes"
    embeddings_and_norms = LLAMA.parameters(VOCABULARY) - LLAMA.layers * LLAMA.matrix_parameters()
    # Weights, gradients, two moments and the average.
    assert split.costs.memory_bytes - whole.costs.memory_bytes == 5 * 4 * embeddings_and_norms


def test_activations_that_cannot_fit_are_noted_with_the_microbatches_that_may() -> None:
    shape = replace(LLAMA, hidden=4096, intermediate=14_336, layers=32, heads=32, kv_heads=8, seq_len=4096)
    large = changed(
        PRETRAIN, model=shape, seq_len=4096, batch=BatchSchedule({0: 64, 3: 48}), precision=Precision.BFLOAT16,
        optimizer=Adam(peak_lr=1e-3), resources=gpu("h100", count=8),
    )  # fmt: skip
    a_sequence = 2 * 4096 * 32 * (4 * 4096 + 2 * 128 * (32 + 8) + 4 * 14_336)  # bytes, all layers
    whole = (large.costs.memory_bytes / 8 + 8 * a_sequence) / 1e9
    parts = ((large.costs.memory_bytes + 4 * shape.parameters(VOCABULARY)) / 8 + 2 * a_sequence) / 1e9
    assert what_does_not_fit([PRETRAIN, large, changed(large, sequences_per_device=2)]) == [
        f"memory: at least {whole:.0f} GB on each chip of h100, which has 80; "
        f"sequences_per_device=2 needs at least {parts:.0f}: train/pretrain"
    ]
    [alone] = what_does_not_fit([changed(large, model=replace(shape, layers=320, intermediate=1024))])
    assert "which has 80; give it recompute=Recompute.LAYERS, a shorter seq_len, or more chips: train/" in alone
    assert what_does_not_fit([changed(large, recompute=Recompute.LAYERS)]) == []


def test_kept_steps_are_counted_over_all_phases() -> None:
    assert list(PRETRAIN.kept_steps()) == []
    assert list(changed(PRETRAIN, keep_every=2).kept_steps()) == [2, 4]
    later = changed(PRETRAIN, first_step=4, end_step=11, start=Fork(PRETRAIN.at(4)), keep_every=4)
    assert list(later.kept_steps()) == [8]
    assert list(changed(later, keep_at=(4, 6, 11)).kept_steps()) == [6, 8]  # 4 is another phase's, 11 the end
    assert later.expected_size({}).bytes == 2 * PRETRAIN.expected_size({}).bytes
    assert later.at(8).expected_size({}) == PRETRAIN.expected_size({})


@pytest.mark.parametrize("step", [0, 7])
def test_a_milestone_outside_the_run_is_refused(step: int) -> None:
    with pytest.raises(BadField, match=rf"at\({step}\): the run makes the steps 0 to 6"):
        PRETRAIN.at(step)


def test_a_fork_without_the_optimizer_state_may_count_from_anywhere() -> None:
    fork = changed(PRETRAIN, start=Fork(PRETRAIN.at(4), OptimizerState.FRESH), end_step=3)
    assert set(fork.dependencies) == {WEB, PRETRAIN.at(4)}
    assert fork != changed(PRETRAIN, start=WarmStart(PRETRAIN.at(4)), end_step=3)


def test_how_it_runs_is_not_what_it_makes() -> None:
    assert changed(PRETRAIN, checkpoint_every=5, recompute=Recompute.LAYERS, sequences_per_device=2) == PRETRAIN
    assert changed(PRETRAIN, checkpoint_minutes=None, keep_every=2, keep_at=(3,)).identity == PRETRAIN.identity
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
    with pytest.raises(InputError, match="web has token ids up to 63, but the model has a vocabulary of 40"):
        run_step(changed(PRETRAIN, vocabulary=40), {WEB: given_tokens(tmp_path / "web")}, tmp_path)


def links(directory: Directory) -> int:
    return sum(path.stat().st_nlink for path in Path(str(directory.path)).rglob("*") if path.is_file())


class LinksCounted(RunningStep):
    """A running step that counts the hard links of each publication at its time."""

    links: list[int] = []  # noqa: RUF012

    def publish(self, milestone: Any, artifact: Any, source: Directory) -> None:
        super().publish(milestone, artifact, source)
        self.links = [*self.links, links(source)]


@pytest.mark.slow
def test_a_run_publishes_its_milestones_and_keeps_them(tmp_path: Path) -> None:
    inputs: dict[Any, Any] = {WEB: given_tokens(tmp_path / "web")}
    ctx = LinksCounted(Directory(str(tmp_path / "out")), Directory(str(tmp_path / "state")), inputs, (4,))
    run = changed(PRETRAIN, keep_every=4, keep_at=(2,), sequences_per_device=2)
    made: Any = run.run(ctx).at(ctx.out)
    # No link is added to what others read by then: with the work in progress taken away, it would look written to.
    assert [links(source) for _, _, source in ctx.published] == ctx.links
    assert (made.step, made.tokens, made.architecture) == (6, PRETRAIN.tokens_trained(), "llama")
    assert made.parameters == LLAMA.parameters(VOCABULARY)
    checkpoint.verify(made.directory)
    assert checkpoint.read_facts(made.directory).settings["sequences_per_device"] == 2
    assert [row["step"] for row in read_metrics(made.directory)] == list(range(6))
    # The attempt's log holds the training's output (on some machines nothing).
    printed = (tmp_path / "state/training.log").read_text().splitlines()
    told = [line.removeprefix("trainer: ") for line in ctx.logged if line.startswith("trainer: ")]
    assert told == [line.rpartition("\r")[2] for line in printed]
    [(milestone, artifact, _)] = ctx.published
    assert (milestone, artifact.step) == (PRETRAIN.at(4), 4)
    # An attempt that died before it could publish: the next one does, from the checkpoints that are left.
    again = RunningStep(Directory(str(tmp_path / "again")), ctx.state, inputs, (4,))
    run.run(again)
    assert again.published == ctx.published
    # Asked for later, the kept one is there and another is not.
    later: Any = run_step(PRETRAIN.at(4), {PRETRAIN: made}, tmp_path)
    assert later == artifact
    assert [row["step"] for row in read_metrics(later.directory)] == list(range(4))
    assert run_step(PRETRAIN.at(6), {PRETRAIN: made}, tmp_path).step == 6
    early: Any = run_step(PRETRAIN.at(2), {PRETRAIN: made}, tmp_path)  # nobody asked for it in time; it was kept
    assert early.step == 2
    with pytest.raises(UnreadableCheckpoint, match="kept no checkpoint of step 3; it has 2, 4, 6"):
        run_step(PRETRAIN.at(3), {PRETRAIN: made}, tmp_path)
    # A warm start takes the weights of the milestone.
    qwen = changed(PRETRAIN, model=QWEN3, first_step=4, start=WarmStart(PRETRAIN.at(4)))
    warm: Any = run_step(qwen, inputs | {PRETRAIN.at(4): later}, tmp_path)
    assert (warm.step, warm.architecture, warm.tokens) == (6, "qwen3", made.tokens)
    assert "q_norm" in warm.directory.read_text("warm_start.json")


@pytest.mark.slow
def test_a_training_that_watches_says_how_well_it_predicts_each_domain(tmp_path: Path) -> None:
    texts = {"web": "The cat sat on the mat again. " * 40, "code": "def f(x):\n    return x + 1\n" * 40}
    folder = Directory(str(tmp_path / "tokenizer"))
    vocabulary, digest = train_bpe(folder, texts.values(), 300)
    made: Any = Tokenizer(vocabulary=vocabulary, digest=digest).at(folder)
    names = {name: Given(name_of_input=name, label=name) for name in texts}
    inputs: dict[Any, Any] = {BPE: made} | {
        step: given_documents([Document(texts[name])] * 4, tmp_path / name) for name, step in names.items()
    }
    tokens = Tokenize(documents=names["web"], tokenizer=BPE, label="web")
    inputs[tokens] = run_step(tokens, inputs, tmp_path)
    step = changed(
        PRETRAIN, vocabulary=300, data=Stages({0: Mixture({tokens: 1.0})}), max_epochs=100.0,
        watch=Watch(domains=names, tokenizer=BPE, every=4, bytes_per_document=200, bytes_per_domain=300),
    )  # fmt: skip
    rows = read_metrics(run_step(step, inputs, tmp_path).directory)
    looks = [row for row in rows if "held_out/macro_loss" in row]
    assert [row["step"] + 1 for row in looks] == [4, 6], "every fourth step, and the last"
    for row in looks:
        for weights in ("held_out", "held_out_ema"):
            one, other = (row[f"{weights}/loss/{name}"] for name in texts)
            assert row[f"{weights}/macro_loss"] == pytest.approx((one + other) / 2, rel=1e-5)
            assert min(one, other) < row[f"{weights}/micro_loss"] < max(one, other)
            one, other = (row[f"{weights}/bpb/{name}"] for name in texts)
            # 200 and then 100 bytes of each domain: bits per byte of all are the mean of the two.
            assert row[f"{weights}/micro_bpb"] == pytest.approx((one + other) / 2, rel=1e-5)
            assert row[f"{weights}/macro_bpb"] == pytest.approx((one + other) / 2, rel=1e-5)
        assert row["held_out/macro_loss"] != row["held_out_ema/macro_loss"]
    first, last = looks
    assert last["held_out/bpb/web"] < first["held_out/bpb/web"], "it is what the run learns"
