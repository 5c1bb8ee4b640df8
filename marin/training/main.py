"""The training process: ``python -m marin.training.main spec.json EVENTS PARENT SCOPE``.

EVENTS: number of an inherited, writable file descriptor; one JSON object a line. PARENT: process id
that must be alive. SCOPE: of what is observed, see marin.fingerprint.observation. Standard input is a pipe that the
parent never writes to: when it closes, the parent is gone and this process ends at once, so that no two
trainers write to one state directory.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import NoReturn

from marin.fingerprint.observation.listening import current, observing
from marin.fingerprint.observation.observation import Scope

PR_SET_PDEATHSIG = 1  # linux/prctl.h
ORPHANED = 70  # exit status
LOCK = "training.lock"  # in the state directory; holds the process id of the last trainer


def main(arguments: list[str]) -> NoReturn:
    spec_path, events, parent = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    _die_with(parent)
    scope = Scope.from_plain(json.loads(arguments[3]))
    lock = threading.Lock()
    pipe = os.fdopen(events, "w", encoding="utf-8", buffering=1)

    def emit(event: str, **facts: object) -> None:
        with lock:
            pipe.write(json.dumps({"event": event, **facts}) + "\n")

    def tell(event: str, **facts: object) -> None:
        """What was read until a checkpoint comes before it: that may be published at once."""
        if event == "checkpoint" and (seen := current()) is not None:
            emit("observed", **seen.to_plain())
        emit(event, **facts)

    try:
        from marin.training.spec import from_json

        spec = from_json(spec_path.read_text(encoding="utf-8"))
        held = _lock_state(spec.state)
        started = time.monotonic()
        from marin.training.levanter_run import train

        emit("imported", seconds=time.monotonic() - started)
        with observing(scope) as seen:
            train(spec, tell)
        emit("observed", **seen.to_plain())
        del held
        status = 0
    except Exception as error:
        traceback.print_exc()
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        emit("failed", kind=type(error).__name__, message=str(error), missing=missing)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: Levanter's threads would hold the interpreter up, and a pipe that closed before the end
    # would look like one.
    os._exit(status)


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


def _lock_state(state: str) -> object:
    """Waits until no other process of this machine trains in the same local state directory."""
    if "://" in state:
        return None
    Path(state).mkdir(parents=True, exist_ok=True)
    handle = (Path(state) / LOCK).open("a+")
    fcntl.flock(handle, fcntl.LOCK_EX)
    handle.truncate(0)
    handle.write(f"{os.getpid()}\n")
    handle.flush()
    return handle


if __name__ == "__main__":
    main(sys.argv[1:])
