"""A link to an issue leads to the repository of the experiment's file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from marin.steps.experiment_file import built_by, load_build
from marin.steps.scale import Scale
from tests.support.project import ROOT

FILE = """
from marin import Experiment
from tests.support.toy import Write

def build(scale):
    return Experiment(issue=7, question="Where?", results={"it": Write(text="a")})
"""


def issue_of(path: Path) -> str:
    build, source = load_build(str(path))
    return built_by(build, source, Scale.REHEARSAL).issue_url


@pytest.mark.parametrize(
    ("origin", "issue"),
    [
        ("git@github.com:ada/lab.git", "https://github.com/ada/lab/issues/7"),
        ("https://ada:token@github.com/ada/lab", "https://github.com/ada/lab/issues/7"),
        ("ssh://git@git.lab.org:2222/group/lab.git", "https://git.lab.org/group/lab/issues/7"),
        ("/srv/git/lab.git", ""),
        ("", ""),
    ],
)
def test_somebodys_own_leads_to_their_clones_origin(tmp_path: Path, origin: str, issue: str) -> None:
    folder = tmp_path / "lab"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    if origin:
        subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", origin], check=True)
    path = folder / f"exp7_{abs(hash(origin))}.py"
    path.write_text(FILE)
    assert issue_of(path) == issue


def test_marins_own_leads_to_marins() -> None:
    path = ROOT / "experiments/exp784_hq_anneal.py"
    assert issue_of(path) == "https://github.com/marin-community/marin/issues/784"
