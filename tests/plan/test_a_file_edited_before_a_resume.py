"""A failed attempt leaves a list of its reads beside its work in progress. The next attempt hears of a change."""

from pathlib import Path

import pytest

from tests.support.project import Project

EXPERIMENT = '''
"""Does it go on?"""
import os
import signal
from pathlib import Path

from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob

HERE = Path(__file__).parent
SIGNALS = HERE.parent  # beside the project, where temporary files do not count


class Slowly(ExecutorStep[Blob], op="slowly"):
    def run(self, ctx: Context) -> Blob:
        state = ctx.state
        if not state.exists("half.txt"):
            state.write_text("half.txt", (HERE / "words.txt").read_text())
        if (SIGNALS / "kill").exists():
            ctx.progress(1, 2, "halves")
            os.kill(os.getpid(), signal.SIGKILL)
        if not (SIGNALS / "switch").exists():
            raise ValueError("cut short")
        ctx.out.write_text("text.txt", state.read_text("half.txt") + (HERE / "ending.txt").read_text())
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={"end": Slowly(label="x")})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.fixture
def failed(tmp_path: Path) -> Project:
    """Return a project whose step failed and left work in progress."""
    project = Project(tmp_path / "project", EXPERIMENT)
    (project.folder / "words.txt").write_text("one ")
    (project.folder / "ending.txt").write_text("end")
    project.run(expect=1)
    (project.folder.parent / "switch").write_text("")
    return project


def made(project: Project) -> str:
    [output] = (project.store / "slowly").glob("*/text.txt")
    return output.read_text()


def test_the_run_stops_and_names_the_file(failed: Project) -> None:
    (failed.folder / "words.txt").write_text("two ")
    assert "words.txt changed, which run() read" in failed.run(expect=3)


def test_rebuild_starts_over(failed: Project) -> None:
    (failed.folder / "words.txt").write_text("two ")
    failed.run("--on-drift", "rebuild")
    assert made(failed) == "two end"


def test_accept_goes_on(failed: Project) -> None:
    (failed.folder / "words.txt").write_text("two ")
    failed.run("--on-drift", "accept", "--because", "only a test")
    assert made(failed) == "one end"
    assert "1 cached" in failed.run()
    (failed.folder / "words.txt").write_text("three ")
    assert "words.txt changed, which run() read" in failed.run(expect=3)


def test_what_an_earlier_attempt_read_counts_of_the_output(failed: Project) -> None:
    failed.run()
    (failed.folder / "words.txt").write_text("two ")
    assert "words.txt changed, which run() read" in failed.run(expect=3)


def test_what_it_did_not_read_is_no_change(failed: Project) -> None:
    (failed.folder / "ending.txt").write_text("END")
    failed.run()
    assert made(failed) == "one END"


def test_what_an_earlier_attempt_read_still_counts_after_the_next(failed: Project) -> None:
    (failed.folder.parent / "switch").unlink()
    failed.run(expect=1)
    (failed.folder / "words.txt").write_text("two ")
    assert "words.txt changed, which run() read" in failed.run(expect=3)


def test_a_killed_attempt_has_said_what_it_read(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT)
    (project.folder / "words.txt").write_text("one ")
    (project.folder.parent / "kill").write_text("")
    assert "ended with SIGKILL" in project.run(expect=1)
    (project.folder.parent / "kill").unlink()
    (project.folder / "words.txt").write_text("two ")
    assert "words.txt changed, which run() read" in project.run(expect=3)
