"""A store of November 2026, from before marin's modules moved into packages, is as good as a store of today."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from marin.store.inventory import Inventory
from marin.store.store import Store

MADE_BEFORE = Path(__file__).with_name("made_before")
STEPS = ["before-count/words", "before-write/text"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write the experiment in today's form, beside its old store."""
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


def test_what_is_made_again_or_deleted_is_so_and_nothing_of_before_is_written(project: Path) -> None:
    store, own = Store(str(project / "store")), project / "store/.marin"
    before = {path: path.read_bytes() for folder in ("records", "leases") for path in (own / folder).iterdir()}
    marin(project, "run", "exp7_before.py", "--rebuild", "before-count/words", "--backend", "inline")
    made = {record.name: record for record in Inventory(store).records.values()}
    assert sorted(made) == STEPS
    words = made["before-count/words"]
    assert (words.token, words.attempt[-5:]) == (2, ".0002"), "beside the old one"
    marin(project, "gc", "--now", "--delete")
    assert [path.name[-5:] for path in (project / "store/before-count").iterdir()] == [".0002"]
    marin(project, "gc", "before-write/text", "--even-if-read", "--delete")
    assert list(Inventory(store).records.values()) == [words]
    assert not list((project / "store/before-write").iterdir())
    assert {path: path.read_bytes() for path in before} == before
