"""Two checkouts with different code run on one store at once: what the other made is not taken for one's own."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.engine.project import SLOW_STEP, Project, gated, wait_for

WORDS_EDIT = ("MARK * times", "MARK * times * 2")


@dataclass
class Two:
    """Of ``other`` a helper was edited. The first driver of ``one`` is at its first step until the gate opens."""

    one: Project
    other: Project
    gate: Path
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

    def race(self, *arguments: str) -> tuple[int, str]:
        """Exit code and words of the other's driver, which waited for the step that the first one made."""
        first = self.start(self.one)
        wait_for(Path(f"{self.gate}.started"))
        second = self.start(self.other, *arguments)
        assert second.stdout is not None
        said = ""
        while "waiting say/say" not in said:
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
    for process in held.processes:
        process.kill()
        process.communicate()


def text(project: Project) -> str:
    """Of the result, as a run that has nothing to do finds it."""
    project.run()
    (attempt,) = sorted((project.store / "repeat").iterdir())[-1:]
    return (attempt / "text.txt").read_text()


def test_what_other_code_made_meanwhile_is_refused_and_the_difference_named(two: Two) -> None:
    two.other.edit(*WORDS_EDIT)
    code, said = two.race()
    assert code == 3, said
    assert "another driver made it meanwhile" in said
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
