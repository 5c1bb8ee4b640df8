"""Run trainings and other work in a child process: ``python -m marin.training.main EVENTS PARENT``.

EVENTS: number of an inherited, writable file descriptor; one JSON object a line. PARENT: process id that must be alive.
The parent writes orders to standard input, one JSON object a line (marin.training.child_process.Order). The process
begins the next order when it has done one, and ends when it waits too long. When the pipe closes, the parent is gone
and this process ends at once, so that no two trainers write to one state directory.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import fcntl
import gc
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from marin.errors import StoreFull
from marin.fingerprint.observation.listening import current, edited, observing
from marin.fingerprint.observation.observation import Scope
from marin.training.child_process import Order
from marin.training.hanging import STACKS_SIGNAL
from marin.training.processes import unpickled

PR_SET_PDEATHSIG = 1  # linux/prctl.h
ORPHANED = 70  # exit status
WAIT_SECONDS = 60.0  # for another order, while the process holds half a gigabyte
LOCK = "training.lock"  # in the state directory; holds the process id of the last trainer
LOCK_OF_ONE = "training-{}.lock"  # likewise, for each process of a run but the first


def main(arguments: list[str]) -> NoReturn:
    _die_with(parent=int(arguments[1]))
    faulthandler.register(STACKS_SIGNAL, all_threads=True)  # stacks go to the log, even while compiled code runs
    orders = _orders()
    lock = threading.Lock()
    pipe = os.fdopen(int(arguments[0]), "w", encoding="utf-8", buffering=1)

    def emit(event: str, **facts: object) -> None:
        with lock:
            pipe.write(json.dumps({"event": event, **facts}) + "\n")

    order = orders.get()
    while True:
        emit("begun")
        _print_to(order.log)
        succeeded = _work(order, emit)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # the log may be on a disk that is full
                stream.flush()
        if not order.another or not succeeded:
            # Exit at once: Levanter's threads would hold up the interpreter, and a pipe that closes before the exit
            # would look like an exit.
            os._exit(0 if succeeded else 1)
        _print_to(os.devnull)  # the log may be committed now
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a training saves first
        emit("done")
        try:
            order = orders.get(timeout=WAIT_SECONDS)
        except queue.Empty:
            os._exit(0)
        if edited():
            os._exit(0)  # the next order would run code that the files no longer hold


def _work(order: Order, emit: Callable[..., None]) -> bool:
    """Do the work of an order. Return whether it succeeded; emit and print the error if it failed."""

    def tell(event: str, **facts: object) -> None:
        """Emit an event. Before "checkpoint", emit the reads so far: the checkpoint may be published at once."""
        if event == "checkpoint" and (seen := current()) is not None:
            emit("observed", **seen.to_plain())
        emit(event, **facts)

    specification = Path(order.specification)
    try:
        work = _training(specification, emit) if specification.suffix == ".json" else unpickled(specification)
        with observing(Scope.from_plain(order.scope)) as seen:
            work(tell)
        emit("observed", **seen.to_plain())
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        kind, message = type(error).__name__, str(error)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            kind = StoreFull.__name__
            message += "; free some space (marin gc) or move the store. What was saved stays: run again"
        emit("failed", kind=kind, message=message, missing=missing)
        with suppress(OSError):
            traceback.print_exc()
        return False
    return True


def _training(specification: Path, emit: Callable[..., None]) -> Callable[[Callable[..., None]], None]:
    """Return the function that trains."""
    from marin.training.spec import from_json

    spec = from_json(specification.read_text(encoding="utf-8"))
    started = time.monotonic()
    # The import makes millions of objects, and nearly all stay: collecting garbage would take a sixth of its time.
    gc.disable()
    from marin.training.levanter_run import train

    gc.freeze()
    gc.enable()
    emit("imported", seconds=time.monotonic() - started)

    def work(tell: Callable[..., None]) -> None:
        with _locked_state(spec.state, spec.process.number if spec.process is not None else 0):
            train(spec, tell)

    return work


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before that call.
    if os.getppid() != parent:
        os._exit(ORPHANED)


def _orders() -> queue.Queue[Order]:
    """Return the queue of the orders from standard input. The process ends when the input ends."""
    orders: queue.Queue[Order] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            orders.put(Order(**json.loads(line)))
        os._exit(ORPHANED)

    threading.Thread(target=listen, daemon=True).start()
    return orders


def _print_to(file: str) -> None:
    """Append everything that this process prints to a file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(descriptor, stream.fileno())
    os.close(descriptor)


@contextmanager
def _locked_state(state: str, number: int) -> Generator[None]:
    """Wait until no process of this machine with the same number trains in the same local state directory; lock it.

    number: of this process among the processes of its run. A remote directory has no lock.
    """
    if "://" in state:
        yield
        return
    Path(state).mkdir(parents=True, exist_ok=True)
    with (Path(state) / (LOCK_OF_ONE.format(number) if number else LOCK)).open("a+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        yield


if __name__ == "__main__":
    main(sys.argv[1:])
