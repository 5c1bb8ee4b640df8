"""Test claims and ends as single objects: lost answers, dead holders, garbled and removed files, late writers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from marin import Context, ExecutorStep, execution
from marin.errors import CorruptRecord, LeaseLost, StoreError
from marin.store.ends import (
    EXPIRY,
    Claim,
    End,
    Held,
    How,
    Watch,
    end_attempt,
    read_claims,
    read_end,
    read_ends,
    take,
)
from marin.store.files.verify import Check
from marin.store.in_use import Beat
from marin.store.layout import CLAIMS, claim_name, end_name
from marin.store.objects.local import LocalObjects
from marin.store.objects.objects import Objects
from marin.store.process import Holder, this_process
from marin.store.record import Record
from marin.store.store import Store
from tests.store.test_document import RECORD
from tests.support.project import ROOT
from tests.support.toy import Blob, Join, Write, forget, ran, run, statuses

IDENTITY = RECORD.identity


def claim_file(prefix: str, step: ExecutorStep[Blob], number: int = 1) -> Path:
    return Path(prefix) / claim_name(step.identity, number)


def end_file(prefix: str, step: ExecutorStep[Blob], number: int = 1) -> Path:
    return Path(prefix) / end_name(step.identity, number)


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def committed(prefix: str, step: ExecutorStep[Blob]) -> Record:
    record = Store(prefix).record(step.identity)
    assert record is not None
    assert Store(prefix).verify(record, Check.CHECKSUMS) == []
    return record


def directory(number: int) -> str:
    return f"toy/x.{number:04d}"


def record_of(number: int) -> bytes:
    """Return the record that attempt ``number`` commits."""
    return replace(RECORD, token=number, attempt=directory(number)).to_bytes()


def asked(objects: Objects, *, by_force: bool = False) -> Held | Claim | Record:
    return take(objects, IDENTITY, directory, lambda _: by_force)


def taken(objects: Objects, *, by_force: bool = False) -> Held:
    held = asked(objects, by_force=by_force)
    assert isinstance(held, Held)
    return held


def output(root: Path) -> Record:
    """Return the committed record. Asserts that exactly one attempt committed."""
    objects = LocalObjects(root)
    ends = [read_end(objects, IDENTITY, number) for number in read_ends(objects, {IDENTITY: 0})[IDENTITY]]
    assert sum(isinstance(end, Record) for end in ends) == 1
    record = Store(str(root)).record(IDENTITY)
    assert record is not None
    return record


class Paused(LocalObjects):
    """A process that stands still before its call number ``at`` while others run ``meanwhile``. calls: so far."""

    def __init__(self, root: Path, at: int = 0, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__(root)
        self.at, self.meanwhile, self.calls = at, meanwhile, 0
        self.inside = False

    @contextmanager
    def call(self) -> Generator[None]:
        if self.inside:  # a call within another call
            yield
            return
        self.calls += 1
        if self.calls == self.at:
            self.meanwhile()
        self.inside = True
        try:
            yield
        finally:
            self.inside = False

    def read(self, name: str) -> bytes | None:
        with self.call():
            return super().read(name)

    def write(self, name: str, content: bytes) -> None:
        with self.call():
            super().write(name, content)

    def create(self, name: str, content: bytes, *, lasting: bool = False) -> bool:
        with self.call():
            return super().create(name, content, lasting=lasting)


def hold(objects: Objects) -> Held | Claim | Record:
    """Take, renew and commit a claim. Raises LeaseLost at the commit."""
    held = asked(objects)
    if isinstance(held, Held):
        with suppress(LeaseLost):  # most sleepers notice the loss here; this one continues
            held.renew()
        held.commit(record_of(held.number))
    return held


@pytest.mark.parametrize("commits", [True, False], ids=["the other has committed", "the other is at work"])
def test_a_paused_holder_that_wakes_up_after_it_was_taken_over_cannot_commit_at_each_operation(
    tmp_path: Path, commits: bool
) -> None:
    whole = Paused(tmp_path / "whole")
    hold(whole)
    assert output(tmp_path / "whole").token == 1
    lost = 0
    for at in range(1, whole.calls + 1):
        root, others = tmp_path / f"store-{at}", list[Held]()

        def take_over(root: Path = root, others: list[Held] = others) -> None:
            others.append(taken(LocalObjects(root), by_force=True))
            if commits:
                others[0].commit(record_of(others[0].number))

        got: Held | Claim | Record | LeaseLost
        try:
            got = hold(Paused(root, at, take_over))
        except LeaseLost as error:
            got = error
        (other,) = others
        if not commits:
            assert Store(str(root)).record(IDENTITY) is None
            other.commit(record_of(other.number))
        if other.number == 1:  # the sleeper had no claim yet
            assert isinstance(got, Claim | Record), at
        else:
            assert isinstance(got, LeaseLost), at
            assert "taken over" in str(got)
            lost += 1
        assert output(root).token == other.number, at
    assert lost >= 3  # before the renewal, in the middle, and before the commit
    late = asked(LocalObjects(tmp_path / "whole"), by_force=True)
    assert isinstance(late, Record)
    assert late.token == 1


def test_a_holder_that_commits_while_it_is_taken_over_commits_or_is_told_at_each_operation(tmp_path: Path) -> None:
    winners = list[str]()
    for at in range(1, 100):
        root = tmp_path / f"store-{at}"
        held, told = taken(LocalObjects(root)), list[str]()

        def commit(held: Held = held, told: list[str] = told) -> None:
            try:
                held.commit(record_of(1))
                told.append("committed")
            except LeaseLost:
                told.append("lost")

        taker = Paused(root, at, commit)
        got = asked(taker, by_force=True)
        if not told:  # the taker needs fewer calls than ``at``
            break
        if isinstance(got, Record):
            assert (told, got.token) == (["committed"], 1), at
        else:
            assert isinstance(got, Held), at
            assert told == ["lost"], at
            got.commit(record_of(got.number))
        assert output(root).token == (1 if told == ["committed"] else 2), at
        winners += told
    assert winners == sorted(winners)  # the holder commits up to some call, and is told of its loss after that call
    assert set(winners) == {"committed", "lost"}


class LostAnswers(LocalObjects):
    """A store with a broken connection: the next write succeeds, but its writer gets an error."""

    broken = False

    def write(self, name: str, content: bytes) -> None:
        super().write(name, content)
        self._answer(name)

    def create(self, name: str, content: bytes, *, lasting: bool = False) -> bool:
        created = super().create(name, content, lasting=lasting)
        self._answer(name)
        return created

    def _answer(self, name: str) -> None:
        if self.broken:
            self.broken = False
            raise StoreError(f"{name}: the connection broke")


class RetriedWrites(LocalObjects):
    """A store that gets every write twice, as from a client without an answer. The second precondition fails."""

    def write(self, name: str, content: bytes) -> None:
        super().write(name, content)
        super().write(name, content)

    def create(self, name: str, content: bytes, *, lasting: bool = False) -> bool:
        super().create(name, content, lasting=lasting)
        return super().create(name, content, lasting=lasting)


def test_a_claim_whose_answer_was_lost_can_be_taken_by_the_same_process(tmp_path: Path) -> None:
    objects = LostAnswers(tmp_path / "store")
    objects.broken = True
    with pytest.raises(StoreError):
        taken(objects)
    assert taken(objects).number == 2


def test_a_holder_whose_beat_or_commit_was_not_answered_still_has_its_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marin.store.ends.BEAT_EVERY", 0.01)
    objects = LostAnswers(tmp_path / "store")
    held = taken(objects)
    objects.broken = True
    held.start_beating()
    until(lambda: beat(objects) > 3)
    assert not held.lost
    held.stop_beating()
    objects.broken = True
    with pytest.raises(StoreError):
        held.commit(record_of(1))
    held.release()
    assert output(tmp_path / "store").token == 1


def beat(objects: Objects) -> int:
    return read_claims(objects, {IDENTITY: 0})[IDENTITY].beat


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "it did not come true"
        time.sleep(0.005)


def test_a_holder_that_was_taken_over_hears_it_at_its_next_beat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marin.store.ends.BEAT_EVERY", 0.01)
    objects = LocalObjects(tmp_path / "store")
    held = taken(objects)
    other = taken(objects, by_force=True)
    held.start_beating()
    until(lambda: held.lost != "")
    assert held.taken_by is not None
    assert held.taken_by.how is How.TAKEN_OVER
    assert "It cannot commit" in held.lost
    held.release()
    other.commit(record_of(2))
    assert output(tmp_path / "store").token == 2


def test_an_attempt_that_was_given_back_is_followed_by_the_next_number(tmp_path: Path) -> None:
    objects = LocalObjects(tmp_path / "store")
    first = taken(objects)
    first.release("it failed")
    first.release("twice")
    end = read_end(objects, IDENTITY, 1)
    assert isinstance(end, End)
    assert (end.how, end.attempt, end.why) == (How.RELEASED, directory(1), "it failed")
    assert read_claims(objects, {IDENTITY: 0}) == {}
    second = taken(objects)
    assert (second.number, second.attempt) == (2, directory(2))
    with pytest.raises(LeaseLost):
        first.commit(record_of(1))
    assert Store(str(tmp_path / "store")).record(IDENTITY) is None


def test_an_output_that_was_collected_is_none_until_it_is_made_again(tmp_path: Path) -> None:
    objects, store = LocalObjects(tmp_path / "store"), Store(str(tmp_path / "store"))
    taken(objects).commit(record_of(1))
    assert isinstance(asked(objects), Record)
    assert end_attempt(objects, IDENTITY, 2, How.COLLECTED, "", "nobody needs it")
    assert store.record(IDENTITY) is None
    again = taken(objects)
    assert again.number == 3
    again.commit(record_of(3))
    made = store.record(IDENTITY)
    assert made is not None
    assert made.token == 3


def test_writes_that_a_client_repeats_are_one_write(tmp_path: Path) -> None:
    objects = RetriedWrites(tmp_path / "store")
    held = taken(objects)
    assert isinstance(asked(objects), Claim)
    second = taken(objects, by_force=True)
    with pytest.raises(LeaseLost):
        held.commit(record_of(1))
    second.commit(record_of(2))
    assert output(tmp_path / "store").token == 2


def test_of_many_threads_of_one_process_one_gets_the_claim(tmp_path: Path) -> None:
    for turn in range(10):
        won = race(LocalObjects(tmp_path / f"store-{turn}"), 8)
        assert sorted(isinstance(held, Held) for held in won) == [False] * 7 + [True]


def race(objects: Objects, racers: int) -> list[Held | Claim | Record]:
    barrier, won = threading.Barrier(racers), list[Held | Claim | Record]()

    def ask() -> None:
        barrier.wait()
        won.append(asked(objects))

    threads = [threading.Thread(target=ask) for _ in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


DESCRIBE = (
    "import sys; from marin.store.process import *; "
    "print(this_process().to_json().decode(), flush=True); sys.stdin.read()"
)


class Other:
    """A process that has said who it is, and lives until it is told to end. wrap: a command that starts the process."""

    def __init__(self, *wrap: str) -> None:
        self.process = subprocess.Popen(
            [*wrap, sys.executable, "-c", DESCRIBE],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.holder = Holder.parse(line.encode()) if line else None

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def other() -> Iterator[Other]:
    process = Other()
    yield process
    process.kill()


def test_a_process_of_this_host_is_gone_when_it_is_killed_even_if_nobody_reaped_it(other: Other) -> None:
    assert other.holder is not None
    assert not other.holder.is_gone()
    other.process.send_signal(signal.SIGSTOP)
    assert not other.holder.is_gone()
    other.process.kill()
    os.waitid(os.P_PID, other.process.pid, os.WEXITED | os.WNOWAIT)  # the process is a zombie now
    assert other.holder.is_gone()
    other.kill()
    assert other.holder.is_gone()


@pytest.mark.parametrize("changed", ["host", "boot", "space"])
@pytest.mark.parametrize("value", ["elsewhere", "unknown"])
def test_nothing_proves_that_a_process_of_elsewhere_is_gone(other: Other, changed: str, value: str) -> None:
    other.kill()
    assert other.holder is not None
    assert not replace(other.holder, **{changed: value}).is_gone()


def test_a_process_id_that_was_used_again_is_not_the_old_process() -> None:
    assert replace(this_process(), started="1").is_gone()
    assert not this_process().is_gone()


@pytest.mark.parametrize(
    "wrap",
    [
        ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
        ("unshare", "--pid", "--fork", "--kill-child"),
        ("unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"),
    ],
    ids=["container", "container with the host's /proc", "another host name"],
)
def test_a_container_and_its_host_do_not_take_each_other_for_dead(wrap: tuple[str, ...]) -> None:
    inside = Other(*wrap)
    if inside.holder is None:
        inside.kill()
        pytest.skip("making namespaces needs root")
    me = this_process()
    assert me.boot == inside.holder.boot
    assert not inside.holder.is_gone()
    asked = [
        *wrap,
        sys.executable,
        "-c",
        f"from marin.store.process import *; print(Holder(**{asdict(me)!r}).is_gone())",
    ]
    done = subprocess.run(
        asked, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
    inside.kill()
    assert not inside.holder.is_gone()


def test_a_process_that_the_system_hides_is_not_taken_for_dead(other: Other) -> None:
    """Shared machines mount /proc so that users see only their own processes."""
    assert other.holder is not None
    if os.geteuid() != 0:
        pytest.skip("hiding processes needs root")
    script = (
        "import os; from marin.store.process import *; this_process()\n"
        f"theirs = Holder(**{asdict(other.holder)!r})\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"print(os.path.exists('/proc/{other.holder.pid}'), theirs.is_gone())"
    )
    prepare = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    asked = ["unshare", "--mount", "sh", "-c", prepare, "sh", sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("False False\n", 0), done.stderr


HOLDER = {"user": "ann", "host": "h", "boot": "b", "pid": 1, "started": "1"}
CLAIM: dict[str, Any] = {
    "number": 1,
    "attempt": "toy-write/a-000000000000.0001",
    "holder": HOLDER,
    "since": "2026-11-20 10:00:00 UTC",
    "id": "1",
    "beat": 7,
    "progress": "",
}


def test_the_beat_of_a_run_of_an_earlier_marin_is_read() -> None:
    """Test the beat of a killed run from before claims had numbers and processes a namespace."""
    before = {
        "state": "held",
        "token": 1,
        "attempt": ".marin/uses/20261120T100000000-exp1-0123456789ab",
        "holder": HOLDER,
        "since": "2026-11-20 10:00:00 UTC",
        "beat": 7,
        "progress": "",
    }
    read = Beat.parse_file(json.dumps(before).encode(), "20261120T100000000-exp1-0123456789ab.beat", "beat", "")
    assert (read.beat, read.holder.pid) == (7, 1)
    assert not read.holder.is_gone()


def test_a_claim_from_an_hour_ahead_is_dead_as_soon_as_one_of_now() -> None:
    """``since`` is for people. Only our own observation counts."""
    now = [0.0]
    watch = Watch(clock=lambda: now[0])
    for since in ("2026-11-21 10:00:00 UTC", "2099-01-01 00:00:00 UTC", "1970-01-01 00:00:00 UTC", "whenever"):
        claim = Claim.from_plain(CLAIM | {"since": since})
        assert not watch.is_dead(since, claim)
        now[0] += EXPIRY - 1
        assert not watch.is_dead(since, claim)
        now[0] += 2
        assert watch.is_dead(since, claim)


GARBLED = [b"{not json", b"null", b"[]", b'{"state": "held"}', b"\xff\xfe", json.dumps(CLAIM).encode()[:-40]]


@pytest.mark.parametrize("content", GARBLED)
def test_a_garbled_claim_stops_a_rebuild_and_removing_it_loses_nothing(prefix: str, content: bytes) -> None:
    step, beside = Write(text="hello", label="a"), Write(text="other", label="b")
    run(prefix, end=step)
    before = committed(prefix, step)
    for number in (1, 2):
        claim_file(prefix, step, number).write_bytes(content)
    assert ran(run(prefix, end=step)) == set()  # a committed output needs no claim
    again = run(prefix, rebuild=("a",), end=step, beside=beside)
    assert statuses(again) == {"toy-write/a": "failed", "toy-write/b": "ran"}
    assert claim_name(step.identity, 2) in again.results[step].error
    assert "delete the file and run again" in again.results[step].error
    assert committed(prefix, step) == before
    claim_file(prefix, step, 2).unlink()
    assert ran(run(prefix, end=step)) == set()
    assert ran(run(prefix, rebuild=("a",), end=step)) == {"toy-write/a"}
    assert committed(prefix, step).attempt != before.attempt
    assert (Path(prefix) / before.attempt / "text.txt").read_text() == "hello"


def test_a_claim_of_a_later_format_says_so(prefix: str) -> None:
    step = Write(text="hello", label="a")
    put(claim_file(prefix, step), b'{"format": 2, "epoch": 7}')
    with pytest.raises(CorruptRecord, match="claim format 2, this marin reads up to 1; update marin"):
        run(prefix, end=step)


@pytest.mark.parametrize("content", [b"", None], ids=["emptied by a power cut", "removed"])
def test_without_claims_a_rebuild_never_writes_into_what_is_committed(prefix: str, content: bytes | None) -> None:
    step = Write(text="hello", label="a")
    for rebuild in ((), ("a",), ("a",)):
        run(prefix, rebuild=rebuild, end=step)
    before = committed(prefix, step)
    assert before.token == 3
    if content is None:
        shutil.rmtree(Path(prefix) / CLAIMS)
    else:
        for number in (3, 4):
            claim_file(prefix, step, number).write_bytes(content)
    for dead in ("0001", "0002"):  # gc collected the garbage, too
        shutil.rmtree(Path(prefix) / f"{before.attempt.removesuffix('0003')}{dead}")
    assert ran(run(prefix, end=step)) == set()
    assert ran(run(prefix, rebuild=("a",), end=step)) == {"toy-write/a"}
    after = committed(prefix, step)
    assert after.token == (4 if content is None else 5)
    assert (Path(prefix) / before.attempt / "text.txt").read_text() == "hello"


def test_what_a_dead_attempt_left_is_never_written_into(prefix: str) -> None:
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    first = Path(prefix) / committed(prefix, step).attempt
    (first / "half.txt").write_text("of a dead attempt")
    forget(prefix, step)
    assert ran(run(prefix, end=step)) == {"toy-write/a"}
    record = committed(prefix, step)
    assert record.token == 2
    assert Store(prefix).output(record).names() == ["text.txt"]
    assert (first / "half.txt").exists()


EDITS: list[dict[str, Any]] = [
    {},
    {"number": 0},
    {"number": 7},
    {"attempt": ""},
    {"attempt": "toy-write/nowhere.0001"},
    {"id": "", "beat": -1},
    {"unknown": "field"},
]


@pytest.mark.parametrize("edit", EDITS, ids=range(len(EDITS)))
def test_the_claim_of_a_dead_process_that_was_edited_by_hand_loses_nothing(prefix: str, edit: dict[str, Any]) -> None:
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    before = committed(prefix, step)
    dead = {"holder": asdict(this_process()) | {"started": "1"}}
    put(claim_file(prefix, step, 2), json.dumps(CLAIM | dead | edit).encode())
    end = Join(parts=(step,), label="j")
    assert ran(run(prefix, rebuild=("a",), end=end)) == {"toy-write/a", "toy-join/j"}
    assert (Path(prefix) / before.attempt / "text.txt").read_text() == "hello"
    assert committed(prefix, end).bytes == 5
    assert committed(prefix, step).token == 3


@pytest.mark.parametrize("attempt", ["../elsewhere", "/etc", "toy-write/../../x"])
def test_a_claim_that_points_outside_the_store_is_refused(prefix: str, attempt: str) -> None:
    step = Write(text="hello", label="a")
    put(claim_file(prefix, step), json.dumps(CLAIM | {"attempt": attempt}).encode())
    with pytest.raises(CorruptRecord, match="outside the store"):
        run(prefix, end=step)


GARBLED_ENDS = [*GARBLED[:-1], b'{"format": 1, "how": "released", "att', b'{\n"format": 1,\n"identity": "0000']


@pytest.mark.parametrize("content", GARBLED_ENDS)
def test_a_garbled_end_is_damage_and_a_rebuild_goes_past_it(prefix: str, content: bytes) -> None:
    """The garbled end may have been the record: marin never assumes that there is no output."""
    step, beside = Write(text="hello", label="a"), Write(text="other", label="b")
    run(prefix, end=step)
    before = committed(prefix, step)
    end_file(prefix, step).write_bytes(content)
    remedy = "(--rebuild|empty the file and run again)"
    with pytest.raises(CorruptRecord, match=f"{end_name(step.identity, 1)}.*{remedy}"):
        run(prefix, end=step)
    shutil.copy(Path(prefix) / before.attempt / ".marin/record.json", end_file(prefix, step))  # as the message says
    assert ran(run(prefix, end=step)) == set()
    end_file(prefix, step).write_bytes(content)
    assert ran(run(prefix, rebuild=("a",), end=step, beside=beside)) == {"toy-write/a", "toy-write/b"}
    assert committed(prefix, step).token == 2
    assert (Path(prefix) / before.attempt / "text.txt").read_text() == "hello"
    assert ran(run(prefix, end=step)) == set()


def test_a_garbled_end_of_a_failure_can_be_emptied(prefix: str) -> None:
    step, dead = Write(text="hello", label="a"), {"holder": asdict(this_process()) | {"started": "1"}}
    put(claim_file(prefix, step), json.dumps(CLAIM | dead).encode())
    put(end_file(prefix, step), b'{"format": 1, "how": "released", "att')
    with pytest.raises(CorruptRecord, match="empty the file and run again"):
        run(prefix, end=step)
    end_file(prefix, step).write_bytes(b"")
    assert ran(run(prefix, end=step)) == {"toy-write/a"}
    assert committed(prefix, step).token == 2


def test_the_end_of_another_step_or_attempt_commits_nothing(prefix: str) -> None:
    step, other = Write(text="hello", label="a"), Write(text="other", label="b")
    run(prefix, end=step, other=other)
    before = committed(prefix, step)
    shutil.copy(end_file(prefix, other), end_file(prefix, step))
    with pytest.raises(CorruptRecord, match=f"belongs to {other.identity}.*edited by hand"):
        run(prefix, end=step)
    end_file(prefix, step).write_bytes(before.to_bytes())
    shutil.copy(end_file(prefix, step), end_file(prefix, step, 2))
    with pytest.raises(CorruptRecord, match=rf"{step.identity}\.0002\.json belongs to {step.identity}\.0001"):
        run(prefix, end=step)
    end_file(prefix, step, 2).unlink()
    assert committed(prefix, step) == before
    committed(prefix, other)


class Tamper(ExecutorStep[Blob], op="toy-tamper"):
    """A step that overwrites a control file of its own attempt during the run. With None it removes the file."""

    file: str = execution(default="")
    content: str | None = execution(default=None)

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "mine")
        if self.content is None:
            Path(self.file).unlink()
        else:
            Path(self.file).parent.mkdir(exist_ok=True)
            Path(self.file).write_text(self.content)
        return Blob(bytes=4)


@pytest.mark.parametrize("content", [None, "", "{"])
def test_who_loses_its_claim_while_nobody_takes_over_commits(prefix: str, content: str | None) -> None:
    step = Tamper(file=str(claim_file(prefix, Tamper())), content=content, label="t")
    assert ran(run(prefix, end=step)) == {"toy-tamper/t"}
    assert committed(prefix, step).token == 1
    assert ran(run(prefix, end=step)) == set()


@pytest.mark.parametrize("content", ["", "{"])
def test_who_finds_an_end_of_its_attempt_does_not_commit_and_says_why(prefix: str, content: str) -> None:
    step = Tamper(file=str(end_file(prefix, Tamper())), content=content, label="t")
    failed = run(prefix, end=step)
    assert statuses(failed) == {"toy-tamper/t": "failed"}
    assert "LeaseLost" in failed.results[step].error
    assert "It cannot commit" in failed.results[step].error
    assert end_file(prefix, step).read_text() == content
    if not content:
        assert Store(prefix).record(step.identity) is None


def test_who_was_taken_over_takes_what_counts_instead(prefix: str) -> None:
    """The other process has died since: marin runs the step again under the next number."""
    end = End(how=How.TAKEN_OVER, attempt="toy-tamper/t.0001", by="ann@h (process 1)", when="now")
    step = Tamper(file=str(end_file(prefix, Tamper())), content=end.to_json().decode(), label="t")
    assert ran(run(prefix, end=step)) == {"toy-tamper/t"}
    assert committed(prefix, step).token == 2


def test_an_end_that_a_power_cut_emptied_is_no_output_and_the_step_is_made_again(prefix: str) -> None:
    """A power cut leaves files of zero bytes. marin treats them as missing."""
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    before = committed(prefix, step)
    end_file(prefix, step).write_bytes(b"")
    assert Store(prefix).record(step.identity) is None
    assert ran(run(prefix, end=step)) == {"toy-write/a"}
    after = committed(prefix, step)
    assert (after.token, after.root) == (2, before.root)
    assert after.attempt != before.attempt
    end_file(prefix, step, 3).write_bytes(b"")  # of a rebuild
    assert ran(run(prefix, end=step)) == set()
    assert committed(prefix, step) == after
