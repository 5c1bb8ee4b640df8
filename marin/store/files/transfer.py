"""List, read, write and move files on an object store (or in ``memory://``), by URL."""

# pyright: basic

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from marin.store.objects.answers import answered, no_bucket
from marin.store.objects.clients import REMOTE, ask, client, path_of, scheme_of
from marin.store.objects.conditional import Stored

AT_A_TIME = 8  # files of one directory that are moved side by side


def walk(url: str) -> dict[str, Stored]:
    """Return every file below, by its relative name, with one listing. Empty if nothing is there."""
    return ask(url, "list", "walk")


def info(url: str) -> Stored:
    """Return a file's size, checksum and time. Raises FileNotFoundError."""
    return ask(url, "read", "info")


def exists(url: str) -> bool:
    """Is there such a file, or any file below this URL?"""
    with contextlib.suppress(FileNotFoundError):
        info(url)
        return True
    return ask(url, "list", "any_below")


def read(url: str) -> bytes:
    """Return a file's content. Raises FileNotFoundError."""
    there = ask(url, "read", "get")
    if there is None:
        raise FileNotFoundError(f"{url} does not exist")
    return there.content


def read_ranges(url: str, ranges: list[tuple[int, int]]) -> list[bytes]:
    """Read bytes start … stop - 1 of one file for each range, concurrently; fewer bytes where the file ends.

    Raises FileNotFoundError.
    """
    if not ranges:
        return []
    files, path = client(scheme_of(url)), path_of(url)
    with answered(url, "read"):
        starts, stops = [list(ends) for ends in zip(*ranges, strict=True)]
        found = files.cat_ranges([path] * len(ranges), starts, stops, on_error="raise")
        for each in found:  # asynchronous clients return errors instead of raising them
            if isinstance(each, BaseException):
                raise each
        return found


def write(url: str, content: bytes) -> None:
    ask(url, "write", "put", content, None)


def remove(url: str) -> None:
    """Delete every file below, if there is any."""
    if names := list(walk(url)):
        ask(url, "delete", "remove", names)


def copy(source: str, target: str) -> None:
    """Copy a file within one store. The bytes do not pass through this machine. Raises FileNotFoundError."""
    with answered(target, "write"):
        client(scheme_of(source)).cp_file(path_of(source), path_of(target))


def upload(path: Path, url: str) -> None:
    if scheme_of(url) not in REMOTE:
        return write(url, path.read_bytes())
    with answered(url, "write"):
        try:
            client(scheme_of(url)).put_file(str(path), path_of(url))
        except FileNotFoundError as error:
            raise no_bucket(url) from error


def download(url: str, path: Path) -> None:
    """Download a file. Raises FileNotFoundError."""
    with answered(url, "read"):
        client(scheme_of(url)).get_file(path_of(url), str(path))


def open_stream(url: str, mode: str, block_bytes: int) -> Any:
    """Open the client's own file object, for reads of ranges or writes in parts. Raises FileNotFoundError."""
    return client(scheme_of(url)).open(path_of(url), mode, block_size=block_bytes)


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
