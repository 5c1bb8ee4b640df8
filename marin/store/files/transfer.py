"""Files on an object store (or in ``memory://``), by URL: what they are, and moving them."""

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
    """Every file below, by its relative name: one listing. Empty if nothing is there."""
    return ask(url, "list", "walk")


def info(url: str) -> Stored:
    """Raises FileNotFoundError."""
    return ask(url, "read", "info")


def exists(url: str) -> bool:
    """Is there such a file, or any below it?"""
    with contextlib.suppress(FileNotFoundError):
        info(url)
        return True
    return ask(url, "list", "any_below")


def read(url: str) -> bytes:
    """Raises FileNotFoundError."""
    there = ask(url, "read", "get")
    if there is None:
        raise FileNotFoundError(f"{url} does not exist")
    return there.content


def read_ranges(url: str, ranges: list[tuple[int, int]]) -> list[bytes]:
    """Bytes start … stop - 1 of one file for each range, side by side; fewer where the file ends.

    Raises FileNotFoundError.
    """
    if not ranges:
        return []
    files, path = client(scheme_of(url)), path_of(url)
    with answered(url, "read"):
        starts, stops = [list(ends) for ends in zip(*ranges, strict=True)]
        found = files.cat_ranges([path] * len(ranges), starts, stops, on_error="raise")
        for each in found:  # its asynchronous kind returns errors, whatever it is told
            if isinstance(each, BaseException):
                raise each
        return found


def write(url: str, content: bytes) -> None:
    ask(url, "write", "put", content, None)


def remove(url: str) -> None:
    """Everything below; nothing happens if nothing is there."""
    if names := list(walk(url)):
        ask(url, "delete", "remove", names)


def copy(source: str, target: str) -> None:
    """Within one store; the bytes do not pass through this machine. Raises FileNotFoundError."""
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
    """Raises FileNotFoundError."""
    with answered(url, "read"):
        client(scheme_of(url)).get_file(path_of(url), str(path))


def open_stream(url: str, mode: str, block_bytes: int) -> Any:
    """The client's own file object, for reading in ranges or writing in parts. Raises FileNotFoundError."""
    return client(scheme_of(url)).open(path_of(url), mode, block_size=block_bytes)


def side_by_side[T, R](work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """``[work(item) for item in items]``, several at a time; the first error is raised."""
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
