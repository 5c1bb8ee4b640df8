"""A store of November 2026, made before the modules of marin were moved into packages, is as good as one of today."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MADE_BEFORE = Path(__file__).with_name("made_before")
STEPS = ["before-count/words", "before-write/text"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The experiment as one would write it today, beside its old store."""
    return shutil.copytree(MADE_BEFORE, tmp_path / "project")


def marin(project: Path, command: str, *arguments: str) -> str:
    line = [sys.executable, "-m", "marin", command, *arguments, "--prefix", str(project / "store")]
    done = subprocess.run(line, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_nothing_has_drifted_although_the_artifacts_moved(project: Path) -> None:
    planned = json.loads(marin(project, "plan", "exp7_before.py", "--json"))
    assert {step["step"]: step["action"] for step in planned["steps"]} == dict.fromkeys(STEPS, "cached")


def test_a_change_of_its_code_is_named_as_ever(project: Path) -> None:
    source = project / "lib/operators.py"
    source.write_text(source.read_text().replace(".lower()", ".upper()"))
    said = marin(project, "plan", "exp7_before.py", "before-write/text")
    assert "lib.operators.cleaned changed" in said
    assert "marin.data.artifacts.Documents: moved, the code is the same" in said


def test_every_byte_is_right_and_every_command_reads_it(project: Path) -> None:
    marin(project, "audit", "--bytes")
    assert sorted(row["step"] for row in json.loads(marin(project, "ls", "--json"))) == STEPS
    assert "before-write/text" in marin(project, "lineage", "before-count/words")
