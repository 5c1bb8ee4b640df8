"""When the detectors see contamination and bad shuffles, and when they cry wolf."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin import Report, Scores
from marin.errors import BadField
from marin.evaluation.exposure import Reads, write_reads
from marin.evaluation.formats import Format
from marin.evaluation.results import ItemResult, Results, write_results
from marin.report.page.model import ExperimentPage
from marin.report.page.render import render
from marin.report.section import Page
from marin.store.files.directory import Directory
from operators.dose_response import DoseResponse
from operators.pages import dose_response, shuffle_power
from operators.shuffle_power import ShufflePower, Source
from tests.operators.running import Given, run_step
from tests.report.reading import Reading

DOSES, SEEDS = (0, 1, 64), 2
LEAKED = [f"gsm-{number}" for number in range(6)]
PARENT = Given(name_of_input="parent")
RUNS = {dose: tuple(Given(name_of_input=f"dose-{dose}-{seed}") for seed in range(SEEDS)) for dose in DOSES}
COUNTS = {dose: tuple(Given(name_of_input=f"count-{dose}-{seed}") for seed in range(SEEDS)) for dose in DOSES if dose}


def scores(where: Path, seed: int, saved: Mapping[Format, float]) -> Any:
    """60 test and 60 reference items; the leaked ones cost so many bits less in each form."""
    luck = np.random.default_rng(seed)
    items = {
        (task, form): [
            ItemResult(task, form.value, f"{task}-{n}", 100 + luck.normal(0, 2) - (saved[form] if leaks else 0), 100,
                       10.0, 5, 0.0, 0, 4.0, 2, bool(luck.random() < 0.25) if task == "gsm" else None, None)
            for n in range(60)
            for leaks in [f"{task}-{n}" in LEAKED]
        ]
        for task in ("gsm", "gsm_reference")
        for form in Format
    }  # fmt: skip
    write_results(Directory(str(where)), Results(items))
    return Scores(metrics={}).at(Directory(str(where)))


def counted(where: Path, dose: int) -> Any:
    parts = {name: {"question": float(dose), "answer": float(dose)} for name in LEAKED}
    reads = {f"gsm-{n}": dose if f"gsm-{n}" in LEAKED else 0 for n in range(60)}
    write_reads(
        Directory(str(where)),
        Reads(first=0, end=9, sequences=9, of_sources={"leaked": 9}, holding={"leaked": 9}, reads=reads, parts=parts,
              unindexed=[]),
    )  # fmt: skip
    return Report(headline=[]).at(Directory(str(where)))


@pytest.fixture
def inputs(tmp_path: Path) -> dict[Any, Any]:
    nothing = dict.fromkeys(Format, 0.0)
    much = {Format.OLMES: 60.0, Format.LM_EVAL: 0.0}  # read in one form alone
    made: dict[Any, Any] = {PARENT: scores(tmp_path / "parent", 99, nothing)}
    for dose, runs in RUNS.items():
        for seed, run in enumerate(runs):
            made[run] = scores(tmp_path / f"{dose}-{seed}", 10 * dose + seed, much if dose == 64 else nothing)
            if dose:
                made[COUNTS[dose][seed]] = counted(tmp_path / f"count-{dose}-{seed}", dose)
    return made


def page(section: Any, made: Any) -> str:
    shown = section(None, made.directory, Page(arms=(), store=""))
    return render(ExperimentPage(title="t", question="", sections=[shown]))


def test_a_detector_sees_from_the_least_dose_at_which_every_seed_is_flagged(
    inputs: dict[Any, Any], tmp_path: Path
) -> None:
    made = run_step(DoseResponse(parent=PARENT, doses=RUNS, exposure=COUNTS), inputs, tmp_path)
    report = json.loads(made.directory.read_text("report.json"))
    sees = {name: each["sees_from"] for name, each in report["detectors"].items()}
    assert sees["items read against items unread (OLMES prompts)"] == 64
    assert sees["items read against items unread (LM-Eval prompts)"] is None
    assert sees["accuracy above the parent's (OLMES prompts)"] is None
    assert {each["false_alarms"] for each in report["detectors"].values()} == {0}
    assert report["finding"] == "found"
    first, seen, *_ = report["verdict"].split(". ")
    assert first == (
        "Counting what was read finds leaked test items from 1 read of each on; "
        "scores show them from 64 reads of each on"
    )
    assert seen.startswith("From 64 reads of each on: items read against items unread (OLMES prompts)")
    assert "accuracy above the parent's. 6 of 60 items were leaked." in report["verdict"]  # in neither prompt form
    assert report["verdict"].endswith(f"Of {2 * len(sees)} tests of runs that read none, none gave a false alarm.")
    shown = Reading(page(dose_response.section, made))
    assert "64 ×" in str(shown.data)
    assert "Counting what was read finds leaked test items" in shown.text


def test_a_clean_run_that_is_flagged_is_a_false_alarm(inputs: dict[Any, Any], tmp_path: Path) -> None:
    inputs[RUNS[0][0]] = scores(tmp_path / "odd", 5, dict.fromkeys(Format, 60.0))
    made = run_step(DoseResponse(parent=PARENT, doses=RUNS, exposure=COUNTS), inputs, tmp_path)
    report = json.loads(made.directory.read_text("report.json"))
    assert report["detectors"]["items read against items unread (OLMES prompts)"]["false_alarms"] == 1
    assert report["finding"] == "inconclusive"


@pytest.mark.parametrize(
    ("doses", "exposure", "message"),
    [
        ({1: RUNS[1]}, {1: COUNTS[1]}, "doses are 1; wanted 0"),
        ({0: RUNS[0]}, {}, "doses are 0; wanted 0"),
        (RUNS, {1: COUNTS[1]}, r"exposure has seeds \{1: 2\} by dose; wanted .*64: 2"),
    ],
)
def test_doses_that_cannot_be_meant(doses: Any, exposure: Any, message: str) -> None:
    with pytest.raises(BadField, match=message):
        DoseResponse(parent=PARENT, doses=doses, exposure=exposure)


def test_linear_walks_are_seen_and_true_shuffles_are_not(tmp_path: Path) -> None:
    step = ShufflePower(sources={"files": Source(length=100_000, drawn=64, file=1000)}, seeds=60)
    made = run_step(step, {}, tmp_path)
    report = json.loads(made.directory.read_text("report.json"))
    walks: dict[str, dict[str, Any]] = report["sources"]["files"]["walks"]
    seen = {kind: each["clumped"] + each["even"] for kind, each in walks.items()}
    assert seen["linear"] > 0.6
    assert seen["true shuffle"] == seen["splitmix"] == 0
    assert seen["feistel"] < 0.1
    assert report["finding"] == "found"
    assert "of 60 true shuffles none, which would be false alarms. Linear walks: " in report["verdict"]
    assert "files: 100,000 sequences" in page(shuffle_power.section, made)
    assert (
        run_step(step, {}, tmp_path / "again").directory.read_text("report.json")
        == json.dumps(report, indent=1, sort_keys=True) + "\n"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sources": {}}, "sources is empty"),
        ({"sources": {"x": Source(length=100, drawn=64, file=10)}}, r"sources\['x'\]: 8 batches of 64 from 100"),
        ({"sources": {"x": Source(length=9000, drawn=4, file=1)}}, "in files of 1;"),
        ({"sources": {"x": Source(length=9000, drawn=4, file=9)}, "seeds": 3}, "seeds 3"),
    ],
)
def test_sources_that_cannot_be_walked(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadField, match=message):
        ShufflePower(**fields)
