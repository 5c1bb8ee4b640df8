"""Run a training or other work in a child process: ``python -m marin.training.main SPECIFICATION EVENTS PARENT SCOPE``.

SPECIFICATION: a TrainingSpec (``….json``), or a function that receives ``tell(event, **facts)`` (``….pickle``).
EVENTS: number of an inherited, writable file descriptor; one JSON object a line. PARENT: process id that must be alive.
SCOPE: the scope of the observation, see marin.fingerprint.observation. Standard input is a pipe that the parent never
writes to. When the pipe closes, the parent is gone and this process ends at once, so that no two trainers write to one
state directory.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import fcntl
import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from marin.errors import StoreFull
from marin.fingerprint.observation.listening import current, observing
from marin.fingerprint.observation.observation import Scope
from marin.training.hanging import STACKS_SIGNAL
from marin.training.processes import unpickled

PR_SET_PDEATHSIG = 1  # linux/prctl.h
ORPHANED = 70  # exit status
LOCK = "training.lock"  # in the state directory; holds the process id of the last trainer
LOCK_OF_ONE = "training-{}.lock"  # likewise, for each process of a run but the first


def main(arguments: list[str]) -> NoReturn:
    spec_path, events, parent = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    _die_with(parent)
    faulthandler.register(STACKS_SIGNAL, all_threads=True)  # stacks go to the log, even while compiled code runs
    scope = Scope.from_plain(json.loads(arguments[3]))
    lock = threading.Lock()
    pipe = os.fdopen(events, "w", encoding="utf-8", buffering=1)

    def emit(event: str, **facts: object) -> None:
        with lock:
            pipe.write(json.dumps({"event": event, **facts}) + "\n")

    def tell(event: str, **facts: object) -> None:
        """Emit an event. Before "checkpoint", emit the reads so far: the checkpoint may be published at once."""
        if event == "checkpoint" and (seen := current()) is not None:
            emit("observed", **seen.to_plain())
        emit(event, **facts)

    try:
        work = _training(spec_path, emit) if spec_path.suffix == ".json" else unpickled(spec_path)
        with observing(scope) as seen:
            work(tell)
        emit("observed", **seen.to_plain())
        status = 0
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        kind, message = type(error).__name__, str(error)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            kind = StoreFull.__name__
            message += "; free some space (marin gc) or move the store. What was saved stays: run again"
        emit("failed", kind=kind, message=message, missing=missing)
        with suppress(OSError):
            traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the log may be on a disk that is full
            stream.flush()
    # Exit at once: Levanter's threads would hold up the interpreter, and a pipe that closes before the exit would look
    # like an exit.
    os._exit(status)


def _training(specification: Path, emit: Callable[..., None]) -> Callable[[Callable[..., None]], None]:
    """Return the function that trains. The state directory stays locked as long as the function exists."""
    from marin.training.spec import from_json

    spec = from_json(specification.read_text(encoding="utf-8"))
    held = _lock_state(spec.state, spec.process.number if spec.process is not None else 0)
    started = time.monotonic()
    # The import makes millions of objects, and nearly all stay: collecting garbage would take a sixth of its time.
    gc.disable()
    from marin.training.levanter_run import train

    gc.freeze()
    gc.enable()
    emit("imported", seconds=time.monotonic() - started)

    def work(tell: Callable[..., None], _held: object = held) -> None:
        train(spec, tell)

    return work


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before that call.
    if os.getppid() != parent:
        os._exit(ORPHANED)

    def watch() -> None:
        sys.stdin.buffer.read()
        os._exit(ORPHANED)

    threading.Thread(target=watch, daemon=True).start()


def _lock_state(state: str, number: int) -> object:
    """Wait until no process of this machine with the same number trains in the same local state directory; lock it.

    number: of this process among the processes of its run. Returns the lock, or None for a remote directory.
    """
    if "://" in state:
        return None
    Path(state).mkdir(parents=True, exist_ok=True)
    handle = (Path(state) / (LOCK_OF_ONE.format(number) if number else LOCK)).open("a+")
    fcntl.flock(handle, fcntl.LOCK_EX)
    handle.truncate(0)
    handle.write(f"{os.getpid()}\n")
    handle.flush()
    return handle


if __name__ == "__main__":
    main(sys.argv[1:])
