"""Experiment 1529 for real, on Ray: killed in the middle of training, run again, then run once more."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.exp1395_qwen3 import build as build_exp1395
from experiments.exp1529_mantis import build
from marin.steps.scale import Scale
from marin.store.inventory import Inventory
from marin.store.store import Store, open_store
from marin.training.checkpoint import complete_steps
from operators.datasets.rehearsal.python_text import PydocPages
from operators.train import Train

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]


def start(store: str, experiment: str = "exp1529_mantis") -> subprocess.Popen[str]:
    """The README's command, on another store."""
    command = [sys.executable, f"experiments/{experiment}.py", "--prefix", store]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def finish(store: str, experiment: str = "exp1529_mantis") -> str:
    process = start(store, experiment)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    return said


def committed(store: Store) -> dict[str, str]:
    """Attempt of every committed step, by identity."""
    return {identity: record.attempt for identity, record in Inventory(store).records.items()}


def rows(store: Store, label: str) -> list[dict[str, Any]]:
    step = next(s for s in build(Scale.REHEARSAL).steps() if s.op == "train" and s.label == label)
    record = store.record(step.identity)
    assert record is not None
    return [json.loads(line) for line in store.output(record).read_text("metrics.jsonl").splitlines()]


def cut_off(prefix: str) -> list[dict[str, str]]:
    """Raise the version of the operator that renders web pages (a download), run, and return each step's outcome.

    The run has a new process, because importing a module builds its sources.
    """
    program = """
import sys
from operators.datasets.rehearsal.python_text import PydocPages
PydocPages.version += 1
from experiments.exp1529_mantis import build
from marin.cli.experiment_main import executor_main
executor_main(build, ["--prefix", sys.argv[1], "--backend", "inline"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program, prefix], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    latest = max(Path(prefix, ".marin/runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    events = [json.loads(line) for line in latest.read_text().splitlines()]
    return [event for event in events if event["event"] == "ended" and "step" in event]


def test_it_stays_small() -> None:
    """Three minutes on two quiet cores; here by its work, since a clock measures what else the machine does."""
    trainings = [step for step in build(Scale.REHEARSAL).steps() if isinstance(step, Train)]
    assert len(trainings) <= 4
    assert sum(step.flops() for step in trainings) < 4e12


def test_killed_in_training_it_goes_on_and_then_nothing_runs(tmp_path: Path) -> None:
    prefix = str(tmp_path / "store")
    store = open_store(prefix)
    steps = build(Scale.REHEARSAL).steps()
    qwen = next(step for step in steps if step.op == "train" and step.label == "32b-qwen3")
    checkpoints = store.state(qwen.identity) / "checkpoints"

    first = start(prefix)
    while not complete_steps(checkpoints):
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.2)  # a poll, bounded by the test's own limit
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    before = committed(store)
    assert qwen.identity not in before

    said = finish(prefix)
    after = committed(store)
    assert after.keys() == {step.identity for step in steps}
    assert {identity: after[identity] for identity in before} == before, "a committed output was made again"
    assert [row["step"] for row in rows(store, "32b-qwen3")] == list(range(80, 160))
    assert rows(store, "32b-qwen3")[-1]["loss"] < rows(store, "32b-llama")[0]["loss"] - 2
    assert "gsm/lm_eval/bpb" in said
    assert "on math text mantis is 0.537 bits/byte below bison" in said
    page = Path(prefix, ".marin/pages/exp1529_mantis-rehearsal.html").read_text()
    assert all(step.name.split("/", 1)[1] in page for step in steps)

    contamination = next(step for step in steps if step.op == "contamination-evidence")
    record = store.record(contamination.identity)
    assert record is not None
    report = json.loads(store.output(record).read_text("report.json"))
    assert report["exposure"]["bison"]["items"] > 0, "the contaminated arm read no test item"
    assert report["exposure"]["mantis"]["items"] == 0, "decontamination let a test item through"
    assert report["vetoes"] == {"bison": ["gsm"]}

    again = finish(prefix)
    assert f"{len(steps)} steps" in again
    assert f"{len(steps)} cached" in again
    assert committed(store) == after

    finish(prefix, "exp1395_qwen3")
    new = {step.name for step in build_exp1395(Scale.REHEARSAL).steps() if step.identity not in after}
    trained = {step.name for step in build_exp1395(Scale.REHEARSAL).steps() if step.op == "train"}
    assert trained & new == {"train/32b-llama-on"}, "it trains again what experiment 1529 has trained"
    assert committed(store).keys() == {*after, *(step.identity for step in build_exp1395(Scale.REHEARSAL).steps())}

    ended = cut_off(prefix)
    rendered = {step.name for step in steps if isinstance(step, PydocPages)}
    assert {event["step"] for event in ended if event["status"] == "ran"} == rendered, "equal bytes cost more than that"
    aliased = {event["step"].split("/")[0] for event in ended if event["status"] != "ran"}
    assert {"tokenize", "train", "milestone", "evaluate", "compare"} <= aliased
    assert all(event["status"] in ("ran", "alias") for event in ended)
