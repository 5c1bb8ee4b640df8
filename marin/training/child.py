"""Run work in a child process: pass on its events and its printed lines, and raise its errors."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from marin import errors
from marin.fingerprint.observation.listening import current
from marin.fingerprint.observation.observation import Observation, Scope
from marin.training.child_process import Order, begin, keep
from marin.training.hanging import HangWatch

LOG_LINES_SHOWN = 15
DEBOUNCE_SECONDS = 0.5  # a scheduler and a wrapper may both pass on one signal


def run_child(
    specification: Path,
    log: Path,
    hear: Callable[..., None],
    printed: Callable[[str], None],
    *,
    called: str,
    environment: Mapping[str, str],
    on_stop: Callable[[Callable[[], object]], object],
    hanging: HangWatch,
    failed: type[errors.MarinError],
    keeps: bool = False,
) -> None:
    """Run marin.training.main on a specification to its end. log: the file for everything that the child prints.

    hear: receives the child's events, in order. printed: receives each printed line, some lines only with the next
    event. called: the child's name in messages. on_stop: receives a function that kills the child. The child dies with
    this thread. A SIGTERM to this process goes to the child first. keeps: whether the child may work for this thread
    again: another call with ``keeps`` then saves the imports and the programs that the child has compiled.
    Raises the child's own error if it is a MarinError; Preempted if SIGTERM ended the child; ProcessLost if the child
    was killed or stood still (ProcessAborted for SIGABRT); else ``failed``. The last three quote the end of the log.
    """
    lines = Printed(log)
    here = current()
    scope = here.scope if here is not None else Scope()
    order = Order(specification=str(specification), log=str(log), scope=scope.to_plain(), another=keeps)
    failure: dict[str, Any] | None = None
    child, is_done = begin(order, environment), False
    process = child.process
    try:
        on_stop(process.kill)
        with _passing_on_sigterm(process), hanging.of(process):
            for line in child.events:
                lines.tell(printed)
                facts = json.loads(line)
                match facts.pop("event"):
                    case "failed":
                        failure = facts
                    case "observed":
                        if here is not None:
                            here.join(Observation.from_plain(facts))
                    case "begun":
                        pass
                    case "done":
                        is_done = True
                        break
                    case event:
                        hear(event, **facts)
    except BaseException:
        process.kill()
        raise
    finally:
        if is_done:
            keep(child)
        else:
            child.end()
    lines.tell(printed, ended=True)
    if failure is not None:
        if failure["missing"]:
            raise ModuleNotFoundError(failure["message"], name=failure["missing"])
        kind = getattr(errors, failure["kind"], None)
        if isinstance(kind, type) and issubclass(kind, errors.MarinError):
            raise kind(failure["message"])
        raise failed(f"{failure['kind']}: {failure['message']}; the end of {log}:\n{_tail(log)}")
    if is_done:
        return
    if process.returncode == -signal.SIGTERM:
        raise errors.Preempted(
            f"preempted (SIGTERM): {called} ended without a save; the next run goes on from the last save, if any"
        )
    if process.returncode != 0:
        kind = errors.ProcessLost if process.returncode < 0 else failed
        if process.returncode == -signal.SIGABRT:
            kind = errors.ProcessAborted
        ended = hanging.found or _how_it_ended(called, process.returncode)
        raise kind(f"{ended}; the end of {log}:\n{_tail(log)}")


@contextmanager
def _passing_on_sigterm(process: subprocess.Popen[bytes]) -> Generator[None]:
    """Pass SIGTERM (the machine is being taken away) on to the training process.

    This process handles the signal itself once the training process has saved and ended, or at once at a second signal.
    """
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield
        return
    passed_on = 0.0

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal passed_on
        if not passed_on:
            passed_on = time.monotonic()
            process.terminate()
        elif time.monotonic() - passed_on > DEBOUNCE_SECONDS:
            signal.signal(signal.SIGTERM, before)
            signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
    if passed_on:
        signal.raise_signal(signal.SIGTERM)


class Printed:
    """The lines added to a log file from now on; a line counts once it is complete."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._seen = log.stat().st_size if log.exists() else 0

    def tell(self, listener: Callable[[str], None], *, ended: bool = False) -> None:
        with self._log.open("rb") as handle:
            handle.seek(self._seen)
            added = handle.read()
        whole = added if ended else added[: added.rfind(b"\n") + 1]
        self._seen += len(whole)
        for line in whole.decode(errors="replace").removesuffix("\n").split("\n") if whole else ():
            listener(line.rstrip("\r").rpartition("\r")[2])  # a progress bar's last state


def _how_it_ended(called: str, status: int) -> str:
    if status < 0:
        return f"{called} was killed by signal {-status} (9 may also mean that memory ran out)"
    return f"{called} ended with status {status} and without saying why"


def _tail(log: Path) -> str:
    with log.open(encoding="utf-8", errors="replace") as handle:
        return "".join(deque(handle, LOG_LINES_SHOWN)).rstrip()
