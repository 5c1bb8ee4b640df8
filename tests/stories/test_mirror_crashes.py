"""If a mirror dies on the way, nothing half is visible, and the next mirror copies the missing files."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marin.store.ends import Watch
from marin.store.files.verify import Check
from marin.store.store import Store
from marin.upkeep.mirror.copy import mirror
from marin.upkeep.mirror.plan import plan_mirroring
from tests.cli.test_cli import Command
from tests.support.drivers import pause
from tests.support.faults.client import Ended, Strikes
from tests.support.faults.hook import Strike
from tests.support.servers import Act, Operation, Rule, StoreServer
from tests.support.toy import Join, Write, ran, run
from tests.support.visible import visible_by_name
from tests.upkeep.test_mirror import Shards, committed, mirrored, new_prefix

__all__ = ["new_prefix"]

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "from marin.cli.commands import main\n\nmain()\n"


class Cut:
    """A mirror in its own process, killed once a given number of files has arrived."""

    def __init__(self, source: str, target: str) -> None:
        self.command = [*Command.program(), "mirror", "shards", "--from", source, "--to", target]
        self.target = Store(target)

    def kill_when(self, arrived: int) -> None:
        process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for(arrived, process)
        process.kill()
        process.wait()

    def wait_for(self, arrived: int, process: subprocess.Popen[Any]) -> None:
        limit = time.monotonic() + 60
        while len(self.arrived()) < arrived:
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.02)

    def arrived(self) -> set[str]:
        """Return the names of the files that have arrived whole."""
        attempts = self.target.attempts("toy-shards")
        names = [name for attempt in attempts for name in (self.target.directory / attempt).names()]
        return {name.rpartition("/")[2] for name in names}


@pytest.mark.parametrize("kinds", ["s3-file", "s3-gs"])
def test_killed_on_the_way_it_goes_on_with_what_is_missing(
    kinds: str, new_prefix: Any, request: pytest.FixtureRequest
) -> None:
    source, target = (new_prefix(kind) for kind in kinds.split("-"))
    shards = Shards(files=16, size=100, label="shards")
    run(source, end=shards)
    server: StoreServer = request.getfixturevalue("_s3")
    server.obey(Rule(Act.DELAY, name="shard-1", operations=[Operation.READ], seconds=5.0))
    cut = Cut(source, target)
    cut.kill_when(6)
    assert committed(target, shards) is None
    before = cut.arrived()
    server.obey()
    [done] = mirrored(source, target, "shards")
    read = {name.rpartition("/")[2] for operation, name, _ in server.calls() if operation is Operation.READ}
    assert before.isdisjoint(read)
    assert (done.progress.resumed_files, done.progress.copied_files) == (len(before), 16 - len(before))
    store = Store(target)
    assert store.verify(done.record, Check.BYTES) == []
    assert ran(run(target, end=shards)) == set()
    # It went on in the same folder.
    assert store.attempts("toy-shards") == [done.record.attempt] == Store(source).attempts("toy-shards")


def test_what_was_spoilt_after_it_had_arrived_is_copied_again(new_prefix: Any, request: pytest.FixtureRequest) -> None:
    source, target = new_prefix("s3"), new_prefix("file")
    shards = Shards(files=16, size=100, label="shards")
    run(source, end=shards)
    server: StoreServer = request.getfixturevalue("_s3")
    server.obey(Rule(Act.DELAY, name="shard-1", operations=[Operation.READ], seconds=5.0))
    cut = Cut(source, target)
    cut.kill_when(6)
    before = cut.arrived()
    [attempt] = Store(target).attempts("toy-shards")
    Path(target, attempt, "deep", min(before)).write_bytes(bytes([99]) * 100)
    server.obey()
    [done] = mirrored(source, target, "shards")
    assert done.progress.resumed_files == len(before) - 1
    assert Store(target).verify(done.record, Check.BYTES) == []


def test_one_that_stood_still_and_was_taken_over_commits_nothing(
    new_prefix: Any, request: pytest.FixtureRequest
) -> None:
    source, target = new_prefix("s3"), new_prefix("file")
    shards = Shards(files=16, size=100, label="shards")
    run(source, end=shards)
    server: StoreServer = request.getfixturevalue("_s3")
    server.obey(Rule(Act.DELAY, name="shard-1", operations=[Operation.READ], seconds=1.0))
    cut = Cut(source, target)
    stopped = subprocess.Popen(cut.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    cut.wait_for(6, stopped)
    pause(stopped.pid)
    server.obey()
    plan = plan_mirroring(Store(source), Store(target), ["shards"])
    [done] = mirror(plan, watch=Watch(expiry=0.5))
    assert done.copied
    assert done.progress.resumed_files >= 6
    stopped.send_signal(signal.SIGCONT)
    said, _ = stopped.communicate(timeout=60)
    assert (stopped.returncode, "another call copied it" in said) == (0, True), said
    assert committed(target, shards) == done.record
    assert Store(target).verify(done.record, Check.BYTES) == []


class Mirrors(Strikes):
    """Runs of ``marin mirror`` from a server, struck at one operation on the target; see tests.support.faults."""

    def __init__(self, folder: Path, source: str) -> None:
        self.target = folder / "target"
        file = folder / "mirror.py"
        file.write_text(SCRIPT)
        self.arguments = ["mirror", "join", "--with-inputs", "--from", source, "--to", str(self.target)]
        super().__init__(folder, file, *self.arguments)

    def run(self, strike: Strike = Strike.NOTHING, at: int = -1, error: str = "EIO") -> Ended:
        return self.strike(self.target, self.arguments, strike, at, error)

    def reset(self) -> None:
        shutil.rmtree(self.target, ignore_errors=True)

    def visible(self) -> dict[str, str]:
        """Return the root of each visible output, by name."""
        return {name: record.root for name, record in visible_by_name(Store(str(self.target))).items()}


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Mirrors, dict[str, str]]]:
    """Yield the mirrors, with the root of each output in the source."""
    folder = tmp_path_factory.mktemp("mirrors")
    source = str(folder / "source")
    made = run(source, end=Join(parts=(Write(text="hello", label="a"), Write(text="b", label="b")), label="join"))
    roots = {step.name: held.record.root for step, held in made.results.items() if held.record is not None}
    held = Mirrors(folder, source)
    yield held, roots
    held.close()


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_or_refused_at_any_change_the_next_one_is_right(
    mirrors: tuple[Mirrors, dict[str, str]], every: int
) -> None:
    struck, roots = mirrors
    struck.reset()
    whole = struck.run()
    assert whole.status == 0, whole.said
    assert struck.visible() == roots
    verbs = ("write", "rename", "link", "remove", "rmdir")
    changes = [at for at, line in enumerate(whole.operations) if line.startswith(verbs)]
    assert len(changes) > 30
    killed = 0
    for strike in (Strike.KILL, Strike.WRITES):
        for at in changes[::every]:
            where = f"{strike} {at}: {whole.operations[at]}"
            struck.reset()
            ended = struck.run(strike, at, "ENOSPC")
            # Outputs are copied side by side and claims are renewed by the clock: a run may have fewer operations.
            assert ended.status in ((-9, 0) if strike is Strike.KILL else (0, 5)), f"{where}\n{ended.said}"
            killed += ended.status == -9
            assert "Traceback" not in ended.said, f"{where}\n{ended.said}"
            before = struck.visible()
            assert before.items() <= roots.items(), where
            again = struck.run()
            assert again.status == 0, f"{where}\n{again.said}"
            assert struck.visible() == roots, where
    assert killed > 0.8 * len(changes[::every])
