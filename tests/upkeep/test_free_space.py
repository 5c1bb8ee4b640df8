"""A user who runs out of disk can free space at once: garbage without its waiting days, and named outputs."""

import json
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from marin import Context, ExecutorStep, execution
from marin.cli.commands import main
from marin.cli.exits import Exit
from marin.store.lineage import read_lineage
from marin.store.store import Store
from marin.upkeep.gc.garbage import GarbageKind
from marin.upkeep.gc.select import GcOptions
from marin.upkeep.gc.sweep import look, sweep
from tests.support.aging import tree
from tests.support.project import wait_for
from tests.support.toy import Blob, Fail, Join, Slowly, Write, planned, ran, run
from tests.support.visible import visible

SOURCE = Write(text="a" * 5000, label="source")
END = Join(parts=(SOURCE,), label="end")


def marin(*arguments: str, code: int = Exit.OK) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    """Return a store just filled with two outputs, one replaced output, a failed attempt and work in progress."""
    store = str(tmp_path / "store")
    run(store, end=END)
    run(store, rebuild=("toy-write/source",), end=END)
    run(store, broken=Fail(source=SOURCE, label="broken"), slowly=Slowly(text="x", label="slowly", switch="/none"))
    return store


def test_garbage_goes_at_once_and_work_in_progress_only_if_it_is_asked_for(prefix: str, tmp_path: Path) -> None:
    assert "nothing to free" in marin("gc", "--prefix", prefix, "--older-than", "0")
    before = tree(tmp_path)
    said = marin("gc", "--prefix", prefix, "--now")
    assert tree(tmp_path) == before
    assert "1 attempt whose output was replaced: " in said
    assert "2 attempts that never committed" in said
    assert "in progress" not in said
    marin("gc", "--prefix", prefix, "--now", "--delete")
    store = Store(prefix)
    assert {record.name for record in visible(store).values()} == {"toy-write/source", "toy-join/end"}
    assert ran(run(prefix, end=END)) == set()
    assert list((Path(prefix) / ".marin/state").iterdir())
    marin("gc", "--prefix", prefix, "--now", "--only", "work", "--delete")
    assert not list((Path(prefix) / ".marin/state").iterdir())


class Waits(ExecutorStep[Blob], op="toy-waits"):
    source: ExecutorStep[Blob]
    gate: str = execution(default="")

    def run(self, ctx: Context) -> Blob:
        Path(f"{self.gate}.started").touch()
        wait_for(Path(self.gate))
        ctx.out.write_text("text.txt", ctx[self.source].directory.read_text("text.txt"))
        return Blob(bytes=1)


def test_neither_takes_what_a_run_under_way_needs(prefix: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    step = Waits(source=SOURCE, gate=str(gate), label="waits")
    running = threading.Thread(target=run, args=(prefix,), kwargs={"waits": step})
    running.start()
    wait_for(Path(f"{gate}.started"))
    try:
        said = marin("gc", "--prefix", prefix, "--now", "--delete")
        assert "toy-waits" not in said
        said = marin("gc", "source", "--even-if-read", "--delete", "--prefix", prefix, code=Exit.EXPERIMENT)
        assert "stays: toy-write/source: a run needs it" in said
    finally:
        gate.touch()
        running.join()
    assert ran(run(prefix, waits=step, end=END)) == set()


def test_a_named_output_goes_if_nothing_that_stays_was_made_from_it(any_prefix: str) -> None:
    run(any_prefix, end=END, other=Write(text="b", label="other"))
    store = Store(any_prefix)
    asked = GcOptions(
        kinds=frozenset({GarbageKind.NAMED}), at_once=True, named=frozenset({SOURCE.identity, END.identity})
    )
    first = GcOptions(kinds=frozenset({GarbageKind.NAMED}), at_once=True, named=frozenset({SOURCE.identity}))
    assert not look(store, first).goes
    assert {piece.name for piece in sweep(store, asked).gone} == {"toy-write/source", "toy-join/end"}
    assert {record.name for record in visible(store).values()} == {"toy-write/other"}
    assert len(read_lineage(store).records) == 3, "lineage knows what is gone"
    assert all("collected by" in decision.reason for decision in planned(any_prefix, end=END).decisions)
    assert ran(run(any_prefix, end=END)) == {"toy-write/source", "toy-join/end"}


def test_rm_says_what_goes_with_its_bytes_and_what_rests_on_it(prefix: str, tmp_path: Path) -> None:
    before = tree(tmp_path)
    said = marin("gc", "source", "--prefix", prefix, code=Exit.EXPERIMENT)
    assert "stays: toy-write/source: something that stays was made from it (toy-join/end); --even-if-read" in said
    said = marin("gc", "source", "--even-if-read", "--prefix", prefix)
    assert "1 output that was named: 4.9 KiB in 1 file" in said
    assert "stays, although built from toy-write/source: toy-join/end" in said
    assert tree(tmp_path) == before
    told = json.loads(marin("gc", "source", "--even-if-read", "--delete", "--json", "--prefix", prefix))
    gone = [(each["name"], each["bytes"]) for each in told["swept"]["gone"]]
    assert gone == [("toy-write/source", 5000)]
    assert [record.name for record in visible(Store(prefix)).values()] == ["toy-join/end"]
    assert "toy-join/end" in marin("gc", "sourse", "--prefix", prefix, code=Exit.EXPERIMENT)


def test_what_was_adopted_goes_only_if_that_is_said(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    (tmp_path / "notes.txt").write_text("notes")
    about = ("--kind", "raw_files", "--label", "notes", "--because", "a test", "--prefix", store)
    marin("adopt", str(tmp_path / "notes.txt"), *about)
    said = marin("gc", "notes", "--delete", "--prefix", store, code=Exit.EXPERIMENT)
    assert "nobody can make adopted data again" in said
    marin("gc", "notes", "--delete", "--even-if-read", "--prefix", store)
    assert not visible(Store(store))
