"""A child process that works on one order after another, so that only the first one pays for imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from marin.fingerprint.observation.listening import answering


@dataclass(frozen=True, kw_only=True)
class Order:
    """Work for a child process.

    specification: a TrainingSpec (``….json``), or a function that receives ``tell(event, **facts)`` (``….pickle``).
    log: the file for everything that is printed. scope: see marin.fingerprint.observation. another: whether the
    process then waits for another order.
    """

    specification: str
    log: str
    scope: dict[str, Any]
    another: bool


class ChildProcess:
    """A process of marin.training.main. It dies with the thread that started it. events: its events, one line each.

    The first event of an order is "begun". The last is "done" if the process waits for another order. end: closes the
    process's input, which tells the process to exit, and waits for the exit.
    """

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self.environment, self._parent = dict(environment), os.getpid()
        reading, writing = os.pipe()
        self.events = os.fdopen(reading, encoding="utf-8")
        try:
            with log.open("ab") as output, answering():
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "marin.training.main", str(writing), str(self._parent)],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self.environment,
                    pass_fds=(writing,),
                )
        finally:
            os.close(writing)
        self.end = weakref.finalize(self, _end, self.process, self.events)

    def give(self, order: Order) -> None:
        given = self.process.stdin
        assert given is not None
        with suppress(OSError):  # the process has ended, and its events say so
            given.write(json.dumps(asdict(order)).encode() + b"\n")
            given.flush()

    def goes_on(self, order: Order, environment: Mapping[str, str]) -> bool:
        """Give the process another order if it suits. Return whether the process has begun it.

        A process that waited too long has ended. A fork of this process must not use the child.
        """
        if not order.another or self.environment != environment or self._parent != os.getpid():
            return False
        self.give(order)
        return self.events.readline() != ""


def _end(process: subprocess.Popen[bytes], events: TextIO) -> None:
    with suppress(OSError):
        process.communicate()
    events.close()


_kept = threading.local()


def begin(order: Order, environment: Mapping[str, str]) -> ChildProcess:
    """Return a process that works on the order: the one that this thread kept, or a new one."""
    kept: ChildProcess | None = vars(_kept).pop("child", None)
    if kept is not None:
        if kept.goes_on(order, environment):
            return kept
        kept.end()
    made = ChildProcess(environment, Path(order.log))
    made.give(order)
    return made


def keep(child: ChildProcess) -> None:
    """Keep a process that has done its order for this thread's next order."""
    _kept.child = child
