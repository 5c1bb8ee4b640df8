"""List, read, write and move files on an object store (or in ``memory://``), by URL."""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from marin.store.objects import listing
from marin.store.objects.clients import REMOTE, asking, path_of, read_at_once, scheme_of, send
from marin.store.objects.stored import Stored, stored_of

AT_A_TIME = 8  # files of one directory that are moved side by side


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
    if scheme_of(url) not in REMOTE:
        send(url, path.read_bytes())
        return
    with asking(url, "write") as (files, target):
        files.put_file(str(path), target)


def download(url: str, path: Path) -> None:
    """Download a file. Raises FileNotFoundError."""
    with asking(url, "read", may_be_absent=True) as (files, source):
        files.get_file(source, str(path))


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
