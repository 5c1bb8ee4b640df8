"""The same change that stops many steps is one row of the plan, with a count and some names."""

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import DRIFT, Command
from tests.support.project import EXPERIMENT, Project

MANY = EXPERIMENT.replace(
    'return Experiment(issue=1, question=__doc__, results={"end": Repeat(source=say, label="repeat")})',
    """others = {f"say{n:02}": Say(text=f"hello {n}", label=f"say {n:02}") for n in range(40)}
    return Experiment(issue=1, question=__doc__, results={"end": Repeat(source=say, label="repeat"), **others})""",
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", MANY)
    project.run()
    project.edit('MARK = "!"', 'MARK = "?"')
    return project


def test_one_row_for_all_that_one_change_stops(project: Project) -> None:
    marin = Command(project)
    said = marin.on("plan", "--every-step", expect=DRIFT)
    assert said.count("stop  ") == 41
    said = marin.on("plan", expect=DRIFT)
    (row,) = [line for line in said.splitlines() if line.startswith("stop")]
    assert "say/… × 41" in row
    assert said.count("lib.words.MARK changed") == 1
    assert "say/say, say/say 00, say/say 01 and 38 more" in said
    assert "41 stop" in said
    told = json.loads(marin.on("plan", "--json", expect=DRIFT))
    assert sum(step["action"] == "stop" for step in told["steps"]) == 41


def test_steps_that_another_change_stops_have_a_row_of_their_own(project: Project) -> None:
    project.file.write_text(project.file.read_text().replace('read_text("text.txt") * 2', 'read_text("text.txt") * 3'))
    said = Command(project).on("plan", expect=DRIFT)
    rows = [line for line in said.splitlines() if line.startswith("stop")]
    assert len(rows) == 2
    assert any("repeat/repeat" in row for row in rows)
