"""The small control files of a store: atomic writes, conditional replacement, one listing.

Records, leases, acceptances and events go through here; the bytes of outputs do not.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from marin.errors import BadPrefix, StoreError, StoreFull

LOCK_STRIPES = 64


class Objects(Protocol):
    """Names use ``/`` and are relative to the store's prefix."""

    def read(self, name: str) -> bytes | None:
        """Content, or None if there is no such object."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Create or replace; a reader sees the old or the new content, never a part."""
        ...

    def swap(self, name: str, old: bytes | None, new: bytes) -> bool:
        """Write ``new`` only if the object still holds ``old`` (None: only if absent). One of many racers wins."""
        ...

    def append(self, name: str, content: bytes) -> None:
        """Add to the end of an object."""
        ...

    def names(self, folder: str) -> list[str]:
        """Names directly below a folder, sorted, without the folder; empty if it does not exist."""
        ...


def open_objects(prefix: str) -> Objects:
    """The control files of the store at ``prefix``.

    Raises BadPrefix if the prefix is malformed, its parent is missing or the scheme has no
    conditional replacement yet.
    """
    if not prefix.strip():
        raise BadPrefix("the prefix is empty; name where the store lives, e.g. --prefix ./store")
    if "://" not in prefix:
        return LocalObjects(Path(prefix))
    scheme = prefix.split("://", 1)[0]
    if scheme == "memory":
        return MemoryObjects(prefix)
    raise BadPrefix(
        f"{prefix}: a store on {scheme}:// needs conditional replacement, which is built for local paths and "
        "memory:// so far; use a local path (a mounted bucket does not count)"
    )


class LocalObjects:
    """A folder on a local disk. Conditional replacement takes a file lock, striped by name."""

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

    def append(self, name: str, content: bytes) -> None:
        target = self.root / name
        with control_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as handle:
                handle.write(content)

    def names(self, folder: str) -> list[str]:
        with control_errors(self.root / folder):
            try:
                return sorted(name for name in os.listdir(self.root / folder) if not name.startswith("."))
            except FileNotFoundError:
                return []

    @contextmanager
    def _locked(self, name: str) -> Generator[None]:
        stripe = self.root / ".marin" / "locks" / f"{sum(name.encode()) % LOCK_STRIPES:02d}"
        with control_errors(stripe):
            stripe.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(stripe, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


class MemoryObjects:
    """A store inside this process, for tests and notebooks (fsspec's ``memory://``)."""

    _lock = threading.RLock()

    def __init__(self, prefix: str) -> None:
        import fsspec  # pyright: ignore[reportMissingTypeStubs]

        self.prefix = prefix.rstrip("/")
        self.files: Any = fsspec.filesystem("memory")  # pyright: ignore[reportUnknownMemberType]

    def read(self, name: str) -> bytes | None:
        with self._lock:
            try:
                return self.files.cat_file(f"{self.prefix}/{name}")
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        with self._lock:
            self.files.pipe_file(f"{self.prefix}/{name}", content)

    def swap(self, name: str, old: bytes | None, new: bytes) -> bool:
        with self._lock:
            if self.read(name) != old:
                return False
            self.write(name, new)
            return True

    def append(self, name: str, content: bytes) -> None:
        with self._lock:
            self.write(name, (self.read(name) or b"") + content)

    def names(self, folder: str) -> list[str]:
        with self._lock:
            try:
                found: list[Any] = self.files.ls(f"{self.prefix}/{folder}", detail=False)
            except FileNotFoundError:
                return []
        return sorted(str(path).rsplit("/", 1)[-1] for path in found)


@contextmanager
def store_errors(root: str) -> Generator[None]:
    """Turn a full disk, and refusals of files below root, into errors that name the place and the remedy.

    Other errors pass: an operator reads and writes more than the store.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(
                f"{error.filename or root}: no space left; free some or move the store. "
                "Nothing committed is lost: run again"
            ) from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM) and f"{error.filename}/".startswith(f"{root}/"):
            raise BadPrefix(
                f"{error.filename}: cannot write there ({error.strerror}); check the permissions or --prefix"
            ) from error
        raise


@contextmanager
def control_errors(target: Path) -> Generator[None]:
    """For the store's own files: whatever the operating system refuses is the store's error."""
    try:
        with store_errors(str(target)):
            yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise BadPrefix(f"{target}: refused ({error.strerror}); check the permissions or --prefix") from error
        raise StoreError(f"{target}: {error.strerror or error}; check the disk and --prefix") from error
