"""Many drivers at once, each a process of its own that shares only the import of the engine.

A driver may believe to be on another machine, have a clock that is off, and hold claims to be dead sooner.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tests.support.line_server import ROOT, LineServer
from tests.support.waiting import wait_until

EXPIRY = 2.0  # seconds, where a test cannot wait for a minute

SERVER = """
import json, os, signal, sys
import gcsfs, s3fs
import marin.cli.run, marin.cli.execute, marin.cli.carry_out, marin.executor.backends.inline
import marin.report.page.write, marin.report.closing, marin.store.objects.remote
from marin.fingerprint.of_step import code_fingerprint
from tests.support.drivers import become
from tests.support.faults.server import driven
from tests.support.toy import Write

code_fingerprint(Write(text=""))  # reads the engine's source, for all that follow
children = set()
for line in sys.stdin:
    asked = json.loads(line)
    if "poll" in asked:
        ended, status = os.waitpid(asked["poll"], os.WNOHANG)
        children.discard(ended)
        print(json.dumps(os.waitstatus_to_exitcode(status) if ended else None), flush=True)
        continue
    child = os.fork()
    if child == 0:
        become(asked)
        os._exit(driven(asked["file"], asked["arguments"]))
    children.add(child)
    print(child, flush=True)
for child in children:
    os.kill(child, signal.SIGKILL)
"""


@dataclass(frozen=True, kw_only=True)
class Where:
    """The machine and the habits of a driver.

    host: name of its machine, "" for this one. clock: seconds that its wall clock is ahead. hasty: its claims beat
    often, and it takes a claim that stands still for EXPIRY seconds for dead. patient: it takes a claim for dead only
    after a day. ignores: signals, as if its shell had told it.
    """

    host: str = ""
    clock: float = 0.0
    hasty: bool = False
    patient: bool = False
    ignores: tuple[signal.Signals, ...] = ()


HERE = Where()


def become(asked: dict[str, Any]) -> None:
    """Make the child the driver that was asked for: its output goes to its file, and its machine is as given."""
    out = os.open(asked["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(asked["environment"])
    folder = os.path.dirname(asked["file"])
    os.chdir(folder)
    sys.path[:0] = [folder]
    where = Where(**asked["where"])
    for number in where.ignores:
        signal.signal(number, signal.SIG_IGN)
    if where.host:
        import socket

        socket.gethostname = lambda: where.host
    if where.clock:
        shift_clock(where.clock)
    import marin.store.ends

    if where.hasty:
        marin.store.ends.EXPIRY, marin.store.ends.BEAT_EVERY = EXPIRY, EXPIRY / 8
    if where.patient:
        marin.store.ends.EXPIRY = 86_400.0


def pause(pid: int) -> None:
    """The process stands still."""
    os.kill(pid, signal.SIGSTOP)
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.001)


def shift_clock(ahead: float) -> None:
    """The wall clock of this process, not its monotonic one."""
    now, now_ns, localtime, gmtime, strftime = time.time, time.time_ns, time.localtime, time.gmtime, time.strftime

    def formatted(form: str, moment: tuple[int, ...] | time.struct_time | None = None) -> str:
        return strftime(form, moment if moment is not None else time.localtime())  # pyright: ignore[reportArgumentType]

    time.time = lambda: now() + ahead
    time.time_ns = lambda: now_ns() + int(ahead * 1e9)
    time.localtime = lambda seconds=None: localtime(time.time() if seconds is None else seconds)
    time.gmtime = lambda seconds=None: gmtime(time.time() if seconds is None else seconds)
    time.strftime = formatted


class Driver:
    """One that was started. pid: its process."""

    def __init__(self, drivers: Drivers, pid: int, out: Path) -> None:
        self.drivers, self.pid, self.out = drivers, pid, out
        self.code: int | None = None

    def said(self) -> str:
        return self.out.read_text() if self.out.exists() else ""

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def pause(self) -> None:
        pause(self.pid)

    def ended(self) -> bool:
        """``code`` is known from then on: the exit code, or minus the signal."""
        if self.code is None:
            self.code = self.drivers.ask({"poll": self.pid})
        return self.code is not None

    def wait(self) -> int:
        wait_until(self.ended, lambda: f"it did not end:\n{self.said()}")
        assert self.code is not None
        return self.code

    def until_said(self, words: str) -> None:
        def said() -> bool:
            if words in self.said():
                return True
            assert not self.ended() or words in self.said(), f"it ended with {self.code}:\n{self.said()}"
            return False

        wait_until(said, lambda: f"it did not say {words!r}:\n{self.said()}")


class Drivers:
    """Starts drivers of experiment files; use as a context. At its end it kills every driver that still runs."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        self._server = LineServer([sys.executable, "-c", SERVER])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.close()

    def start(self, file: Path, prefix: str, *arguments: str, where: Where = HERE) -> Driver:
        """``python FILE --prefix PREFIX --backend inline ARGUMENT…``"""
        self.count += 1
        out = file.parent / f"said-{self.count}.txt"
        request = {
            "file": str(file),
            "arguments": ["--prefix", prefix, "--backend", "inline", *arguments],
            "environment": {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            "out": str(out),
            "where": asdict(where),
        }
        return Driver(self, self.ask(request), out)

    def ask(self, request: dict[str, Any]) -> Any:
        return self._server.ask(request)
