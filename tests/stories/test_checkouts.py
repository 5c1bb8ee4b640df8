"""Two checkouts with different code run on one store at once. Neither mistakes the other's outputs for its own."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from marin import Checkpoint, Context, ExecutorStep, execution
from marin.plan.plan import OnDrift
from marin.store.store import Store
from tests.support.project import EXPERIMENT, SLOW_STEP, Project, gated, wait_for
from tests.support.toy import Blob, Write, checkpoint, execute, planned, statuses

WORDS_EDIT = ("MARK * times", "MARK * times * 2")


@dataclass
class Two:
    """Two checkouts; a helper of ``other`` differs. The driver of ``one`` is in its first step until the gate opens."""

    one: Project
    other: Project
    gate: Path
    first_step: str = "say/say"
    processes: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def start(self, project: Project, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            project.command(*arguments),
            env=project.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()

    def race(self, *arguments: str) -> tuple[int, str]:
        """Return the exit code and output of the other's driver, which waited for the first driver's step."""
        first = self.start(self.one)
        wait_for(Path(f"{self.gate}.started"))
        second = self.start(self.other, *arguments)
        assert second.stdout is not None
        said = ""
        while f"waiting {self.first_step}" not in said:
            line = second.stdout.readline()
            assert line, said
            said += line
        self.gate.touch()
        rest, _ = second.communicate(timeout=60)
        own, _ = first.communicate(timeout=60)
        assert first.returncode == 0, own
        return second.returncode, said + rest


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    one, gate = gated(tmp_path)
    other = Project(tmp_path / "other", SLOW_STEP.replace("class Say", f"GATE = {str(gate)!r}\n\n\nclass Say"))
    other.store = one.store
    held = Two(one, other, gate)
    yield held
    held.end()


def text(project: Project) -> str:
    """Return the text of the result, as found by a run that has nothing to do."""
    project.run()
    (attempt,) = sorted((project.store / "repeat").iterdir())[-1:]
    return (attempt / "text.txt").read_text()


def test_what_other_code_made_meanwhile_is_refused_and_the_difference_named(two: Two) -> None:
    two.other.edit(*WORDS_EDIT)
    code, said = two.race()
    assert code == 3, said
    assert "another driver made this step meanwhile" in said
    assert "lib.words.ending changed" in said
    assert "--on-drift" in said
    assert "Traceback" not in said
    assert two.other.ran() == []
    assert text(two.one) == "HELLO!!HELLO!!"
    assert "lib.words.ending changed" in two.other.run(expect=3)


def test_who_asked_for_it_makes_again_what_other_code_made_meanwhile(two: Two) -> None:
    two.other.edit(*WORDS_EDIT)
    code, said = two.race("--on-drift", "rebuild")
    assert code == 0, said
    assert two.other.ran() == ["say/say", "repeat/repeat"]
    assert text(two.other) == "HELLO!!!!HELLO!!!!"


def test_who_accepts_drift_takes_what_other_code_made_meanwhile_and_says_why(two: Two) -> None:
    two.other.edit("MARK * times", "''.join([MARK] * times)")
    code, said = two.race("--on-drift", "accept", "--because", "a refactoring")
    assert code == 0, said
    assert two.other.ran() in ([], ["repeat/repeat"])
    assert "a refactoring" in two.other.run()


def test_the_same_code_in_another_folder_is_no_difference(two: Two) -> None:
    two.other.edit('"""Loud."""', '"""Louder."""')
    code, said = two.race()
    assert code == 0, said
    assert "another driver made it meanwhile" in said


TRAINING = """
class Train(ExecutorStep[Checkpoint], op="train"):
    text: str

    def at(self, step: int) -> "At":
        return At(of=self, step=step, label=f"{self.label}@{step}")

    def run(self, ctx: Context) -> Checkpoint:
        Path(GATE + ".started").touch()
        while not Path(GATE).exists():
            time.sleep(0.02)
        piece = ctx.state / "step-2"
        piece.write_text("text.txt", shout(self.text))
        ctx.publish(self.at(2), checkpoint(2), piece)
        ctx.out.write_text("text.txt", shout(self.text))
        return checkpoint(4)


class At(ExecutorStep[Checkpoint], op="at"):
    of: Train
    step: int

    @property
    def producer(self) -> Train:
        return self.of

    def run(self, ctx: Context) -> Checkpoint:
        raise AssertionError("its training run publishes it")


class Repeat(ExecutorStep[Blob], op="repeat"):
    source: ExecutorStep[Checkpoint]
"""


@pytest.fixture
def two_trainings(tmp_path: Path) -> Iterator[Two]:
    gate = tmp_path / "gate"
    before, after = EXPERIMENT.split("class Say")[0], EXPERIMENT.split("source: ExecutorStep[Blob]\n")[1]
    imports = "import time\nfrom pathlib import Path\nfrom marin import Checkpoint\n"
    imports += "from tests.support.toy import checkpoint\n"
    source = f"{before}{imports}\nGATE = {str(gate)!r}\n{TRAINING}{after}".replace(
        'say = Say(text="hello", label="say")', 'say = Train(text="hello", label="say").at(2)'
    )
    one, other = Project(tmp_path / "project", source), Project(tmp_path / "other", source)
    other.store = one.store
    other.edit(*WORDS_EDIT)
    held = Two(one, other, gate, first_step="train/say")
    yield held
    held.end()


def test_a_milestone_of_a_training_run_of_other_code_is_not_taken_either(two_trainings: Two) -> None:
    code, said = two_trainings.race()
    assert code == 3, said
    assert two_trainings.other.ran() == []
    assert text(two_trainings.one) == "HELLO!!HELLO!!"


def test_who_makes_a_training_run_again_makes_its_milestones_again(two_trainings: Two) -> None:
    code, said = two_trainings.race("--on-drift", "rebuild")
    assert code == 0, said
    assert text(two_trainings.other) == "HELLO!!!!HELLO!!!!"


class Follow(ExecutorStep[Checkpoint], op="follow"):
    """Publish the content of an outside file."""

    source: ExecutorStep[Blob]
    path: str = execution(default="")

    def outside(self) -> dict[str, str]:
        return {"what it follows": Path(self.path).read_text()}

    def at(self, step: int) -> "Followed":
        return Followed(of=self, step=step, label=f"{self.label}@{step}")

    def run(self, ctx: Context) -> Checkpoint:
        piece = ctx.state / "step-1"
        piece.write_text("text.txt", Path(self.path).read_text())
        if 1 in ctx.milestones:
            ctx.publish(self.at(1), checkpoint(1), piece)
        ctx.out.write_text("text.txt", Path(self.path).read_text())
        return checkpoint(2)


class Followed(ExecutorStep[Checkpoint], op="followed"):
    of: Follow
    step: int

    @property
    def producer(self) -> Follow:
        return self.of

    def outside(self) -> dict[str, str]:
        return self.of.outside()

    def run(self, ctx: Context) -> Checkpoint:
        raise AssertionError("its run publishes it")


def test_milestones_that_another_driver_published_between_plan_and_run_are_made_again_with_their_run(
    tmp_path: Path,
) -> None:
    said, store = tmp_path / "said", str(tmp_path / "store")
    step = Follow(source=Write(text="first", label="w"), path=str(said), label="f")
    results: dict[str, Any] = {"end": step, "early": step.at(1)}
    said.write_text("one")
    one = planned(store, **results)
    said.write_text("other")
    other = planned(store, on_drift=OnDrift.REBUILD, **results)
    said.write_text("one")
    assert set(statuses(execute(one)).values()) == {"ran"}
    said.write_text("other")
    done = execute(other)
    assert statuses(done) == {"toy-write/w": "cached", "follow/f": "ran", "followed/f@1": "ran"}
    for made in results.values():
        record = Store(store).record(made.identity)
        assert record == done.results[made].record
        assert record is not None
        assert Store(store).output(record).read_text("text.txt") == "other"
