"""marin also sees the reads of ``ctx.map`` tasks on Ray."""

from pathlib import Path

import pytest

from tests.support.project import Project

EXPERIMENT = '''
"""Is it seen?"""
import importlib
from os.path import dirname

from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob


def read(name: str) -> str:
    load = importlib.import_module
    return open(dirname(__file__) + "/" + name + ".txt").read() + load(f"by_{name}").f()


class Map(ExecutorStep[Blob], op="map"):
    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "".join(ctx.map(read, ["one", "two", "three"])))
        return Blob(bytes=1)


class Alone(ExecutorStep[Blob], op="alone"):
    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", read("one"))
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={"map": Map(label="x"), "alone": Alone(label="x")})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.mark.slow
def test_a_file_and_a_module_that_only_a_task_read(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT)
    for name in ("one", "two", "three"):
        (project.folder / f"{name}.txt").write_text(name)
        (project.folder / f"by_{name}.py").write_text("def f():\n    return 'x'\n")
    project.run(backend="ray")
    assert "2 cached" in project.run("--dry-run")
    (project.folder / "two.txt").write_text("2")
    said = project.run("--dry-run", expect=3)
    assert "two.txt changed, which run() read" in said
    assert "1 cached, 1 stop" in said
    (project.folder / "two.txt").write_text("two")
    (project.folder / "by_three.py").write_text("def f():\n    return 'y'\n")
    said = project.run("--dry-run", expect=3)
    assert "by_three.f changed" in said
    assert "1 cached, 1 stop" in said
