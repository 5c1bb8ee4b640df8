"""Test ``marin compare`` on a store's scores and checkpoints. Published ones: tests/evaluation/test_side_by_side.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from marin import Checkpoint, Context, ExecutorStep, Report, Scores
from marin.cli.commands import main
from marin.cli.exits import Exit
from marin.evaluation.results import write_results
from tests.evaluation.test_comparison import shifted
from tests.support.toy import run


class Learnt(ExecutorStep[Checkpoint], op="toy-learnt-to-compare"):
    seed: int
    steps: int = 1

    def run(self, ctx: Context) -> Checkpoint:
        ctx.out.write_text("weights.txt", str(self.seed))
        return Checkpoint(step=1, tokens=1, parameters=1, architecture="toy", loss=0.5)


class Graded(ExecutorStep[Scores], op="toy-graded"):
    checkpoint: ExecutorStep[Checkpoint]
    shift: float

    def run(self, ctx: Context) -> Scores:
        write_results(ctx.out, shifted(self.shift))
        sample = {"target": "4", "arguments": {"gen_args_0": {"arg_0": "2+2="}}, "resps": [[f"about {self.shift}"]]}
        ctx.out.write_text("samples_sums.jsonl", json.dumps(sample) + "\n")
        return Scores(metrics={"gsm/olmes/bpb": 1.26 - self.shift / 50, "bpb/web": 2.0})


class Found(ExecutorStep[Report], op="toy-contamination-found"):
    arms: dict[str, ExecutorStep[Scores]]

    def run(self, ctx: Context) -> Report:
        report = {"members": "gsm", "vetoes": {"bison": ["gsm"]}, "exposure": {"bison": {"items": 4, "of": 64}}}
        ctx.out.write_text("report.json", json.dumps(report))
        return Report(headline=["found"])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    prefix = str(tmp_path_factory.mktemp("compare") / "store")
    bison, mantis = Learnt(seed=1, label="bison"), Learnt(seed=2, label="mantis")
    scores: dict[str, Any] = {
        "bison": Graded(checkpoint=bison, shift=0.0, label="bison"),
        "mantis": Graded(checkpoint=mantis, shift=5.0, label="mantis"),
    }
    runs = {f"hq-{seed}": Learnt(seed=seed, label=f"hq-{seed}") for seed in (4, 5, 6)}
    runs["longer"] = Learnt(seed=7, steps=2, label="longer")
    for number, (name, step) in enumerate(runs.items()):
        scores[f"scores {name}"] = Graded(checkpoint=step, shift=5.0 + number / 10, label=name)
    run(prefix, **scores, lonely=Learnt(seed=3, label="lonely"), found=Found(arms=scores, label="found"))
    return prefix


def compare(store: str, *arguments: str, expect: Exit = Exit.OK) -> Result:
    done = CliRunner().invoke(main, ["compare", *arguments, "--prefix", store], env={"COLUMNS": "200"})
    assert done.exit_code == expect, done.output
    return done


def test_arms_by_their_labels(store: str) -> None:
    said = compare(store, "mantis", "bison", "OLMo 2 32B").stdout
    assert "mantis: toy-graded/mantis " in said
    assert " of toy-learnt-to-compare/mantis, " in said
    assert "gsm8k" in said
    row = next(line for line in said.splitlines() if line.startswith("gsm/olmes/bpb"))
    assert row.split()[1:4] == ["1.160", "1.260*", "+0.100"]
    assert "* At gsm, bison was trained on 4 of its 64 test items: " in said
    assert "2+2=\nmantis:\nabout 5.0\nbison:\nabout 0.0\n" in said
    assert "their weights were not read: " in said
    assert "not over seeds" in said


def test_a_checkpoint_is_its_newest_scores_and_one_without_has_none(store: str) -> None:
    found: dict[str, Any] = json.loads(compare(store, "toy-learnt-to-compare/bison", "lonely", "--json").stdout)
    assert [bool(each["scores"]) for each in found["models"]] == [True, False]
    assert "which has no evaluation" in found["models"][1]["about"]
    assert found["models"][0]["read"] == {"gsm": "4 of its 64 test items"}
    rows = {row["metric"]: row for row in found["rows"]}
    assert rows["gsm/olmes/bpb"]["values"] == {"toy-learnt-to-compare/bison": 1.26}


@pytest.mark.parametrize("arm", ["hq=hq-4,hq-5,hq-6", "hq-*", "toy-graded/hq-*"])
def test_runs_of_one_arm_are_one_column(arm: str, store: str) -> None:
    said = compare(store, "bison", arm).stdout
    name = "toy-graded/hq" if "/" in arm else "hq"
    assert f"{name}: 3 runs: toy-graded/hq-4 " in said
    row = next(line for line in said.splitlines() if line.startswith("gsm/olmes/bpb"))
    assert row.split()[1:4] == ["1.260*", "1.158", "\N{MINUS SIGN}0.102"]
    assert "scored on, and over seeds." in said
    found = json.loads(compare(store, "bison", arm, "--json").stdout)
    assert [len(each["scores"]) for each in found["models"]] == [1, 3]
    row = next(row for row in found["rows"] if row["metric"] == "gsm/olmes/bpb")
    assert row["runs"] == {name: [1.16, 1.158, 1.156]}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("mantis", "bisen"), Exit.EXPERIMENT, "did you mean bison"),
        (("mantis", "qwen 2.5 31B"), Exit.EXPERIMENT, "Qwen 2.5 32B Base"),
        (("mantis", "found"), Exit.EXPERIMENT, "found is report"),
        (("mantis", "mantis"), Exit.EXPERIMENT, "twice"),
        (("mantis", "toy-graded"), Exit.EXPERIMENT, "fits 6"),
        (("mantis", "bison", "--parameters"), Exit.FAILED, "manifest.json"),
        (("mantis", "hq-4,longer"), Exit.EXPERIMENT, "differ in steps; runs of one arm may differ only in their seed"),
        (("mantis", "hq-4,hq-4"), Exit.EXPERIMENT, "one run is named twice"),
        (("mantis", "hq-4,lonely"), Exit.EXPERIMENT, "lonely has no evaluation"),
        (("mantis", "hq-4,OLMo 2 32B"), Exit.EXPERIMENT, "a published model is no run of an arm"),
        (("mantis", "hr-*"), Exit.EXPERIMENT, "is called 'hr-*'"),
    ],
)
def test_what_cannot_be_compared(store: str, arguments: tuple[str, ...], code: Exit, says: str) -> None:
    assert says in compare(store, *arguments, expect=code).stderr
