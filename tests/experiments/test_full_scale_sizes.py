"""The 32B's cooldown, planned for real on a store that a rehearsal was run in."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import Command
from tests.support.project import ROOT, Project

OVER = 6
MANTIS = str(ROOT / "experiments/exp1529_mantis.py")
# Outputs of the same operators and labels, as small as a rehearsal's, without its training.
STAND_IN = '''
"""Does it run?"""
from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob


class Tokens(ExecutorStep[Blob], op="tokenize"):
    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("tokens.bin", "few")
        return Blob(bytes=1)


class Training(ExecutorStep[Blob], op="train"):
    tokens: ExecutorStep[Blob]
    seq_len: int = 128

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("checkpoint.json", "small")
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    tokens = Tokens(label="nemotron_cc/medium")
    return Experiment(issue=1, question=__doc__, results={"end": Training(tokens=tokens, label="mantis")})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.fixture
def rehearsed(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", STAND_IN)
    project.run()
    return project


def test_its_sizes_are_the_real_things(rehearsed: Project) -> None:
    where = (MANTIS, "--scale", "full", "--prefix", str(rehearsed.store))
    told: dict[str, Any] = json.loads(Command(rehearsed)("plan", *where, "--json"))
    steps = {held["step"]: held for held in told["steps"]}
    for name in ("train/mantis", "tokenize/nemotron_cc/medium"):
        assert steps[name]["reason"] == "never built at this scale"
    parameters = 32.5e9  # "32B", by the retrospective's table of sizes
    kept = 2  # the checkpoints at the end and at step 180,000
    assert steps["train/mantis"]["cost"]["writes"]["bytes"] == pytest.approx(kept * 16 * parameters, rel=0.01)
    # 3.38 of the 10.7 TiB that hold 6.3 T tokens, four bytes a token.
    medium = steps["tokenize/nemotron_cc/medium"]["cost"]["writes"]
    assert medium["bytes"] == pytest.approx(4 * 6.3e12 * 3.38 / 10.707, rel=0.01)
    assert (
        kept * steps["milestone/32b-qwen3@160000"]["cost"]["writes"]["bytes"]
        == (steps["train/mantis"]["cost"]["writes"]["bytes"])
    )


def test_the_gate_stops_it(rehearsed: Project) -> None:
    where = (MANTIS, "--scale", "full", "--prefix", str(rehearsed.store))
    far = ("--region", "gcp/us-central2", "--store-region", "gcp/us-east5", "--egress-budget", "1TiB")
    said = Command(rehearsed)("plan", *where, *far, expect=OVER)
    assert "the budget is 1.0 TiB" in said
    assert "train/mantis" in said
