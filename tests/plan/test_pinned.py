"""A pin names its output. Code that changed since, or a kind that the reader does not read, stops the plan."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from marin import Context, Documents, ExecutorStep, Pinned
from marin.errors import BadField
from marin.plan.decision import Action, OnDrift
from marin.store.record import Record
from marin.store.store import Store
from tests.cli.test_cli import DRIFT, Command
from tests.support.project import Project
from tests.support.toy import Blob, Count, Join, Write, execute, planned, ran, run

USER = '''
"""What another experiment makes of it."""
from exp1_toy import Repeat
from marin import Pinned
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale


def build(scale: Scale) -> Experiment:
    pin = Pinned(at={at!r}, digest={digest!r}, label="old", because={because!r})
    return Experiment(issue=2, question=__doc__, results={{"end": Repeat(source=pin, label="again")}})


if __name__ == "__main__":
    executor_main(build)
'''


class Other(Project):
    """An experiment that pins an output of the first experiment."""

    def __init__(self, folder: Path, *, reads_a_file: bool = False) -> None:
        super().__init__(folder)
        if reads_a_file:
            (folder / "lib/ending.txt").write_text("!")
            self.edit("return MARK * times", 'return open(__file__.replace("words.py", "ending.txt")).read() * times')
        self.run()
        (held,) = json.loads(Command(self)("ls", "repeat", "--json", "--prefix", str(self.store)))
        self.at, self.digest = held["output"].removeprefix(f"{self.store}/"), held["root"]
        self.file = folder / "exp2_user.py"
        self.say()

    def say(self, because: str = "") -> None:
        self.file.write_text(USER.format(at=self.at, digest=self.digest, because=because))

    def plan(self, expect: int = 0) -> dict[str, Any]:
        steps = Command(self).json("plan", expect=expect)["steps"]
        return next(held for held in steps if held["step"] == "pinned/old")


@pytest.fixture
def other(tmp_path: Path) -> Other:
    return Other(tmp_path / "project")


def test_a_pin_of_what_was_made_from_another_file_stops(tmp_path: Path) -> None:
    """The file lies beside the code, and only a run shows that the code reads it."""
    other = Other(tmp_path / "project", reads_a_file=True)
    assert other.plan()["action"] == "alias"
    (other.folder / "lib/ending.txt").write_text("?")
    held = other.plan(expect=DRIFT)
    assert held["action"] == "stop"
    assert "lib/ending.txt changed, which run() read" in held["reason"]
    (other.folder / "lib/ending.txt").write_text("!")
    assert other.plan()["action"] == "alias"


def test_a_pin_of_what_was_fixed_since_stops_whether_it_was_used_or_not(other: Other) -> None:
    assert other.plan()["action"] == "alias"
    other.edit('"""Loud."""', '"""Very loud."""')
    assert other.plan()["notes"] == []
    other.edit("times: int = 2", "times: int = 3")  # code of the step that made the pinned output's input
    held = other.plan(expect=DRIFT)
    assert held["action"] == "stop"
    assert held["drift"] == [held["reason"]]
    assert held["reason"].startswith("lib.words.ending changed (")
    assert held["reason"].endswith(" since say/say was made")
    (told,) = json.loads(Command(other)("plan", str(other.file), "pinned/old", "--json", "--prefix", str(other.store)))
    assert told["pinned"] == other.at
    (diff,) = told["diffs"].values()
    assert "-def ending(times=2)" in diff
    assert "+def ending(times=3)" in diff
    assert "marin does not rebuild pins" in other.run(expect=DRIFT)
    other.run("--on-drift", "rebuild", expect=DRIFT)

    other.edit("times: int = 3", "times: int = 2")
    other.run()
    assert other.plan()["action"] == "cached"
    other.edit("times: int = 2", "times: int = 3")
    held = other.plan(expect=DRIFT)
    assert (held["action"], held["trust"]) == ("stop", "drifted")
    assert held["reason"].startswith("lib.words.ending changed")


def test_it_goes_on_when_somebody_says_why(other: Other) -> None:
    other.edit("times: int = 2", "times: int = 3")
    other.say(because="two or three marks are one to us")
    held = other.plan()
    assert held["action"] == "alias"
    (note,) = held["notes"]
    assert note.startswith("pinned although lib.words.ending changed")
    assert note.endswith("two or three marks are one to us")

    other.say()
    other.run("--on-drift", "accept", "--because", "marks do not matter")
    held = other.plan()
    assert held["action"] == "cached"
    assert "marks do not matter" in held["notes"][0]
    other.edit("times: int = 3", "times: int = 4")  # not the change that was accepted
    assert "lib.words.ending changed" in other.plan(expect=DRIFT)["reason"]


def test_what_cannot_be_compared_is_said(other: Other) -> None:
    other.words.rename(other.words.with_name("sounds.py"))
    toy = other.folder / "exp1_toy.py"
    toy.write_text(toy.read_text().replace("lib.words", "lib.sounds"))
    held = other.plan(expect=DRIFT)
    assert held["drift"][0].startswith("exp1_toy.Say changed")
    assert any("cannot be compared with today's code: say/say (no lib.words." in note for note in held["notes"])
    toy.write_text(toy.read_text().replace("lib.sounds", "lib.words"))
    other.words.with_name("sounds.py").rename(other.words)
    shutil.rmtree(other.store / ".marin/code")
    (note,) = other.plan()["notes"]
    assert note == (
        "cannot be compared with today's code: repeat/repeat, say/say (the store does not hold the code that made it)"
    )
    for record in (other.store / ".marin/ends").iterdir():
        if json.loads(record.read_text())["op"] == "say":
            record.unlink()
            (other.store / ".marin/claims" / record.name).unlink()
    assert "cannot be compared with today's code: say/say (its record is gone)" in other.plan()["notes"]


class Count2(ExecutorStep[Blob], op="count-documents"):
    documents: dict[str, ExecutorStep[Documents]]
    also: ExecutorStep[Documents] | ExecutorStep[Blob] | None = None

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "1")
        return Blob(bytes=1)


class Evaluate(ExecutorStep[Blob], op="toy-evaluate"):
    model: Count

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", str(ctx[self.model].step))
        return Blob(bytes=1)


def pin(prefix: str, step: ExecutorStep[Any]) -> Pinned[Any]:
    record = Store(prefix).record(step.identity)
    assert isinstance(record, Record)
    return Pinned(at=record.attempt, digest=record.root, label=f"old-{step.label}")


def test_a_pin_of_another_kind_than_is_read_stops_the_plan(prefix: str) -> None:
    blob, count = Write(text="a", label="a"), Count(end=1, label="c")
    run(prefix, blob=blob, count=count)
    wrong, right = pin(prefix, count), pin(prefix, blob)
    readers: list[tuple[ExecutorStep[Any], str]] = [
        (Join(parts=(right, wrong), label="j"), r"Join\.parts reads Blob, but pinned/old-c pins toy-count/c-"),
        (Count2(documents={"x": right}, label="k"), r"Count2\.documents reads Documents, .* of kind 'toy-blob'"),
        (Count2(documents={}, also=wrong, label="k"), r"also reads Blob or Documents, .* of kind 'checkpoint'"),
        (Evaluate(model=right, label="e"), r"Evaluate\.model reads Checkpoint"),  # pyright: ignore[reportArgumentType]
    ]
    for reader, says in readers:
        with pytest.raises(BadField, match=says):
            planned(prefix, end=reader)
    good = [Join(parts=(right,)), Count2(documents={}, also=right), Evaluate(model=wrong)]  # pyright: ignore[reportArgumentType]
    for reader in good:
        assert ran(execute(planned(prefix, end=reader))) == {reader.name}
    run(prefix, used=wrong)  # committed as an alias, the pin keeps its kind
    with pytest.raises(BadField, match="Documents"):
        planned(prefix, end=Count2(documents={"x": wrong}), on_drift=OnDrift.ACCEPT)
    assert planned(prefix, end=wrong).of(wrong).action is Action.CACHED
