"""gc dies, or its disk refuses, at every operation on the store. Visible outputs are whole; the next gc continues."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from marin import after_use, unless_read
from marin.executor.run_results import Status
from marin.store.ends import End, Held, How, parse_end, take
from marin.store.layout import ENDS, claim_name
from marin.store.process import this_process
from marin.store.record import Record
from marin.store.store import Store
from tests.stories.test_crashes import PARTS as PARTS_OF_WORK
from tests.stories.test_crashes import changes, share
from tests.support.aging import DAY, age, rewrite_record
from tests.support.faults.client import Ended, Strikes
from tests.support.faults.hook import Strike, state_of
from tests.support.toy import Join, Slowly, Write, attempt_of, ran, run
from tests.support.visible import visible
from tests.upkeep.test_gc import directories

SOURCE = Write(text="a", label="source", lifetime=after_use(days=30))
COPY = Write(text="a", label="copy", encoding="ascii", lifetime=after_use(days=30))
READ = Write(text="b", label="read", lifetime=unless_read(days=1))
BOTH = [Join(parts=(part,), label=part.label, lifetime=after_use(days=30)) for part in (SOURCE, COPY)]
END = Join(parts=(*BOTH, READ), separator="-", label="end")
EARLY = Join(parts=(BOTH[0],), separator="+", label="early")
AGAIN = Write(text="again", label="again")

STAY = {step.identity for step in (EARLY, END, AGAIN, READ)}


class Struck(Strikes):
    """Runs of ``marin gc --delete``, as children of one server."""

    def __init__(self, first: Path) -> None:
        """first: the store that every strike starts from."""
        self.first, self.store = first, first.with_name("store")
        file = first.with_name("gc.py")
        file.write_text("from marin.cli.commands import main\n\nmain()\n")
        super().__init__(first.parent, file, "gc", "--help")

    def reset(self) -> None:
        shutil.rmtree(self.store, ignore_errors=True)
        shutil.copytree(self.first, self.store)

    def gc(self, strike: Strike = Strike.NOTHING, at: int = -1, error: str = "EIO") -> Ended:
        return self.strike(self.store, ["gc", "--prefix", str(self.store), "--delete"], strike, at, error)

    def visible(self) -> dict[str, Record]:
        return visible(Store(str(self.store)))


def make_store(prefix: str) -> None:
    """Make a store with four expired outputs, of which two share files, and data that a rebuild replaced.

    It also holds a failed attempt with its work, and an attempt on another machine whose claim is not renewed.
    """
    store = Store(prefix)
    run(prefix, early=EARLY, again=AGAIN)
    run(prefix, rebuild=("toy-write/again",), end=END, again=AGAIN)
    run(prefix, slow=Slowly(text="x", switch="/nowhere", label="slow"))
    step = Write(text="elsewhere", label="elsewhere")
    held = take(store.objects, step.identity, attempt_of(step), lambda _: False)
    assert isinstance(held, Held)
    elsewhere = replace(held.claim, holder=replace(this_process(), host="elsewhere"))
    store.objects.write(claim_name(step.identity, held.number), elsewhere.to_json())
    (store.directory / elsewhere.attempt).write_text("half.txt", "half")
    long_ago = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - 60 * DAY))
    records = visible(store)
    assert [record.name for record in records.values() if record.alias_of]
    for record in records.values():
        rewrite_record(store, record.identity, provenance=replace(record.provenance, started=long_ago))


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    first = tmp_path_factory.mktemp("gc") / "first"
    make_store(str(first))
    age(first, 60)
    project = Struck(first)
    yield project
    project.close()


@pytest.fixture(scope="module")
def operations(struck: Struck) -> list[str]:
    """Return the operations of an undisturbed gc."""
    struck.reset()
    ended = struck.gc()
    assert ended.status == 0, ended.said
    is_right(struck)
    return ended.operations


def is_right(struck: Struck) -> None:
    """Assert that gc deleted all garbage and nothing else, and that nothing needs a rebuild."""
    store = Store(str(struck.store))
    records = struck.visible()
    assert records.keys() == STAY
    assert directories(store) == {record.attempt for record in records.values()}
    assert store.state_identities() == set()
    assert ran(run(store.prefix, end=END, again=AGAIN)) == set()


def test_a_power_cut_brings_back_no_output_that_was_deleted(struck: Struck) -> None:
    struck.reset()
    struck.synced.unlink(missing_ok=True)
    assert struck.gc().status == 0
    ends = {path: parse_end(path.read_bytes(), f"{ENDS}/{path.name}") for path in (struck.store / ENDS).iterdir()}
    collected = [path for path, end in ends.items() if isinstance(end, End) and end.how is How.COLLECTED]
    synced = struck.synced.read_text().splitlines()
    assert len(collected) == 4
    assert all(state_of(path.stat()) in synced for path in collected)


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, PARTS_OF_WORK))])
def test_kill_9_at_any_operation_of_gc(struck: Struck, operations: list[str], part: int) -> None:
    for at in share(changes(operations), part):
        where = f"{at}: {operations[at]}"
        struck.reset()
        killed = struck.gc(Strike.KILL, at)
        # If a claim needed no renewal this time, gc had fewer operations and came to its end.
        assert killed.status == -9 or len(killed.operations) <= at, where
        assert struck.visible().keys() >= STAY, where
        ended = struck.gc()
        assert ended.status == 0, f"{where}\n{ended.said}"
        is_right(struck)


def test_after_kill_9_at_any_operation_of_gc_a_run_makes_what_it_lacks(struck: Struck, operations: list[str]) -> None:
    wanted: dict[str, Any] = {"source": SOURCE, "copy": COPY, "end": END, "one": BOTH[0], "two": BOTH[1]}
    for at in changes(operations)[::6]:
        struck.reset()
        assert struck.gc(Strike.KILL, at).status == -9
        before = struck.visible()
        done = run(str(struck.store), **wanted)
        assert {result.step.identity for result in done.having(Status.RAN)}.isdisjoint(before)
        assert struck.visible().keys() >= {step.identity for step in wanted.values()}


@pytest.mark.parametrize(("strike", "error"), [(Strike.ONCE, "EIO"), (Strike.WRITES, "ENOSPC")])
def test_an_error_at_any_operation_of_gc_is_told_clearly_and_loses_nothing(
    struck: Struck, operations: list[str], strike: Strike, error: str
) -> None:
    for at in changes(operations)[:: 2 * PARTS_OF_WORK + 3]:
        where = f"{at}: {operations[at]}"
        struck.reset()
        ended = struck.gc(strike, at, error)
        assert ended.status in (0, 5), f"{where}\n{ended.said}"
        assert "Traceback" not in ended.said, f"{where}\n{ended.said}"
        struck.visible()
        assert struck.gc().status == 0, where
        is_right(struck)
