"""Test that ``marin status`` lists steps that fail now, not failures that are over."""

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import Command
from tests.support.project import EXPERIMENT, Project

FAILING = EXPERIMENT.replace(
    "class Repeat",
    """class Break(ExecutorStep[Blob], op="break"):
    text: str

    def run(self, ctx: Context) -> Blob:
        if self.text == "bad":
            raise ValueError("it is bad")
        ctx.out.write_text("text.txt", self.text)
        return Blob(bytes=1)


class Repeat""",
).replace('results={"end"', 'results={"broken": Break(text="bad", label="broken"), "end"')
BROKEN = '"broken": Break(text="bad", label="broken"), '


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", FAILING)
    project.run(expect=1)
    assert failing(project) == ["break/broken"]
    return project


def failing(project: Project) -> list[str]:
    told = json.loads(Command(project)("status", "--prefix", str(project.store), "--json"))
    return [row["step"] for row in told["steps"] if row["status"] == "failed"]


def rewrite(project: Project, old: str, new: str) -> None:
    source = project.file.read_text()
    assert old in source
    project.file.write_text(source.replace(old, new))


def test_a_step_that_succeeded_later_under_another_identity(project: Project) -> None:
    rewrite(project, 'text="bad"', 'text="good"')
    project.run()
    assert failing(project) == []


def test_a_step_that_fails_again_under_another_identity_fails_once(project: Project) -> None:
    rewrite(
        project,
        "    text: str\n\n    def run(self, ctx: Context) -> Blob:\n        if",
        "    text: str\n    n: int = 1\n\n    def run(self, ctx: Context) -> Blob:\n        if",
    )
    project.run(expect=1)
    assert failing(project) == ["break/broken"]


def test_a_step_that_its_experiment_does_not_have_any_more(project: Project) -> None:
    rewrite(project, BROKEN, "")
    rewrite(project, 'text="hello"', 'text="hi"')
    project.run("--only", "end")
    assert failing(project) == ["break/broken"], "a part of the experiment says nothing of the rest"
    rewrite(project, 'text="hi"', 'text="ho"')
    project.run()
    assert failing(project) == []


def test_a_failure_of_another_experiment_stays(project: Project) -> None:
    other = project.folder / "exp2_other.py"
    other.write_text(project.file.read_text().replace(BROKEN, "").replace('text="hello"', 'text="hi"'))
    project.file = other
    project.run()
    assert failing(project) == ["break/broken"]
