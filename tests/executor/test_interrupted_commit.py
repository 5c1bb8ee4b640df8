"""A driver that dies between its lease's commit and the record leaves an output that everybody sees, and that whoever
uses it finishes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from marin.cli.commands import main
from marin.errors import BadPrefix
from marin.executor.run_results import Run
from marin.steps.pinned import Pinned
from marin.store.record import Record
from marin.store.store import Store
from marin.upkeep.adopt import adopt
from marin.upkeep.mirror.copy import mirror
from marin.upkeep.mirror.plan import plan_mirroring
from tests.support.aging import tree
from tests.support.project import Project
from tests.support.toy import Blob, Count, Join, Write, execute, planned, ran, run, statuses

A = Write(text="hello", label="a")
END = Join(parts=(A,), label="end")


def interrupt(prefix: str, *steps: object) -> None:
    """As if their drivers had died right after the point of no return: no record, and nothing found by its action."""
    store = Store(prefix)
    for identity in {getattr(step, "identity") for step in steps} if steps else store.identities():
        names = [f".marin/actions/{name}" for name in store.objects.list(".marin/actions") if identity in name]
        store.objects.remove([f".marin/records/{identity}.json", *names])


def is_visible(prefix: str, step: object) -> bool:
    return getattr(step, "identity") in Store(prefix).identities()


def marin(prefix: str, *arguments: str, expect: int = 0) -> str:
    done = CliRunner().invoke(main, [*arguments, "--prefix", prefix], env={"COLUMNS": "200"})
    assert done.exit_code == expect, done.output
    return done.output


def test_commands_that_only_read_show_it_and_write_nothing(prefix: str) -> None:
    run(prefix, end=END)
    interrupt(prefix, A)
    before = tree(Path(prefix))
    assert [held["step"] for held in json.loads(marin(prefix, "ls", "--json"))] == ["toy-join/end", "toy-write/a"]
    assert "hello" in marin(prefix, "cat", "toy-write/a", "--file", "text.txt")
    assert "toy-write/a" in marin(prefix, "lineage", "toy-join/end")
    assert "toy-write/a" in marin(prefix, "lineage", "toy-write/a", "--down")
    assert "2 outputs" in marin(prefix, "audit")
    assert tree(Path(prefix)) == before
    assert json.loads(marin(prefix, "audit", "--bytes", "--json"))["bytes"] == {
        "check": "checksums",
        "outputs": 2,
        "wrong": {},
    }
    (Path(prefix) / f"toy-write/a-{A.identity[:12]}.0001/text.txt").write_text("HELLO")
    assert "changed: text.txt" in marin(prefix, "audit", "--bytes", "toy-write/a", expect=5)
    assert not is_visible(prefix, A)


def test_status_of_an_experiment_calls_it_committed(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.run()
    interrupt(str(project.store))
    rows = json.loads(project.marin("status", "--json"))
    assert [row["status"] for row in rows] == ["committed", "committed"]


def test_a_cached_run_finishes_it_and_so_does_one_of_a_part(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.run()
    for arguments in ((), ("--only", "end")):
        interrupt(str(project.store))
        assert "2 cached" in project.run(*arguments)
        assert len(Store(str(project.store)).identities()) == 2
        assert len(Store(str(project.store)).actions()) == 2


def test_a_run_that_makes_something_of_it_finishes_it(prefix: str) -> None:
    run(prefix, end=A)
    interrupt(prefix, A)
    assert ran(run(prefix, end=END)) == {"toy-join/end"}
    assert is_visible(prefix, A)


def test_a_driver_that_planned_to_make_it_itself_finishes_it(prefix: str) -> None:
    plan = planned(prefix, end=END)
    run(prefix, end=A)  # another driver, after the plan
    interrupt(prefix, A)
    assert statuses(execute(plan)) == {"toy-write/a": "cached", "toy-join/end": "ran"}
    assert is_visible(prefix, A)


def test_a_rebuild_that_died_there_is_not_made_again(prefix: str) -> None:
    run(prefix, end=END)
    record = Store(prefix).objects.read(f".marin/records/{A.identity}.json")
    run(prefix, rebuild=("a",), end=END)
    assert record is not None
    Store(prefix).objects.write(f".marin/records/{A.identity}.json", record)
    assert ran(run(prefix, end=END)) == set()
    found = Store(prefix).visible(A.identity)
    assert found is not None
    assert found.token == 2


def test_an_alias_of_it_finishes_it(prefix: str) -> None:
    def joined(encoding: str) -> Join:
        return Join(parts=(Write(text="hello", encoding=encoding, label="a"),), label="end")

    run(prefix, end=joined("utf-8"))
    store = Store(prefix)
    store.objects.remove([f".marin/records/{joined('utf-8').identity}.json"])
    assert statuses(run(prefix, end=joined("ascii"))) == {"toy-write/a": "ran", "toy-join/end": "alias"}
    assert is_visible(prefix, joined("utf-8"))


def test_a_pin_to_it_finishes_it(prefix: str) -> None:
    record = run(prefix, end=A).results[A].record
    assert record is not None
    interrupt(prefix, A)
    pin = Pinned[Blob](at=record.attempt, digest=record.root, label="pin")
    assert statuses(run(prefix, end=pin)) == {"pinned/pin": "alias"}
    assert is_visible(prefix, A)


def test_a_milestone_of_a_run_that_died_later_is_finished(prefix: str) -> None:
    training = Count(end=5, label="count")
    plan = planned(prefix, late=training, early=training.at(2))
    run(prefix, late=training, early=training.at(2))
    interrupt(prefix, training, training.at(2))
    assert set(statuses(execute(plan)).values()) <= {"ran", "cached"}
    assert is_visible(prefix, training)
    assert is_visible(prefix, training.at(2))


def test_a_mirror_finishes_it_where_it_came_from_and_where_it_arrives(prefix: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    run(prefix, end=END)
    interrupt(prefix)

    def mirrored() -> list[bool]:
        return [held.copied for held in mirror(plan_mirroring(Store(prefix), Store(other), ["end"], with_inputs=True))]

    assert mirrored() == [True, True]
    assert all(is_visible(held, step) for held in (prefix, other) for step in (A, END))
    interrupt(other, A, END)
    assert mirrored() == [False, False]
    assert all(is_visible(other, step) for step in (A, END))


def test_adopting_its_bytes_finishes_it(prefix: str, tmp_path: Path) -> None:
    outside = tmp_path / "words.txt"
    outside.write_text("one two")

    def adopted() -> Record:
        store = Store(prefix)
        return adopt(
            store, str(outside), kind="raw_files", label="w", because="a test", facts={}, on_message=lambda _: None
        ).record

    first = adopted()
    interrupt(prefix)
    assert adopted() == first
    assert Store(prefix).identities() == {first.identity}


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A store, and how it becomes one that takes no writes: mounted read-only, as permissions do not hold root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    yield str(folder / "store"), lambda: subprocess.run(["mount", "-o", "remount,ro", folder], check=True) and None
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_who_may_only_read_is_served(read_only: tuple[str, Callable[[], None]], tmp_path: Path) -> None:
    prefix, close = read_only
    run(prefix, end=END)
    interrupt(prefix)
    close()
    cached: Run = run(prefix, end=END)
    assert statuses(cached) == {"toy-write/a": "cached", "toy-join/end": "cached"}
    assert len(json.loads(marin(prefix, "ls", "--json"))) == 2
    plan = plan_mirroring(Store(prefix), Store(str(tmp_path / "copy")), ["end"])
    assert [held.copied for held in mirror(plan)] == [True]
    with pytest.raises(BadPrefix):
        run(prefix, end=Join(parts=(END,), label="more"))
