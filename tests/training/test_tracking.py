"""Runs shown by W&B, in files that it syncs later, and by trackio, in its own database."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from marin.store.files.directory import Directory
from marin.training.metrics import read_metrics
from marin.training.process import Listeners, run_training
from marin.training.tracking import Tracked
from tests.support.project import EXPERIMENT, Project
from tests.training.runs import small_spec

WROTE = [{"step": 3, "prompt": "Once", "greedy": " upon a time", "sampled": " there"}]
ROWS = [
    {"step": step, "loss": 4.0 - step, "grad_norm": 1.5, "clipped": step == 1, "sources": {"web": 3}, "seconds": 0.1}
    for step in range(3)
]
TRACK = """
import json, sys
from marin.training.tracking import Tracked, tracking
run, config, rows, wrote = json.load(sys.stdin)
notes = []
with tracking(Tracked(**run), config, notes.append) as track:
    for row in rows:
        track(row, wrote if row["step"] == 2 else [])
print("notes", json.dumps(notes))
"""


def tracked(
    tracker: str,
    rows: list[dict[str, Any]],
    folder: Path,
    config: str = "{}",
    *,
    code: str = TRACK,
    arguments: Sequence[str] = (),
    **variables: str,
) -> list[str]:
    """Track rows in a new process, and return its notes."""
    run = {"tracker": tracker, "name": "mantis", "identity": "ab" * 32}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        input=json.dumps([run, config, rows, WROTE]),
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "TRACKIO_DIR": str(folder / "trackio"), **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("notes ")]
    return json.loads(line.removeprefix("notes "))


def test_wandb_offline_files_hold_the_run(tmp_path: Path) -> None:
    config = json.dumps({"seed": 7, "state": "https://user:secret@host/"})
    notes = tracked(
        "wandb", ROWS, tmp_path, config, WANDB_MODE="offline", WANDB_PROJECT="ours", WANDB_DIR=str(tmp_path)
    )
    assert notes == []
    [file] = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    assert file.name == f"run-{'ab' * 8}.wandb"
    held = file.read_bytes()
    for word in (b"mantis", b"ours", b"grad_norm", b"sources/web", b"seed", b"what it writes"):
        assert word in held
    assert b"secret" not in held
    [table] = tmp_path.glob("wandb/offline-run-*/files/media/table/*.json")
    assert json.loads(table.read_text())["data"] == [list(WROTE[0].values())]


def metrics(folder: Path, project: str = "marin") -> dict[int, dict[str, Any]]:
    [file] = folder.rglob(f"{project}.db")
    with closing(sqlite3.connect(file)) as database:
        return {step: json.loads(held) for step, held in database.execute("select step, metrics from metrics")}


def test_trackio_holds_the_run_and_goes_on_where_it_was_resumed(tmp_path: Path) -> None:
    assert tracked("trackio", ROWS[:2], tmp_path) == []
    assert tracked("trackio", ROWS[2:], tmp_path) == []
    found = metrics(tmp_path)
    assert {step: row["loss"] for step, row in found.items()} == {0: 4.0, 1: 3.0, 2: 2.0}
    assert (found[1]["clipped"], found[1]["sources/web"]) == (True, 3)
    assert found[2]["what it writes"]["_value"] == WROTE


@pytest.mark.parametrize(
    ("tracker", "variables", "says"),
    [
        (
            "wandb",
            {"WANDB_MODE": "online", "WANDB_API_KEY": "", "WANDB_BASE_URL": "http://127.0.0.1:9"},
            "wandb does not track",
        ),
        ("trackio", {"TRACKIO_SERVER_URL": "nowhere"}, "trackio does not track"),
        ("no_such_tracker", {}, "ModuleNotFoundError"),
    ],
)
def test_a_tracker_that_fails_is_noted_once_and_stops_nothing(
    tracker: str, variables: dict[str, str], says: str, tmp_path: Path
) -> None:
    [note] = tracked(tracker, ROWS, tmp_path, **variables)
    assert says in note
    assert "metrics.jsonl has every step" in note


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


FILLS = TRACK.replace("print(", "        fill()\nprint(", 1).replace(
    "notes = []",
    """notes = []
def fill():
    try:
        with open(sys.argv[1] + "/fill", "ab", buffering=0) as file:
            while file.write(bytes(4096)): pass
    except OSError: pass""",
)


@pytest.mark.parametrize("tracker", ["wandb", "trackio"])
def test_a_disk_that_fills_in_the_middle_of_a_run_is_noted_once(tracker: str, small_disk: Path, tmp_path: Path) -> None:
    """Neither tracker raises anything then."""
    folder = str(small_disk)
    variables = {"WANDB_MODE": "offline", "WANDB_DIR": folder, "TRACKIO_DIR": folder}
    [note] = tracked(tracker, ROWS, tmp_path, code=FILLS, arguments=[folder], **variables)
    assert note.startswith(f"{tracker} may lack this run's steps from 1 on: No space left on device in {folder}")


@pytest.mark.slow
def test_a_training_is_tracked_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    spec = small_spec(
        tmp_path / "run", end_step=3, tracked=Tracked(tracker="trackio", name="small", identity="cd" * 32)
    )
    assert run_training(spec, tmp_path / "training.log", Listeners()).notes == []
    found = metrics(tmp_path)
    for row in read_metrics(Directory(spec.state)):
        assert found[row["step"]]["loss"] == row["loss"]
        assert found[row["step"]]["learning_rate"] == row["learning_rate"]
    assert sorted(found) == [0, 1, 2]


TELLING = EXPERIMENT.replace("shout(self.text)", "f'tracked by {ctx.tracker}'")


def test_a_run_tells_its_steps_what_tracks_them(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", TELLING)
    for options, said in (((), "tracked by "), (("--track", "trackio", "--rebuild", "say"), "tracked by trackio")):
        project.run(*options)
        newest = max(project.store.glob("say/*/text.txt"), key=lambda path: path.stat().st_mtime_ns)
        assert newest.read_text() == said


def test_a_tracker_that_is_not_installed_is_refused_before_anything_runs(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    (project.folder / "sitecustomize.py").write_text(
        "import importlib.util as util\nfound = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'trackio' else found(name, *more)\n"
    )
    done = subprocess.run(
        [sys.executable, "exp1_toy.py", "--backend", "inline", "--track", "trackio"],
        cwd=project.folder, env=project.environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "pip install 'marin[track]'" in done.stderr
    assert not project.store.exists()
