"""Control files in a folder on a local disk."""

from __future__ import annotations

import errno
import functools
import itertools
import os
import stat
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from marin.errors import BadPrefix
from marin.store.objects.errors import control_errors
from marin.store.objects.stored import Stored

WRITE_TRIES = 4
SHARED = stat.S_ISGID | stat.S_IWGRP
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}  # answers of disks without hard links
AT_ONCE = 1 << 16  # bytes of one read; most records are smaller
MANY = 64  # files: syncing more files one by one costs more than syncing the machine

_written = itertools.count()


class LocalObjects:
    """The control files of a store in a local folder. The folder's disk needs hard links: see ``create``.

    RemoteObjects has the same methods. Names use ``/`` and are relative to the store's prefix.
    """

    is_remote = False  # where it is True, each call is a round trip: make few calls, and make them concurrently

    def __init__(self, root: Path) -> None:
        self.root = root
        self._below = f"{root}/"
        if not root.is_absolute():
            raise BadPrefix(f"{root}: the prefix must be absolute here; only the command line takes relative ones")
        if root.exists() and not root.is_dir():
            raise BadPrefix(f"{root} is a file; a store needs a folder")
        if not root.parent.exists():
            raise BadPrefix(f"{root}: its parent folder {root.parent} does not exist; create it or fix --prefix")
        _share_with_group(root if root.exists() else root.parent)

    def read(self, name: str) -> bytes | None:
        """Return the content, or None if there is no such object."""
        path = self._below + name
        with control_errors(path):
            try:
                return _content(path)
            except FileNotFoundError:
                return None

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return content by name, without absent objects. Remote stores read many at once."""
        return {name: content for name in names if (content := self.read(name)) is not None}

    def write(self, name: str, content: bytes) -> None:
        """Create or replace an object. A reader sees the old or the new content, never a part."""
        path = self._below + name
        with control_errors(path):
            if content:
                _place(path, content, os.replace)
            else:  # an empty file cannot be half written
                _in_folder(path, lambda: _write(path, content))

    def create(self, name: str, content: bytes, *, lasting: bool = False) -> bool:
        """Create an object, whole or not at all. Of many racers exactly one gets True, and no call replaces an object.

        Also returns True if the object already holds these very bytes: the answer to our first call was lost.
        lasting: the object survives a power cut once the call has returned.
        """
        path = self._below + name
        with control_errors(path):
            try:
                _place(path, content, _link, sync=lasting)
            except FileExistsError:
                if self.read(name) != content:
                    return False
        if lasting:
            self.make_durable([name])
        return True

    def remove(self, names: Sequence[str]) -> None:
        """Delete objects, and ignore absent ones."""
        for name in names:
            with control_errors(self.root / name):
                (self.root / name).unlink(missing_ok=True)

    def make_durable(self, names: Sequence[str]) -> None:
        """Make objects survive a power cut. Costs milliseconds for each."""
        paths = [self.root / name for name in names]
        with control_errors(self.root):
            if len(paths) > MANY:
                return os.sync()
            folders = {folder for path in paths for folder in path.parents if folder.is_relative_to(self.root)}
            for path in (*paths, *sorted(folders, reverse=True)):
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)

    def append(self, name: str, content: bytes) -> None:
        """Add to the end of a log, which has one writer. Readers see the addition soon, and at once after ``flush``."""
        path = self._below + name
        with control_errors(path):
            _in_folder(path, lambda: _write(path, content, "ab"))

    def flush(self, name: str) -> None:
        """Send everything that this process appended to a log. Does nothing here: appending writes at once."""

    def read_log(self, name: str, start: int = 0) -> bytes:
        """Return the bytes of a log from this one on; empty if there is no log."""
        path = self._below + name
        with control_errors(path), suppress(FileNotFoundError), open(path, "rb") as handle:
            handle.seek(start)
            return handle.read()
        return b""

    def read_logs(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return whole logs by name, without absent ones."""
        return self.read_many(names)

    def list(self, folder: str) -> list[str]:
        """Return the names directly below a folder, sorted, without the folder; empty if it does not exist."""
        path = self._below + folder
        with control_errors(path), suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(path) if not name.startswith("."))
        return []

    def stats(self, folder: str) -> dict[str, Stored]:
        """Return the objects of ``list`` with their sizes and times, without folders. Takes one listing."""
        found: dict[str, Stored] = {}
        for name in self.list(folder):
            path = f"{self._below}{folder}/{name}"
            with control_errors(path), suppress(FileNotFoundError):  # deleted meanwhile
                status = os.stat(path)
                if not stat.S_ISDIR(status.st_mode):
                    found[name] = Stored(status.st_size, "", status.st_mtime)
        return found


def _content(path: str) -> bytes:
    """Return a file's content. Python's own file objects take twice the time, which counts for thousands of records."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts: list[bytes] = []
        while part := os.read(handle, AT_ONCE):
            parts.append(part)
    finally:
        os.close(handle)
    return b"".join(parts)


def _share_with_group(folder: Path) -> None:
    """Let the folder's group write to every file that this process makes, if the folder is a group's.

    A group's folder has ``chmod g+ws``: its files belong to the group, and the group may write there. The process's
    umask then does not count for the group.
    """
    if folder.stat().st_mode & SHARED == SHARED:
        os.umask(os.umask(0o077) & ~0o070)


@functools.lru_cache(maxsize=1)
def _unique(_process: int) -> str:
    """Return a prefix for names of files that only this process writes. Keyed by process: a fork is another one."""
    return f"{uuid.uuid4().hex}-"


def _place(path: str, content: bytes, place: Callable[[str, str], None], *, sync: bool = False) -> None:
    """Write a file beside the path, and let ``place`` give it the path's name."""
    folder, _, last = path.rpartition("/")
    temporary = f"{folder}/.{last}.{_unique(os.getpid())}{next(_written):x}"

    def attempt() -> None:
        _write(temporary, content, sync=sync)
        place(temporary, path)

    try:
        _in_folder(path, attempt)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)  # a half-written file would keep a full disk full
        raise


def _in_folder(path: str, attempt: Callable[[], None]) -> None:
    """Run an attempt to write the path. If its folder is missing, make the folder and try again."""
    for _ in range(WRITE_TRIES - 1):
        try:
            return attempt()
        except FileNotFoundError:  # a new folder; or gc deleted the half-written file of a machine that slept for a day
            folder = os.path.dirname(path)
            with control_errors(folder):
                os.makedirs(folder, exist_ok=True)
    attempt()


def _link(temporary: str, path: str) -> None:
    """Give a file its name unless the name is taken. Raises FileExistsError, or BadPrefix if the disk has no links."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        raise BadPrefix(
            f"{path}: this disk has no hard links ({error.strerror}), so it cannot let just one of several drivers "
            "commit. Put the store on another disk, or on gs:// or s3://"
        ) from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _write(path: str, content: bytes, mode: Literal["wb", "ab"] = "wb", *, sync: bool = False) -> None:
    """Write all of the content, or raise OSError."""
    with open(path, mode, buffering=0) as handle:
        left = memoryview(content)
        while left:
            left = left[handle.write(left) :]
        if sync:
            os.fsync(handle.fileno())
