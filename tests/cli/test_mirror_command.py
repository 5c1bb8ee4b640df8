"""Test ``marin mirror``: its report before the copy, the outputs that it leaves out, its exit codes."""

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import DRIFT, EXPERIMENT_ERROR, STORE_ERROR, USAGE, Command
from tests.support.project import Project
from tests.support.servers import Act, Operation, Rule, StoreServer


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def marin(project: Project) -> Command:
    command = Command(project)
    command.on("run", "--backend", "inline")
    return command


def test_it_says_what_it_copies_and_the_experiment_runs_nothing_there(
    project: Project, marin: Command, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    where = ("--from", str(project.store), "--to", str(there))
    said = marin("mirror", "repeat", "--with-inputs", "--dry-run", *where)
    assert "say/say" in said
    assert "nothing was copied" in said
    assert not there.exists()
    plan = json.loads(marin("mirror", "repeat", "--with-inputs", "--dry-run", "--json", *where))
    assert [held["step"] for held in plan["todo"]] == ["say/say", "repeat/repeat"]
    said = marin("mirror", "repeat", "--with-inputs", *where)
    assert "2 outputs mirrored" in said
    assert "every byte verified" in said
    again = json.loads(marin("mirror", "repeat", "--with-inputs", "--json", *where))
    assert (len(again["there"]), again["todo"], again["bytes"]) == (2, [], 0)
    steps = json.loads(marin("plan", str(project.file), "--prefix", str(there), "--json"))["steps"]
    assert {held["action"] for held in steps} == {"cached"}
    [told] = json.loads(marin("plan", str(project.file), "repeat", "--prefix", str(there), "--json"))
    [origin] = told["committed"]["mirrored"]
    assert origin["origin"].startswith(f"{project.store}/repeat/repeat-")
    # The target knows the code of a mirrored output, so it can explain a change by its source.
    project.edit("MARK * times", "MARK * times * 2")
    said = marin("plan", str(project.file), "say", "--prefix", str(there))
    assert "MARK * times * 2" in said
    assert f"mirrored from {project.store}/say/say-" in said


def test_the_way_is_said_before_and_a_bucket_that_does_not_say_where_it_is_is_no_obstacle(
    project: Project, marin: Command, request: pytest.FixtureRequest
) -> None:
    server: StoreServer = request.getfixturevalue("_s3")
    server.obey()
    first, second = server.new_bucket("eu-west-1"), server.new_bucket("eu-west-1")
    up = marin("mirror", "say/say", "--from", str(project.store), "--to", first)
    assert "local → aws/eu-west-1" in up
    assert "within aws/eu-west-1" in marin("mirror", "say", "--from", first, "--to", second, "--dry-run")
    back = marin("mirror", "say", "--from", first, "--to", f"{project.store}-2", "--dry-run")
    assert "aws/eu-west-1 → local" in back
    server.obey(Rule(Act.ANSWER, operations=[Operation.OTHER], status=403))
    assert "a region is unknown" in marin("mirror", "say", "--from", first, "--to", f"{project.store}-2")
    server.obey()


def test_what_goes_wrong_has_its_exit_code(project: Project, marin: Command, tmp_path: Path) -> None:
    where = ("--from", str(project.store), "--to", str(tmp_path / "there"))
    assert "--to" in marin("mirror", "say", expect=USAGE)
    assert "did you mean say" in marin("mirror", "sya", *where, expect=EXPERIMENT_ERROR)
    assert "no store" in marin("mirror", "say", "--from", "nowhere", *where[2:], expect=STORE_ERROR)
    [output] = (project.store / "say").iterdir()
    whole = (output / "text.txt").read_text()
    (output / "text.txt").write_text(whole.lower())
    assert "text.txt differs from its manifest" in marin("mirror", "say", *where, expect=STORE_ERROR)
    (output / "text.txt").write_text(whole)
    marin("revoke", "say/say", "--because", "too loud", "--prefix", str(project.store))
    marin("mirror", "repeat", *where, expect=DRIFT)
    marin("revoke", "say/say", "--withdraw", "--because", "not that loud", "--prefix", str(project.store))
    marin("mirror", "say", *where)
