"""Control files in a folder on a local disk."""

from __future__ import annotations

import fcntl
import functools
import itertools
import os
import stat
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from marin.errors import BadPrefix, StoreError
from marin.store.layout import LOCKS
from marin.store.objects.errors import control_errors

CHUNK = 1 << 16
LOCK_STRIPES = 64
WRITE_TRIES = 4
LOCK_SECONDS = 30
SHARED = stat.S_ISGID | stat.S_IWGRP
MANY = 64  # files: syncing more files one by one costs more than syncing the machine


_written = itertools.count()


class LocalObjects:
    """The control files of a store in a local folder. Conditional replacement takes a file lock, striped by name."""

    is_remote = False

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
        try:
            return _content(self._below + name)
        except FileNotFoundError:
            return None
        except OSError as error:
            with control_errors(self.root / name):
                raise error

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name in names:
            content = self.read(name)
            if content is not None:
                found[name] = content
        return found

    def write(self, name: str, content: bytes, *, lasting: bool = False) -> None:
        """Create or replace a file. lasting: a power cut leaves the old or the new content, never a part."""
        target = self._below + name
        folder, _, last = target.rpartition("/")
        temporary = (
            f"{folder}/.{last}.{_unique(os.getpid())}{next(_written):x}" if content else target
        )  # an empty file cannot be half written
        tries = WRITE_TRIES
        while True:
            tries -= 1
            try:
                _write(temporary, content, sync=lasting)
                if temporary != target:
                    os.replace(temporary, target)
                return
            except OSError as error:
                if isinstance(error, FileNotFoundError) and tries:
                    with control_errors(Path(folder)):
                        os.makedirs(folder, exist_ok=True)
                    continue  # a new folder; or gc deleted the half-written file of a machine that slept for a day
                if temporary != target:
                    with suppress(OSError):
                        os.unlink(temporary)  # a half-written file would keep a full disk full
                with control_errors(Path(target)):
                    raise error

    def compare_and_swap(self, name: str, old: bytes | None, new: bytes, *, lasting: bool = False) -> bool:
        with self._locked(name):
            if self.read(name) != old:
                return False
            self.write(name, new, lasting=lasting)
            if lasting:
                self.make_durable([name])
            return True

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            with control_errors(self.root / name):
                (self.root / name).unlink(missing_ok=True)

    def make_durable(self, names: Sequence[str]) -> None:
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
        target = self._below + name
        try:
            try:
                _write(target, content, os.O_APPEND)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                _write(target, content, os.O_APPEND)
        except OSError as error:
            with control_errors(Path(target)):
                raise error

    def flush(self, name: str) -> None:
        """Do nothing: appending writes at once."""

    def read_log(self, name: str, start: int = 0) -> bytes:
        target = self.root / name
        with control_errors(target):
            try:
                with target.open("rb") as handle:
                    handle.seek(start)
                    return handle.read()
            except FileNotFoundError:
                return b""

    def read_logs(self, names: Sequence[str]) -> dict[str, bytes]:
        return self.read_many(names)

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._below + folder) if not name.startswith("."))
        except FileNotFoundError:
            return []
        except OSError as error:
            with control_errors(self.root / folder):
                raise error

    def list_versions(self, folder: str) -> dict[str, str]:
        found: dict[str, str] = {}
        with control_errors(self.root / folder):
            try:
                entries = [entry for entry in os.scandir(self.root / folder) if not entry.name.startswith(".")]
            except FileNotFoundError:
                return {}
            for entry in entries:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    found[entry.name] = "" if entry.is_dir() else _stamp(entry.stat())
        return found

    @contextmanager
    def _locked(self, name: str) -> Generator[None]:
        stripe = f"{self._below}{LOCKS}/{sum(name.encode()) % LOCK_STRIPES:02d}"
        try:
            try:
                handle = os.open(stripe, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(stripe), exist_ok=True)
                handle = os.open(stripe, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            with control_errors(Path(stripe)):
                raise error
        try:
            self._wait_for_lock(handle, stripe)
            yield
        finally:
            os.close(handle)

    def _wait_for_lock(self, handle: int, stripe: str) -> None:
        """Wait for a lock. Holders keep it for less than a millisecond, unless a holder was stopped just then."""
        limit = time.monotonic() + LOCK_SECONDS
        pause = 0.0005
        while True:
            try:
                return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > limit:
                    raise StoreError(
                        f"{stripe} has been locked for {LOCK_SECONDS} seconds: a process that uses this store is "
                        "stopped, or its disk hangs. Find it with lsof or lslocks, then resume or kill it"
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, 0.05)


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


def _content(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY)
    try:
        content = os.read(handle, os.fstat(handle).st_size)
        while more := os.read(handle, CHUNK):  # appended to meanwhile
            content += more
        return content
    finally:
        os.close(handle)


def _write(path: str, content: bytes, how: int = os.O_TRUNC, *, sync: bool = False) -> None:
    """Write all of the content, or raise OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o666)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(handle, left) :]
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


def _stamp(status: os.stat_result) -> str:
    """Return a version of a file. Every write makes a new file, so the inode alone nearly always differs."""
    return f"{status.st_ino}.{status.st_mtime_ns}.{status.st_size}"
