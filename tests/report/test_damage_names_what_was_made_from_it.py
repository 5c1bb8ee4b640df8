"""Test that ``marin audit --bytes`` names the outputs that were built from damaged bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import STORE_ERROR, Command
from tests.executor.test_inputs_are_verified import flip
from tests.support.project import EXPERIMENT, Project

CHAIN = EXPERIMENT.replace(
    '"end": Repeat(source=say, label="repeat")',
    '"end": Repeat(source=Repeat(source=say, label="once"), label="twice"), "other": Say(text="x", label="other")',
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project", CHAIN)
    made.run()
    return made


def damage(project: Project, name: str) -> None:
    (text,) = (
        path.parents[1] / "text.txt"
        for path in project.store.glob("*/*/.marin/record.json")
        if json.loads(path.read_text())["label"] == name
    )
    flip(text)


def made_from_damage(project: Project) -> list[list[str]]:
    """Return, for each damaged output, the labels of the outputs that were built from it."""
    told = json.loads(Command(project).verify("--json", expect=STORE_ERROR))["bytes"]
    named = [each["made_from_it"] for each in told["wrong"].values()]
    return [[name.partition(" ")[0].partition("/")[2] for name in names] for names in named]


def test_the_outputs_built_from_it_are_named_nearest_first(project: Project) -> None:
    damage(project, "say")
    assert made_from_damage(project) == [["once", "twice"]]
    said = Command(project).verify(expect=STORE_ERROR)
    assert "made from it: repeat/once" in said
    assert "--rebuild" in said
    assert "marin revoke" in said


def test_what_does_not_read_it_is_not_named(project: Project) -> None:
    damage(project, "once")
    assert made_from_damage(project) == [["twice"]]
    damage(project, "once")
    damage(project, "other")
    assert made_from_damage(project) == [[]]
