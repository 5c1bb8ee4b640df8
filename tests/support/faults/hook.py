"""Count the operations on the store inside the process under test, and strike at one."""

import errno
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.rename", "os.mkdir", "os.link", "os.remove", "os.rmdir", "os.truncate"}
LOOKS = {"os.listdir", "os.scandir"}


class Strike(StrEnum):
    """NOTHING only counts. KILL: -9. ONCE: this operation fails. WRITES: this and every later change fails."""

    NOTHING = "nothing"
    KILL = "kill"
    ONCE = "once"
    WRITES = "writes"


@dataclass
class Fault:
    """at: number of the operation, from 0. error: name in errno."""

    strike: Strike
    at: int = -1
    error: str = "EIO"


def watch(store: str, fault: Fault, log: Callable[[str], object]) -> None:
    """From now on, for good: an audit hook cannot be removed. log is told of every operation before it happens."""
    count = -1
    number = getattr(errno, fault.error)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        operation = described(event, arguments, store)
        if operation is None:
            return
        count += 1
        log(operation)
        if fault.strike is Strike.NOTHING or count < fault.at:
            return
        if fault.strike is Strike.KILL and count == fault.at:
            os.kill(os.getpid(), signal.SIGKILL)
        changes = not operation.startswith(("read", "list"))
        if (fault.strike is Strike.ONCE and count == fault.at) or (fault.strike is Strike.WRITES and changes):
            raise OSError(number, os.strerror(number), str(arguments[0]))

    sys.addaudithook(hook)


def note_synced(log: Callable[[str], object]) -> None:
    """From now on log is told of every file that a power cut cannot take any more, by inode, size and time."""
    sync = os.fsync

    def fsync(handle: int) -> None:
        sync(handle)
        log(state_of(os.fstat(handle)))

    os.fsync = fsync


def state_of(held: os.stat_result) -> str:
    return f"{held.st_ino} {held.st_size} {held.st_mtime_ns}"


def described(event: str, arguments: tuple[object, ...], store: str) -> str | None:
    """Return ``write .marin/ends/….json``, or None if the event is no operation on the store."""
    if event == "open" and isinstance(arguments[2], int):
        verb = "write" if arguments[2] & WRITING else "read"
    elif event in CHANGES:
        verb = event.removeprefix("os.")
    elif event in LOOKS:
        verb = "list"
    else:
        return None
    names = arguments[:2] if event in ("os.rename", "os.link") else arguments[:1]
    paths = [os.fspath(held) for held in names if isinstance(held, str | os.PathLike)]
    # A relative name is one below a folder that is being removed: a driver opens nothing else by such a name.
    inside = [path for path in paths if path == store or path.startswith(f"{store}/") or not path.startswith("/")]
    return f"{verb} {' → '.join(short(path.removeprefix(f'{store}/')) for path in inside)}" if inside else None


def short(path: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])", "*", path)
