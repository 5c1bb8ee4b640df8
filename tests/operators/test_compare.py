"""Compare of arms that lm-evaluation-harness scored: its own files, item by item, give paired differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from marin.data.artifacts import Scores
from marin.errors import CorruptOutput
from marin.report.section import Page
from marin.store.files.directory import Directory
from operators.compare import Compare
from operators.pages.compare import section
from tests.operators.running import Given, run_step

BISON, MANTIS, LEAK = (Given(name_of_input=name) for name in ("bison", "mantis", "leak"))
STRICT, PERPLEXITY = "gsm8k/exact_match,strict-match", "lambada_openai/perplexity"


def scored(where: Path, right: Sequence[bool]) -> Scores:
    """Write scores as EvaluateTasks does: GSM8K by item, and a perplexity that is not the mean of its logged items."""
    rows: dict[str, list[dict[str, Any]]] = {
        "gsm8k": [
            {"filter": "strict-match", "metrics": ["exact_match"], "exact_match": float(held), "resps": [["4"]]}
            for held in right
        ],
        "lambada_openai": [
            {"filter": "none", "metrics": ["perplexity"], "perplexity": -1.5, "resps": [[[-1.5, False]]]} for _ in right
        ],
    }
    for task, each in rows.items():
        lines = [
            json.dumps(
                {"doc_id": at, "doc_hash": "x", "target": "4", "arguments": {"gen_args_0": {"arg_0": "q"}}, **row}
            )
            for at, row in enumerate(each)
        ]
        Directory(str(where)).write_text(f"{task}/samples_{task}_1970-01-01T00-00-00.jsonl", "\n".join(lines) + "\n")
    metrics = {STRICT: fmean(right), PERPLEXITY: 4.48}
    Directory(str(where)).write_text("scores.json", json.dumps({"metrics": metrics, "stderr": {}}))
    made: Any = Scores(metrics=metrics).at(Directory(str(where)))
    return made


def test_items_that_the_harness_scored_are_compared_one_by_one(tmp_path: Path) -> None:
    """Fourteen items more are right and none that was right before is wrong: paired, that is shown."""
    first, second = [True] * 20 + [False] * 80, [True] * 34 + [False] * 66
    inputs: Any = {BISON: scored(tmp_path / "a", first), MANTIS: scored(tmp_path / "b", second)}
    arms = {"bison": BISON, "mantis": MANTIS}
    report = run_step(Compare(arms=arms, baseline="bison", primary=(STRICT,)), inputs, tmp_path)
    [row] = json.loads(report.directory.read_text("report.json"))["rows"]
    assert (row["metric"], row["values"]) == (STRICT, {"bison": 0.2, "mantis": 0.34})
    difference = row["differences"]["mantis"]
    assert difference["value"] == pytest.approx(0.14)
    assert 0.05 < difference["low"] < 0.14 < difference["high"] < 0.23
    assert difference["shown"]
    assert report.headline[0].startswith("mantis is better than bison on all that it is judged on: gsm8k")


def test_two_arms_of_one_output_are_said_to_be_the_same_model(tmp_path: Path) -> None:
    """marin makes steps of equal bytes once: a filter that takes nothing out leaves one training."""
    one = scored(tmp_path / "a", [True, False, True])
    report = run_step(Compare(arms={"all": BISON, "kept": MANTIS}, baseline="all"), {BISON: one, MANTIS: one}, tmp_path)
    said = "all and kept are the same model: they read the same text."
    assert json.loads(report.directory.read_text("report.json"))["answer"] == [said]
    step = Compare(arms={"all": BISON, "kept": MANTIS}, baseline="all")
    assert section(step, report.directory, Page(arms=(), store=str(tmp_path))).answer == said


def test_what_an_arm_has_read_is_starred_there_too(tmp_path: Path) -> None:
    inputs: Any = {BISON: scored(tmp_path / "a", [True] * 9 + [False]), MANTIS: scored(tmp_path / "b", [False] * 10)}
    Directory(str(tmp_path / "leak")).write_text("report.json", json.dumps({"vetoes": {"bison": ["gsm8k"]}}))
    leak: Any = run_step(Compare(arms={"bison": BISON, "mantis": MANTIS}, baseline="bison"), inputs, tmp_path)
    leak = type(leak)(headline=["bison was flagged."]).at(Directory(str(tmp_path / "leak")))
    step = Compare(arms={"bison": BISON, "mantis": MANTIS}, baseline="bison", evidence={"leak": LEAK})
    report = run_step(step, {**inputs, LEAK: leak}, tmp_path)
    [row] = json.loads(report.directory.read_text("report.json"))["rows"]
    assert row["contaminated"] == ["bison"]
    assert "bison had read its test items*" in report.headline[0]


def test_runs_of_other_items_are_not_compared(tmp_path: Path) -> None:
    inputs: Any = {BISON: scored(tmp_path / "a", [True, False, True]), MANTIS: scored(tmp_path / "b", [True, False])}
    with pytest.raises(
        CorruptOutput, match=r"strict-match: arm mantis and baseline bison were scored on different tex"
    ):
        run_step(Compare(arms={"bison": BISON, "mantis": MANTIS}, baseline="bison"), inputs, tmp_path)
