"""Test an output whose folder somebody deleted. A run stops if it needs the output, and only then."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from marin import Context, ExecutorStep, execution
from marin.errors import CorruptRecord, Revoked
from marin.plan.decision import Action
from marin.report.audit import audit_plans
from marin.report.claims import Grade
from marin.store.revocation import revoke
from marin.store.store import Store
from marin.upkeep.mirror.copy import mirror
from marin.upkeep.mirror.plan import plan_mirroring
from tests.store.test_revocation import pinned
from tests.support.project import EXPERIMENT, Project
from tests.support.toy import Blob, Count, Join, Write, execute, planned, ran, record_of, run, statuses
from tests.support.visible import visible

A = Write(text="a", label="a")
B = Join(parts=(A,), separator="+", label="b")
C = Join(parts=(B,), separator="-", label="c")
D = Join(parts=(B, A), separator="/", label="d")


def delete(prefix: str, *steps: ExecutorStep[Any]) -> None:
    for step in steps:
        Store(prefix).output(record_of(prefix, step)).remove()


def test_a_deleted_intermediate_that_nothing_needs_stops_nothing(any_prefix: str) -> None:
    run(any_prefix, end=C)
    delete(any_prefix, A, B)
    plan = planned(any_prefix, end=C)
    assert [plan.of(step).action for step in (A, B, C)] == [Action.NOT_NEEDED, Action.NOT_NEEDED, Action.CACHED]
    assert "was deleted" in plan.of(B).reason
    assert record_of(any_prefix, B).attempt in " ".join(plan.of(B).notes)
    assert statuses(execute(plan)) == {"toy-write/a": "absent", "toy-join/b": "absent", "toy-join/c": "cached"}


def test_one_that_is_needed_stops_until_it_is_made_again(prefix: str) -> None:
    run(prefix, end=C)
    before = [record_of(prefix, step) for step in (A, B, C)]
    delete(prefix, A, B)
    with pytest.raises(CorruptRecord, match=r"the output toy-join/b.* was deleted: .*--rebuild toy-join/b"):
        run(prefix, end=C, other=D)
    assert ran(run(prefix, rebuild=("a", "b"), end=C, other=D)) == {"toy-write/a", "toy-join/b", "toy-join/d"}
    after = [record_of(prefix, step) for step in (A, B, C)]
    assert [held.root for held in after] == [held.root for held in before]
    assert [held.attempt != was.attempt for held, was in zip(after, before, strict=True)] == [True, True, False]
    assert visible(Store(prefix))
    assert ran(run(prefix, end=C, other=D)) == set()


def test_a_deleted_result_stops_until_it_is_made_again(prefix: str) -> None:
    run(prefix, end=C)
    delete(prefix, C)
    with pytest.raises(CorruptRecord, match="--rebuild toy-join/c"):
        run(prefix, end=C)
    assert ran(run(prefix, rebuild=("c",), end=C)) == {"toy-join/c"}


class Lottery(ExecutorStep[Blob], op="toy-lottery"):
    """Return a file's content at the time of the run. Another program reads the file, so marin cannot see it."""

    path: str = execution(default="")

    def run(self, ctx: Context) -> Blob:
        given = {**os.environ, "DRAWN": self.path}  # marin would count a file that an argument names as read
        text = subprocess.run(
            ["sh", "-c", 'cat "$DRAWN"'], env=given, capture_output=True, check=True, text=True
        ).stdout
        ctx.out.write_text("text.txt", text)
        return Blob(bytes=len(text))


def test_what_was_made_from_it_follows_a_rebuild_that_differs(prefix: str, tmp_path: Path) -> None:
    (tmp_path / "drawn.txt").write_text("one")
    draw = Lottery(path=str(tmp_path / "drawn.txt"), label="draw")
    kept, new = Join(parts=(draw,), separator="-", label="kept"), Join(parts=(draw, A), label="new")
    run(prefix, kept=kept)
    delete(prefix, draw)
    (tmp_path / "drawn.txt").write_text("two")
    assert ran(run(prefix, kept=kept)) == set()  # this run does not need the deleted output
    again = run(prefix, rebuild=("draw",), kept=kept, new=new)
    assert ran(again) == {"toy-lottery/draw", "toy-join/kept", "toy-write/a", "toy-join/new"}


@pytest.mark.parametrize("left", ["the store's own", "nothing but the folder"])
def test_one_that_is_partly_there_is_damage(prefix: str, left: str) -> None:
    run(prefix, end=C)
    place = Path(prefix) / record_of(prefix, B).attempt
    (place / "text.txt").unlink()
    if left == "nothing but the folder":
        shutil.rmtree(place / ".marin")
    with pytest.raises(CorruptRecord, match=r"toy-join/b: .*--rebuild toy-join/b"):
        run(prefix, end=C)


def test_a_link_to_a_disk_that_is_away_is_not_deleted(prefix: str, tmp_path: Path) -> None:
    run(prefix, end=C)
    folder = Path(prefix) / "toy-join"
    folder.rename(tmp_path / "away")
    folder.symlink_to(tmp_path / "disk")
    with pytest.raises(CorruptRecord, match="toy-join/b"):
        run(prefix, end=C)


def test_what_changed_since_a_deleted_output_was_made_still_stops(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT)
    project.run()
    (output,) = (project.store / "say").iterdir()
    shutil.rmtree(output)
    project.edit("return text.upper() + ending()", "return ending() + text.upper()")
    assert "lib.words.shout changed" in project.run(expect=3)
    accept = ("--on-drift", "accept", "--because", "they say that it is the same")
    project.run(*accept, "--dry-run")
    assert "--rebuild say/say" in project.run(*accept, "--rebuild", "repeat", expect=5)
    project.run("--rebuild", "say")
    assert project.ran() == ["say/say", "repeat/repeat"]


def test_a_deleted_one_whose_input_is_made_again_must_be_too(prefix: str, tmp_path: Path) -> None:
    (tmp_path / "drawn.txt").write_text("one")
    draw = Lottery(path=str(tmp_path / "drawn.txt"), label="draw")
    middle = Join(parts=(draw,), separator="-", label="middle")
    end = Join(parts=(middle,), separator="+", label="end")
    run(prefix, end=end)
    delete(prefix, middle)
    (tmp_path / "drawn.txt").write_text("two")
    with pytest.raises(CorruptRecord, match="--rebuild toy-join/middle"):
        run(prefix, rebuild=("draw",), end=end)
    again = run(prefix, rebuild=("draw", "middle"), end=end)
    assert ran(again) == {"toy-lottery/draw", "toy-join/middle", "toy-join/end"}


def test_a_deleted_one_that_is_revoked_stays_refused(prefix: str) -> None:
    run(prefix, end=C)
    revoke(Store(prefix), record_of(prefix, B), "bad")
    delete(prefix, B)
    with pytest.raises(Revoked, match="toy-join/b"):
        run(prefix, end=C)


def test_an_alias_is_made_again_by_its_own_step(prefix: str) -> None:
    one = Join(parts=(Write(text="x", label="one"),), label="one")
    same = Join(parts=(Write(text="x", encoding="ascii", label="same"),), label="same")
    run(prefix, one=one)
    assert statuses(run(prefix, same=same))["toy-join/same"] == "alias"
    delete(prefix, same)  # both outputs share these bytes
    assert planned(prefix, end=Join(parts=(same,), separator="-")).of(same).action is Action.STOP
    assert ran(run(prefix, rebuild=("toy-join/same",), same=same)) == {"toy-join/same"}
    assert record_of(prefix, one).attempt != record_of(prefix, same).attempt
    assert ran(run(prefix, rebuild=("toy-join/one",), one=one)) == {"toy-join/one"}
    assert visible(Store(prefix))


def test_a_deleted_pin_stops_where_it_is_needed_and_only_there(prefix: str) -> None:
    run(prefix, a=A)
    pin = pinned(record_of(prefix, A))
    end = Join(parts=(pin,), label="end")
    run(prefix, end=end)
    delete(prefix, A)
    assert planned(prefix, end=end).of(pin).action is Action.NOT_NEEDED
    assert statuses(run(prefix, end=end))["toy-join/end"] == "cached"
    with pytest.raises(CorruptRecord, match=r"pinned/old: the pinned output .* was deleted: put that folder back"):
        run(prefix, end=end, more=Join(parts=(pin,), separator="-", label="more"))


def test_a_deleted_mirrored_output_says_where_it_came_from(prefix: str, tmp_path: Path) -> None:
    run(prefix, end=C)
    target = str(tmp_path / "target")
    assert list(mirror(plan_mirroring(Store(prefix), Store(target), ["c"], with_inputs=True)))
    record = record_of(target, B)
    delete(target, B)
    assert statuses(run(target, end=C))["toy-join/b"] == "absent"
    with pytest.raises(
        CorruptRecord,
        match=r"mirrored output toy-join/.* deleted: copy .* --rebuild toy-join/b",
    ):
        run(target, end=C, more=D)
    shutil.copytree(record.mirrored[-1].origin, Path(target) / record.attempt)
    assert ran(run(target, end=C, more=D)) == {"toy-join/d"}


def test_a_deleted_milestone_is_made_again_by_its_training_run(prefix: str) -> None:
    training = Count(end=3, label="t")
    middle = training.at(2)
    run(prefix, middle=middle, end=training)
    delete(prefix, middle)
    with pytest.raises(CorruptRecord, match="--rebuild toy-milestone/t@2"):
        run(prefix, middle=middle, end=training)
    assert "toy-milestone/t@2" in ran(run(prefix, rebuild=("t@2",), middle=middle, end=training))
    delete(prefix, training)
    assert ran(run(prefix, middle=middle)) == set()
    with pytest.raises(CorruptRecord, match="--rebuild toy-count/t"):
        run(prefix, middle=middle, end=training)
    assert "toy-count/t" in ran(run(prefix, rebuild=("toy-count/t",), middle=middle, end=training))
    assert visible(Store(prefix))


def test_the_audit_names_it(prefix: str) -> None:
    run(prefix, end=C)
    delete(prefix, B)
    made = audit_plans(Store(prefix), [planned(prefix, end=C)])
    assert {claim.subject: claim.grade for claim in made.claims} == {"deleted": Grade.DOUBTFUL}


def test_the_command_line_goes_on(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT)
    project.run()
    (output,) = (project.store / "say").iterdir()
    shutil.rmtree(output)
    assert "was deleted and is not needed" in project.run()
    assert "--rebuild say/say" in project.run("--rebuild", "repeat", expect=5)
    project.run("--rebuild", "repeat", "--rebuild", "say")
    assert project.ran() == ["say/say", "repeat/repeat"]
