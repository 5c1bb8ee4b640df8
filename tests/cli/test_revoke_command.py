"""Test ``marin revoke``: it names the untrusted outputs, plans refuse them, and a user can withdraw it."""

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import DRIFT, EXPERIMENT_ERROR, Command
from tests.support.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def marin(project: Project) -> Command:
    command = Command(project)
    command.on("run", "--backend", "inline")
    return command


def test_what_was_made_from_it_is_named_and_refused_until_it_is_taken_back(project: Project, marin: Command) -> None:
    where = ("--prefix", str(project.store))
    tried = json.loads(marin("revoke", "say/say", "--because", "loud", "--dry-run", "--json", *where))
    assert [held["step"] for held in tried["the_same_bytes"]] == ["say/say"]
    assert [held["step"] for held in tried["other_outputs_made_from_it"]] == ["repeat/repeat"]
    marin.on("plan")  # nothing was recorded
    said = marin("revoke", "say/say", "--because", "loud", *where)
    assert "repeat/repeat" in said
    steps = {held["step"]: held for held in marin.json("plan", expect=DRIFT)["steps"]}
    assert {held["action"] for held in steps.values()} == {"stop"}
    assert "loud" in steps["repeat/repeat"]["reason"]
    marin("revoke", "say/say", "--withdraw", "--because", "not that loud", *where)
    marin.on("plan")


def test_what_cannot_be_meant_is_refused_and_nothing_is_recorded(project: Project, marin: Command) -> None:
    where = ("--prefix", str(project.store))
    for arguments, says in (
        (("say/sya", "--because", "x"), "did you mean say/say"),
        (("say/say",), "--because"),
        (("say/say", "--because", "x", "--replace-with", "repeat/repeat"), "cannot be the replacement: made from"),
        (("say/say", "--because", "x", "--withdraw"), "is not revoked"),
    ):
        assert says in marin("revoke", *arguments, *where, expect=EXPERIMENT_ERROR)
    marin.on("plan")
