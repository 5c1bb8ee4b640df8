"""List, read, write and move files on an object store (or in ``memory://``), by URL.

A file is read in blocks. A written file appears whole or not at all.
"""

# pyright: basic

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from marin.errors import StoreError
from marin.store.files import written
from marin.store.objects import listing
from marin.store.objects.clients import REMOTE, asking, path_of, read_at_once, scheme_of, send
from marin.store.objects.stored import Stored, stored_of

AT_A_TIME = 8  # files of one directory that are moved side by side
READ_BLOCK = 8 << 20  # bytes fetched at a time, and ahead
SMALL = 16 << 20  # bytes; a smaller file is sent in one call, and the store's checksum is the md5 of its bytes


def walk(url: str) -> dict[str, Stored]:
    """Return every file below, by its relative name, with one listing. Empty if nothing is there."""
    return {name: stored for name, stored in listing.below(url, deep=True).items() if stored is not None}


def info(url: str) -> Stored:
    """Return a file's size, checksum and time. Raises FileNotFoundError."""
    with asking(url, "read", may_be_absent=True) as (files, path):
        entry = files.info(path)
        if entry["type"] != "file":
            raise FileNotFoundError(url)
        return stored_of(entry)


def read(url: str) -> bytes:
    """Return a file's content. Raises FileNotFoundError."""
    with asking(url, "read", may_be_absent=True) as (files, path):
        return files.cat_file(path)


def read_ranges(url: str, ranges: list[tuple[int, int]]) -> list[bytes]:
    """Read bytes start … stop - 1 of one file for each range, concurrently; fewer bytes where the file ends.

    Raises FileNotFoundError.
    """
    path = path_of(url)
    contents = read_at_once(url, [(path, start, stop) for start, stop in ranges])
    found = [content for content in contents if content is not None]
    if len(found) < len(ranges):
        raise FileNotFoundError(f"{url} does not exist")
    return found


def remove(url: str) -> None:
    """Delete every file below, if there is any."""
    if names := list(walk(url)):
        listing.remove(url, names)


def copy(source: str, target: str) -> None:
    """Copy a file within one store. The bytes do not pass through this machine. Raises FileNotFoundError."""
    try:
        with asking(target, "write", may_be_absent=True) as (files, path):
            files.cp_file(path_of(source), path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{source} does not exist") from error


def upload(path: Path, url: str) -> None:
    """Send a file of this machine, and note its hashes."""
    with path.open("rb") as handle:
        sha256 = hashlib.file_digest(handle, "sha256").hexdigest()
        handle.seek(0)
        md5 = hashlib.file_digest(handle, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    stored, size = None, path.stat().st_size
    if size < SMALL or scheme_of(url) not in REMOTE:
        send(url, path.read_bytes())
    else:
        with asking(url, "write") as (files, target):
            files.put_file(str(path), target)
        stored = info(url)
    written.note({url: written.Written(size=size, sha256=sha256, md5=md5, stored=stored)})


def fetch(url: str, names: Iterable[str], folder: Path) -> None:
    """Download files into a folder. Raises FileNotFoundError."""

    def one(name: str) -> None:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with asking(f"{url}/{name}", "read", may_be_absent=True) as (files, path):
            files.get_file(path, str(target))

    side_by_side(one, names)


def reader(url: str, mode: str) -> IO[Any]:
    """Open a file for reading. Raises FileNotFoundError."""
    handle: Any = io.BufferedReader(RemoteReader(url), buffer_size=1 << 20)
    return handle if "b" in mode else io.TextIOWrapper(handle, encoding="utf-8")


@contextmanager
def writer(url: str, mode: str) -> Generator[IO[Any]]:
    """Open a file for writing, below $TMPDIR. The file appears when the context ends, unless it ends with an error."""
    if mode not in ("w", "wb"):
        raise StoreError(
            f"{url}: cannot be opened with mode {mode!r} on an object store; write the whole file with 'wb' or 'w'"
        )
    with tempfile.TemporaryDirectory(prefix="marin-sent-") as folder:
        path = Path(folder) / "file"
        with path.open(mode, encoding=None if "b" in mode else "utf-8") as handle:
            yield handle
        upload(path, url)


class RemoteReader(io.RawIOBase):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        with asking(url, "read", may_be_absent=True) as (files, path):
            self._stream = files.open(path, "rb", block_size=READ_BLOCK)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with asking(self.url, "read", may_be_absent=True):
            return self._stream.readinto(buffer)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def side_by_side[T, R](work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return ``[work(item) for item in items]``, computed several at a time. Raises the first error."""
    todo = list(items)
    if len(todo) <= 1:
        return [work(item) for item in todo]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        running = [pool.submit(work, item) for item in todo]
        try:
            return [future.result() for future in running]
        finally:
            for future in running:
                future.cancel()
