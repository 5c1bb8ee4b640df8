"""``python -m tests.support.faults.server FILE ARGUMENT…``: runs the driver FILE once, then as children.

One JSON request a line, one JSON answer a line. A child is a process of its own, with its own pid. It differs from a
driver only in one respect: its imports, fingerprints and templates took no time.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from typing import Any

from tests.support.faults.hook import Fault, Strike, note_synced, watch


def main() -> None:
    requests = os.fdopen(os.dup(0))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nowhere, stream)
    sys.path[:0] = [os.path.dirname(sys.argv[1])]
    file, arguments = sys.argv[1], sys.argv[2:]
    assert driven(file, arguments) == 0
    gc.freeze()  # a child that collects garbage would copy every page
    print("{}", file=answers)
    for line in requests:
        print(json.dumps(answered(json.loads(line))), file=answers)


def answered(request: dict[str, Any]) -> dict[str, Any]:
    pid = os.fork()
    if pid == 0:
        child(request)
    return {"status": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}


def child(request: dict[str, Any]) -> None:
    said = os.open(request["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.chdir(request["folder"])
    synced = os.open(request["synced"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    note_synced(lambda state: os.write(synced, f"{state}\n".encode()))
    if request["costly"]:
        import marin.executor.commit

        marin.executor.commit.WORTH_SYNCING = 0.0
    fault = Fault(Strike(request["strike"]), request["at"], request["error"])
    watch(request["store"], fault, lambda operation: os.write(log, f"{operation}\n".encode()))
    os._exit(driven(request["file"], request["arguments"]))


def driven(file: str, arguments: list[str]) -> int:
    """Exit code of ``python FILE ARGUMENT…``."""
    return exit_code([file, *arguments], lambda: runpy.run_path(file, run_name="__main__"))


def exit_code(command: list[str], act: Callable[[], object], crashed: int = 1) -> int:
    """Return the exit code of a process that does this. crashed: the code if an exception ends the process."""
    sys.argv = command
    status = 0
    try:
        act()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = crashed
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    main()
