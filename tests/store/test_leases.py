"""Leases as single objects: answers that get lost, dead holders, garbled and removed documents, late writers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import asdict, replace

from marin import Context, ExecutorStep, execution
from marin.errors import CorruptRecord, LeaseLost, StoreError
from marin.store.files.verify import Check
from marin.store.layout import lease_name
from marin.store.lease import EXPIRY, Lease, LeaseDocument, State, Watch, acquire, read_lease
from marin.store.objects.local import LocalObjects
from marin.store.objects.objects import Objects
from marin.store.process import Holder, this_process
from marin.store.record import Record
from marin.store.store import Store
from tests.support.project import ROOT
from tests.support.toy import Blob, Join, Write, planned, ran, run, statuses

IDENTITY = "0" * 64


def lease_file(prefix: str, step: ExecutorStep[Blob]) -> Path:
    return Path(prefix) / lease_name(step.identity)


def committed(prefix: str, step: ExecutorStep[Blob]) -> Record:
    record = Store(prefix).record(step.identity)
    assert record is not None
    assert Store(prefix).verify(record, Check.CHECKSUMS) == []
    return record


def taken(objects: Objects, *, by_force: bool = False) -> Lease:
    lease = acquire(objects, IDENTITY, lambda token: f"toy/x.{token}", lambda _: by_force)
    assert isinstance(lease, Lease)
    return lease


class LostAnswers(LocalObjects):
    """The next write happens, and its writer hears an error: what a broken connection does."""

    broken = False

    def compare_and_swap(self, name: str, old: bytes | None, new: bytes) -> bool:
        swapped = super().compare_and_swap(name, old, new)
        if self.broken:
            self.broken = False
            raise StoreError(f"{name}: the connection broke")
        return swapped


class RetriedWrites(LocalObjects):
    """Every write is sent twice, as a client does that got no answer: the second time its precondition fails."""

    def compare_and_swap(self, name: str, old: bytes | None, new: bytes) -> bool:
        super().compare_and_swap(name, old, new)
        return super().compare_and_swap(name, old, new)


def test_a_lease_whose_answer_was_lost_can_be_taken_by_the_same_process(tmp_path: Path) -> None:
    objects = LostAnswers(tmp_path / "store")
    objects.broken = True
    with pytest.raises(StoreError):
        taken(objects)
    assert taken(objects).token == 2


def test_a_holder_whose_beat_or_commit_was_not_answered_still_has_its_lease(tmp_path: Path) -> None:
    objects = LostAnswers(tmp_path / "store")
    lease, lost = taken(objects), threading.Event()
    objects.broken = True
    lease.start_beating(lost.set, every=0.01)
    until(lambda: beat(objects) > 3)
    assert not lost.is_set()
    lease.stop_beating()
    objects.broken = True
    with pytest.raises(StoreError):
        lease.commit()
    lease.release()
    now = read_lease(objects, IDENTITY)
    assert now is not None
    assert now.state is State.COMMITTED


def beat(objects: Objects) -> int:
    lease = read_lease(objects, IDENTITY)
    return lease.beat if lease is not None else -1


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "it did not come true"
        time.sleep(0.005)


def test_writes_that_a_client_repeats_are_one_write(tmp_path: Path) -> None:
    objects = RetriedWrites(tmp_path / "store")
    lease = taken(objects)
    assert isinstance(acquire(objects, IDENTITY, lambda token: f"toy/x.{token}", lambda _: False), LeaseDocument)
    second = taken(objects, by_force=True)
    with pytest.raises(LeaseLost):
        lease.commit()
    second.commit()
    assert second.token == 2


def test_of_many_threads_of_one_process_one_gets_the_lease(tmp_path: Path) -> None:
    for turn in range(10):
        won = race(LocalObjects(tmp_path / f"store-{turn}"), 8)
        assert sorted(isinstance(lease, Lease) for lease in won) == [False] * 7 + [True]


def race(objects: Objects, racers: int) -> list[Lease | LeaseDocument]:
    barrier, won = threading.Barrier(racers), list[Lease | LeaseDocument]()

    def take() -> None:
        barrier.wait()
        won.append(acquire(objects, IDENTITY, lambda token: f"toy/x.{token}", lambda _: False))

    threads = [threading.Thread(target=take) for _ in range(racers)]
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
    """A process that has said who it is, and lives until it is told to end. wrap: a command that starts it."""

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
    os.waitid(os.P_PID, other.process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
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


OLD = {  # as written before the process namespace, the claim and the format were recorded
    "state": "held",
    "token": 3,
    "attempt": "toy-write/a-000000000000.0003",
    "holder": {"user": "ann", "host": "h", "boot": "b", "pid": 1, "started": "1"},
    "since": "2026-11-20 10:00:00 UTC",
    "beat": 7,
    "progress": "",
}


def test_a_lease_of_an_earlier_marin_is_read_and_watched(prefix: str) -> None:
    objects = LocalObjects(Path(prefix))
    holder = {name: held for name, held in asdict(this_process()).items() if name != "space"} | {"pid": 2**22 + 1}
    objects.write(lease_name(IDENTITY), json.dumps(OLD | {"holder": holder}).encode())
    now = [0.0]
    watch = Watch(clock=lambda: now[0])

    def attempt() -> Lease | LeaseDocument:
        return acquire(objects, IDENTITY, lambda token: f"toy/x.{token}", lambda it: watch.is_dead(IDENTITY, it))

    assert isinstance(attempt(), LeaseDocument)
    now[0] = EXPIRY + 1
    lease = attempt()
    assert isinstance(lease, Lease)
    assert lease.token == 4


def test_a_lease_from_an_hour_ahead_is_dead_as_soon_as_one_of_now(prefix: str) -> None:
    """``since`` is for people; only our own watching counts."""
    now = [0.0]
    watch = Watch(clock=lambda: now[0])
    for since in ("2026-11-21 10:00:00 UTC", "2099-01-01 00:00:00 UTC", "1970-01-01 00:00:00 UTC", "whenever"):
        lease = LeaseDocument.from_plain(OLD | {"since": since})
        assert not watch.is_dead(since, lease)
        now[0] += EXPIRY - 1
        assert not watch.is_dead(since, lease)
        now[0] += 2
        assert watch.is_dead(since, lease)


GARBLED = [b"{not json", b"null", b"[]", b'{"state": "held"}', b"\xff\xfe", json.dumps(OLD).encode()[:-40]]


@pytest.mark.parametrize("content", GARBLED)
def test_a_garbled_lease_stops_a_rebuild_and_removing_it_loses_nothing(prefix: str, content: bytes) -> None:
    step, beside = Write(text="hello", label="a"), Write(text="other", label="b")
    before = committed(prefix, step) if ran(run(prefix, end=step)) else None
    assert before is not None
    lease_file(prefix, step).write_bytes(content)
    assert ran(run(prefix, end=step)) == set()  # what is committed needs no lease
    again = run(prefix, rebuild=("a",), end=step, beside=beside)
    assert statuses(again) == {"toy-write/a": "failed", "toy-write/b": "ran"}
    assert "delete the file and run again" in again.results[step].error
    assert committed(prefix, step) == before
    lease_file(prefix, step).unlink()
    assert ran(run(prefix, end=step)) == set()
    assert ran(run(prefix, rebuild=("a",), end=step)) == {"toy-write/a"}
    assert committed(prefix, step).attempt != before.attempt
    assert (Path(prefix) / before.attempt / "text.txt").read_text() == "hello"


def test_a_lease_of_a_later_format_says_so(prefix: str) -> None:
    step = Write(text="hello", label="a")
    lease_file(prefix, step).parent.mkdir(parents=True)
    lease_file(prefix, step).write_text('{"format": 2, "epoch": 7}')
    with pytest.raises(CorruptRecord, match="lease format 2, this marin reads up to 1; update marin"):
        run(prefix, end=step)


@pytest.mark.parametrize("content", [b"", None], ids=["emptied by a power cut", "removed"])
def test_without_leases_a_rebuild_never_writes_into_what_is_committed(prefix: str, content: bytes | None) -> None:
    step = Write(text="hello", label="a")
    for rebuild in ((), ("a",), ("a",)):
        run(prefix, rebuild=rebuild, end=step)
    before = committed(prefix, step)
    assert before.token == 3
    if content is None:
        shutil.rmtree(Path(prefix) / ".marin/leases")
    else:
        lease_file(prefix, step).write_bytes(content)
    for dead in ("0001", "0002"):  # garbage was collected, too
        shutil.rmtree(Path(prefix) / f"{before.attempt.removesuffix('0003')}{dead}")
    assert ran(run(prefix, end=step)) == set()
    assert ran(run(prefix, rebuild=("a",), end=step)) == {"toy-write/a"}
    after = committed(prefix, step)
    assert after.token == 4
    assert (Path(prefix) / before.attempt / "text.txt").read_text() == "hello"


def test_what_a_dead_attempt_left_is_never_written_into(prefix: str) -> None:
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    first = Path(prefix) / committed(prefix, step).attempt
    (first / "half.txt").write_text("of a dead attempt")
    shutil.rmtree(Path(prefix) / ".marin/leases")
    shutil.rmtree(Path(prefix) / ".marin/records")
    assert ran(run(prefix, end=step)) == {"toy-write/a"}
    assert Store(prefix).output(committed(prefix, step)).names() == ["text.txt"]


EDITS = [
    {"token": 0},
    {"token": 0, "state": "released"},
    {"state": "committed"},
    {"state": "committed", "attempt": "toy-write/nowhere.0001"},
    {"state": "released"},
    {"attempt": "", "holder": {**OLD["holder"], "pid": -1}},  # pyright: ignore[reportGeneralTypeIssues]
    {"unknown": "field"},
]


@pytest.mark.parametrize("edit", EDITS, ids=range(len(EDITS)))
def test_a_lease_edited_by_hand_loses_nothing(prefix: str, edit: dict[str, object]) -> None:
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    before = committed(prefix, step)
    lease = lease_file(prefix, step)
    lease.write_text(json.dumps({**json.loads(lease.read_text()), **edit}))
    run(prefix, rebuild=("a",), end=Join(parts=(step,), label="j"))
    assert (Path(prefix) / before.attempt / "text.txt").read_text() == "hello"
    assert committed(prefix, Join(parts=(step,), label="j")).bytes == 5
    assert committed(prefix, step).token >= before.token


@pytest.mark.parametrize("attempt", ["../elsewhere", "/etc", "toy-write/../../x"])
def test_a_lease_that_points_outside_the_store_is_refused(prefix: str, attempt: str) -> None:
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    lease = lease_file(prefix, step)
    lease.write_text(json.dumps({**json.loads(lease.read_text()), "attempt": attempt}))
    (Path(prefix) / ".marin/records" / lease.name).unlink()
    with pytest.raises(CorruptRecord, match="outside the store"):
        run(prefix, end=step)


def test_a_committed_lease_that_names_another_steps_output_commits_nothing(prefix: str) -> None:
    step, other = Write(text="hello", label="a"), Write(text="other", label="b")
    run(prefix, end=step, other=other)
    lease = lease_file(prefix, step)
    lease.write_text(json.dumps({**json.loads(lease.read_text()), "attempt": committed(prefix, other).attempt}))
    (Path(prefix) / ".marin/records" / lease.name).unlink()
    with pytest.raises(CorruptRecord, match="edited by hand"):
        planned(prefix, end=step).must_not_stop()
    committed(prefix, other)


class Tamper(ExecutorStep[Blob], op="toy-tamper"):
    """Somebody does this to its lease while it runs: None removes it."""

    lease: str = execution(default="")
    content: str | None = execution(default=None)

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "mine")
        if self.content is None:
            Path(self.lease).unlink()
        else:
            Path(self.lease).write_text(self.content)
        return Blob(bytes=4)


@pytest.mark.parametrize("content", [None, "", "{"])
def test_who_loses_its_lease_object_does_not_commit_and_says_why(prefix: str, content: str | None) -> None:
    lease = lease_file(prefix, Tamper())
    step = Tamper(lease=str(lease), content=content, label="t")
    failed = run(prefix, end=step)
    assert statuses(failed) == {"toy-tamper/t": "failed"}
    assert "LeaseLost" in failed.results[step].error
    assert "It cannot commit" in failed.results[step].error
    assert Store(prefix).record(step.identity) is None if content != "{" else True


def test_a_late_writer_of_a_record_does_not_hide_a_newer_one(prefix: str) -> None:
    """A driver slept between its two last writes, and somebody made the step again meanwhile."""
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    old = committed(prefix, step)
    run(prefix, rebuild=("a",), end=step)
    new = committed(prefix, step)
    Store(prefix).commit(old)
    assert committed(prefix, step) == new
    assert new.token > old.token


def test_an_empty_record_is_made_good_from_its_output(prefix: str) -> None:
    """A power cut leaves files of zero bytes: as good as none, and never trusted."""
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    before = committed(prefix, step)
    record = Path(prefix) / ".marin/records" / f"{step.identity}.json"
    record.write_bytes(b"")
    assert ran(run(prefix, end=step)) == set()
    assert committed(prefix, step) == before
    record.write_bytes(b"")
    (Path(prefix) / before.attempt / ".marin/record.json").write_bytes(b"")
    assert ran(run(prefix, end=step)) == {"toy-write/a"}
    assert committed(prefix, step).attempt != before.attempt
