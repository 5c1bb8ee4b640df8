"""Test a running training's measures of its weights and of held-out text against the checkpoint that it saves."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin.errors import BadField, InputError, NothingScored
from marin.evaluation.encoder import Encoded
from marin.evaluation.scoring import Scoring, bits_per_byte
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.held_out import lay_out, read_held_out, write_held_out
from marin.training.metrics import TIMINGS, read_metrics
from marin.training.model import Precision
from marin.training.schedule import Decay, Schedule
from marin.training.spec import TrainingSpec, Watched
from operators.watch import Watch
from tests.operators.running import Given
from tests.training.runs import PROMPTS, SEQ_LEN, VOCABULARY, prompts_in, samples, small_spec, train_here


class ByteEncoder:
    """A token a byte."""

    start = eos = 0
    vocabulary = VOCABULARY

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        held = [np.frombuffer(text.encode(), np.uint8) for text in texts]
        return [
            Encoded(one.astype(np.int32) % (VOCABULARY - 1) + 1, np.arange(1, len(one) + 1, dtype=np.int32))
            for one in held
        ]

    def decode(self, ids: Sequence[int]) -> str:
        raise AssertionError("nothing is decoded")


TEXTS = {
    "web": ["the quick brown fox jumps over the lazy dog, again and again and again" * 2, "short"],
    "code": ["def f(x):\n    return x\n" * 3, "print(1)", "import this"],
}


def test_every_token_is_scored_once_and_bytes_are_those_of_the_text() -> None:
    held = lay_out(TEXTS, ByteEncoder(), 16)
    assert held.domains == ("code", "web")
    sizes = [sum(len(text) for text in TEXTS[name]) for name in held.domains]
    assert list(held.bytes) == sizes
    assert held.counts.tolist() == sizes  # a token a byte
    metrics = held.metrics(np.array([3.0, 5.0]) * sizes)
    assert metrics["loss/code"] == pytest.approx(3)
    assert metrics["macro_loss"] == pytest.approx(4)
    assert metrics["micro_loss"] == pytest.approx((3 * sizes[0] + 5 * sizes[1]) / sum(sizes))
    assert metrics["bpb/web"] == pytest.approx(5 / math.log(2))


def test_held_out_text_survives_its_file_and_must_fit_the_model(tmp_path: Path) -> None:
    held, directory = lay_out(TEXTS, ByteEncoder(), 16), Directory(str(tmp_path))
    write_held_out(directory, held)
    again = read_held_out(directory, VOCABULARY)
    assert (again.domains, again.bytes) == (held.domains, held.bytes)
    for name in ("tokens", "scored", "domain"):
        assert np.array_equal(getattr(again, name), getattr(held, name))
    with pytest.raises(InputError, match=r"token ids up to .*, the model has a vocabulary of 5"):
        read_held_out(directory, 5)
    with pytest.raises(NothingScored, match="domain empty"):
        lay_out({"empty": [""]}, ByteEncoder(), 16)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"domains": {}}, "nothing to score and nothing to continue"),
        ({"prompts": ("a", "b", "a")}, "Watch.prompts has 'a' twice"),
        ({"prompts": ("a",), "tokens_per_prompt": 0}, "Watch.tokens_per_prompt is 0"),
        ({"every": 0}, "Watch.every is 0"),
        ({"bytes_per_domain": 0}, "Watch.bytes_per_domain is 0"),
    ],
)
def test_a_watch_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    given = Given(name_of_input="held out")
    with pytest.raises(BadField, match=message):
        Watch(**{"domains": {"web": given}, "tokenizer": given, **fields})


@dataclasses.dataclass
class Run:
    spec: TrainingSpec
    rows: list[dict[str, Any]]

    @property
    def output(self) -> Directory:
        return checkpoint.step_directory(Directory(self.spec.state) / "checkpoints", self.spec.end_step)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("watched")
    state = Directory(str(folder / "run" / "state"))
    write_held_out(state, lay_out(TEXTS, ByteEncoder(), 16))
    spec = small_spec(
        folder / "run", end_step=14, batch={0: 8, 4: 6}, schedule=Schedule(warmup=2, decay=Decay(8, 12)),
        peak_flops=1e12,
        watch=Watched(every=5, directory=state.url, separator=ByteEncoder.start, prompts=prompts_in(folder)),
        code="ab" * 32,
    )  # fmt: skip
    train_here(spec)
    return Run(spec, read_metrics(state))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
def test_held_out_losses_are_those_of_the_evaluation(run: Run) -> None:
    from marin.training.scoring import load_model

    looked = [row["step"] + 1 for row in run.rows if "held_out/macro_loss" in row]
    assert looked == [5, 10, 14]
    last = run.rows[-1]
    for prefix, averaged in (("held_out", False), ("held_out_ema", True)):
        scoring = Scoring(load_model(run.output, averaged=averaged, eos=ByteEncoder.start), ByteEncoder(), 16, 12)
        scores = {name: scoring.documents(texts) for name, texts in TEXTS.items()}
        for name, documents in scores.items():
            wanted = bits_per_byte([one.bits for one in documents], [one.bytes for one in documents])
            assert last[f"{prefix}/bpb/{name}"] == pytest.approx(wanted, rel=1e-5)
        every = [one for documents in scores.values() for one in documents]
        micro = bits_per_byte([one.bits for one in every], [one.bytes for one in every])
        assert last[f"{prefix}/micro_bpb"] == pytest.approx(micro, rel=1e-5)
    assert last["held_out/macro_loss"] != last["held_out_ema/macro_loss"]
    assert last["held_out/log_z"] > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
def test_a_run_in_bfloat16_writes_too(tmp_path: Path) -> None:
    watch = Watched(every=3, prompts=prompts_in(tmp_path))
    spec = small_spec(tmp_path / "run", end_step=3, precision=Precision.BFLOAT16, watch=watch)
    train_here(spec)
    assert [line["prompt"] for line in samples(Directory(spec.state))] == list(PROMPTS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
def test_norms_are_those_of_the_stored_arrays(run: Run) -> None:
    from tests.training.broken import stored_arrays

    arrays = stored_arrays(run.output, "model")
    last = run.rows[-1]
    assert [row["step"] + 1 for row in run.rows if "norm/model" in row] == [10, 14]

    def norm(held: Any) -> float:
        return math.sqrt(sum(float((np.asarray(each, np.float64) ** 2).sum()) for each in held))

    assert last["norm/model"] == pytest.approx(norm(arrays.values()), rel=1e-5)
    assert last["norm/lm_head"] == pytest.approx(norm([arrays["lm_head/weight"]]), rel=1e-5)
    for layer in range(run.spec.model.layers):
        stacked = [held[layer] for path, held in arrays.items() if path.startswith("transformer/layers")]
        assert last[f"norm/layer/{layer}"] == pytest.approx(norm(stacked), rel=1e-5)
    averages = stored_arrays(run.output, "model_averaging/model")
    apart = norm([arrays[path] - averages[path] for path in arrays])
    assert last["ema_distance"] == pytest.approx(apart / norm(arrays.values()), rel=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
def test_what_it_writes_is_what_its_checkpoint_writes(run: Run) -> None:
    from marin.training.scoring import load_model

    found = samples(run.output)
    assert [(line["step"], line["prompt"]) for line in found] == [(at, text) for at in (5, 10, 14) for text in PROMPTS]
    model = load_model(run.output, averaged=False, eos=0)
    prompts = [np.array(tokens, np.int32) for tokens in PROMPTS.values()]
    greedy = model.generate(prompts, 10, 0, lambda _: False)
    assert [line["greedy"].split() for line in found[-3:]] == [list(map(str, tokens)) for tokens in greedy]
    assert all(line["greedy"] != line["sampled"] for line in found[:3]), "after five steps much is likely"
    assert len({line["sampled"] for line in found}) == len(found)


@pytest.mark.slow
def test_a_resumed_run_says_the_same(run: Run, tmp_path: Path) -> None:
    spec = dataclasses.replace(run.spec, state=str(tmp_path / "state"), code="cd" * 32)
    shutil.copytree(run.spec.state, spec.state)
    checkpoint.remove(checkpoint.step_directory(Directory(spec.state) / "checkpoints", spec.end_step))
    assert train_here(spec).began_at == 12
    assert samples(Directory(spec.state)) == samples(run.output)
    rows = read_metrics(Directory(spec.state))

    def lasting(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{name: held for name, held in row.items() if name not in TIMINGS} for row in rows]

    [changed] = [line for line in rows[12]["changed"] if line not in run.rows[12].get("changed", [])]
    assert changed.startswith("code: abab")
    rows[12]["changed"].remove(changed)
    assert lasting(rows) == lasting(run.rows)
    assert {row["step"]: row["process"]["code"][:2] for row in rows if "process" in row} == {0: "ab", 12: "cd"}


@pytest.mark.slow
def test_rows_say_what_was_meant_to_happen(run: Run) -> None:
    assert [row["phase"] for row in run.rows] == ["warmup"] * 2 + ["hold"] * 6 + ["decay"] * 4 + ["floor"] * 2
    assert {row["step"]: row["changed"] for row in run.rows if "changed" in row} == {
        2: ["learning rate: warmup → hold"],
        4: ["batch: 8 → 6 sequences"],
        8: ["learning rate: hold → decay"],
        12: ["learning rate: decay → floor"],
    }
    first = run.rows[0]
    assert first["guards"] == {
        "max_grad_norm": 1.0, "clip_update_norm": True, "skip_bad_steps": True, "z_loss": 1e-4, "ema": 0.8,
    }  # fmt: skip
    assert (first["process"]["code"], first["process"]["devices"]) == ("ab" * 32, 1)
    assert [row["step"] for row in run.rows if "process" in row] == [0]
    for row in run.rows:
        assert row["loader_seconds"] + row["paused_seconds"] <= row["seconds"] + 1e-3
        flops = row["tokens_per_second"] * run.spec.model.flops_per_token(VOCABULARY, SEQ_LEN)
        assert row["mfu"] == pytest.approx(flops / 1e12, rel=1e-3)
        assert row.keys() >= set(TIMINGS) - {"watch_seconds", "process"}
    assert all(late["time"] > early["time"] for early, late in zip(run.rows, run.rows[1:], strict=False))
