"""Control files in a folder on a local disk."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from marin.errors import BadPrefix, StoreError
from marin.objects.errors import control_errors

LOCK_STRIPES = 64
LOCK_SECONDS = 30


class LocalObjects:
    """A folder on a local disk. Conditional replacement takes a file lock, striped by name."""

    is_remote = False

    def __init__(self, root: Path) -> None:
        self.root = root
        if not root.is_absolute():
            raise BadPrefix(f"{root}: the prefix must be absolute here; the command line resolves relative ones")
        if root.exists() and not root.is_dir():
            raise BadPrefix(f"{root} is a file; a store needs a folder")
        if not root.parent.exists():
            raise BadPrefix(f"{root}: its parent folder {root.parent} does not exist; create it or fix --prefix")

    def read(self, name: str) -> bytes | None:
        target = self.root / name
        with control_errors(target):
            try:
                return target.read_bytes()
            except FileNotFoundError:
                return None

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        root = f"{self.root}/"
        for name in names:
            try:
                with open(root + name, "rb", buffering=0) as handle:
                    found[name] = handle.read()
            except FileNotFoundError:
                continue
            except OSError as error:
                with control_errors(self.root / name):
                    raise error
        return found

    def write(self, name: str, content: bytes) -> None:
        target = self.root / name
        with control_errors(target):
            temporary = target.parent / f".{target.name}.{uuid.uuid4().hex}"
            try:
                try:
                    temporary.write_bytes(content)
                except FileNotFoundError:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    temporary.write_bytes(content)
                os.replace(temporary, target)
            except OSError:
                temporary.unlink(missing_ok=True)  # half of it would keep a full disk full
                raise

    def swap(self, name: str, old: bytes | None, new: bytes) -> bool:
        with self._locked(name):
            if self.read(name) != old:
                return False
            self.write(name, new)
            return True

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            with control_errors(self.root / name):
                (self.root / name).unlink(missing_ok=True)

    def append(self, name: str, content: bytes) -> None:
        target = self.root / name
        with control_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as handle:
                handle.write(content)

    def flush(self, name: str) -> None:
        """Appending writes at once."""

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

    def names(self, folder: str) -> list[str]:
        with control_errors(self.root / folder):
            try:
                return sorted(name for name in os.listdir(self.root / folder) if not name.startswith("."))
            except FileNotFoundError:
                return []

    def stamps(self, folder: str) -> dict[str, str]:
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
        stripe = self.root / ".marin" / "locks" / f"{sum(name.encode()) % LOCK_STRIPES:02d}"
        with control_errors(stripe):
            stripe.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(stripe, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            self._wait_for_lock(handle, stripe)
            yield
        finally:
            os.close(handle)

    def _wait_for_lock(self, handle: int, stripe: Path) -> None:
        """Held for less than a millisecond at a time, unless the holder was stopped just then."""
        limit = time.monotonic() + LOCK_SECONDS
        pause = 0.0005
        while True:
            try:
                return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > limit:
                    raise StoreError(
                        f"{stripe} has been locked for {LOCK_SECONDS} seconds: a process that uses this store stands "
                        "still (stopped, or its disk hangs); find it with lsof or lslocks, then resume or kill it"
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, 0.05)


def _stamp(held: os.stat_result) -> str:
    """Every write makes a new file, so the inode alone nearly always differs."""
    return f"{held.st_ino}.{held.st_mtime_ns}.{held.st_size}"
