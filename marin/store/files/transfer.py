"""Files on an object store (or in ``memory://``), by URL: what they are, and moving them."""

# pyright: basic

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from marin.store.objects.answers import answered, no_bucket
from marin.store.objects.clients import REMOTE, calls, client, on_loop
from marin.store.objects.conditional import Stored

AT_A_TIME = 8  # files of one directory that are moved side by side


def scheme_of(url: str) -> str:
    return url.split("://", 1)[0]


def walk(url: str) -> dict[str, Stored]:
    """Every file below, by its relative name: one listing. Empty if nothing is there."""
    try:
        return _ask(url, "list", "walk")
    except FileNotFoundError as error:
        raise no_bucket(url) from error


def info(url: str) -> Stored:
    """Raises FileNotFoundError."""
    return _ask(url, "read", "info")


def exists(url: str) -> bool:
    """Is there such a file, or any below it?"""
    with contextlib.suppress(FileNotFoundError):
        info(url)
        return True
    try:
        return _ask(url, "list", "any_below")
    except FileNotFoundError as error:
        raise no_bucket(url) from error


def read(url: str) -> bytes:
    """Raises FileNotFoundError."""
    held = _ask(url, "read", "get")
    if held is None:
        raise FileNotFoundError(f"{url} does not exist")
    return held.content


def write(url: str, content: bytes) -> None:
    try:
        _ask(url, "write", "put", content, None)
    except FileNotFoundError as error:
        raise no_bucket(url) from error


def remove(url: str) -> None:
    """Everything below; nothing happens if nothing is there."""
    path = _path(url)
    names = [f"{path}/{name}" for name in walk(url)]
    if names:
        with answered(url, "delete"):
            _run(url, "remove", names)


def copy(source: str, target: str) -> None:
    """Within one store; the bytes do not pass through this machine. Raises FileNotFoundError."""
    with answered(target, "write"):
        if scheme_of(source) in REMOTE:
            files = client(scheme_of(source))
            on_loop(scheme_of(source), files._cp_file, _path(source), _path(target))
        else:
            write(target, read(source))


def upload(path: Path, url: str) -> None:
    with answered(url, "write"):
        try:
            if scheme_of(url) in REMOTE:
                files = client(scheme_of(url))
                on_loop(scheme_of(url), files._put_file, str(path), _path(url))
            else:
                write(url, path.read_bytes())
        except FileNotFoundError as error:
            raise no_bucket(url) from error


def download(url: str, path: Path) -> None:
    """Raises FileNotFoundError."""
    with answered(url, "read"):
        if scheme_of(url) in REMOTE:
            files = client(scheme_of(url))
            on_loop(scheme_of(url), files._get_file, _path(url), str(path))
        else:
            path.write_bytes(read(url))


def open_stream(url: str, mode: str, block_bytes: int) -> Any:
    """The client's own file object, for reading in ranges or writing in parts. Raises FileNotFoundError."""
    files = client(scheme_of(url)) if scheme_of(url) in REMOTE else _plain(url).files
    return files.open(_path(url), mode, block_size=block_bytes)


def side_by_side[T, R](work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """``[work(item) for item in items]``, several at a time; the first error is raised."""
    todo = list(items)
    if len(todo) <= 1:
        return [work(item) for item in todo]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        running = [pool.submit(work, item) for item in todo]
        try:
            return [held.result() for held in running]
        finally:
            for held in running:
                held.cancel()


def _ask(url: str, doing: str, call: str, *arguments: Any) -> Any:
    with answered(url, doing):
        return _run(url, call, _path(url), *arguments)


def _run(url: str, call: str, *arguments: Any) -> Any:
    scheme = scheme_of(url)
    if scheme in REMOTE:
        return on_loop(scheme, getattr(calls(scheme), call), *arguments)
    done = getattr(_plain(url), call)(*arguments)
    assert not inspect.isawaitable(done)
    return done


def _path(url: str) -> str:
    return url.split("://", 1)[1].rstrip("/") if scheme_of(url) in REMOTE else _plain(url).path(url)


class _Plain:
    """The same calls on a file system that keeps no versions and no checksums: ``memory://``."""

    def __init__(self, files: Any) -> None:
        self.files = files

    def path(self, url: str) -> str:
        return self.files._strip_protocol(url).rstrip("/")

    def get(self, path: str) -> Any:
        from marin.store.objects.conditional import Content

        return Content(self.files.cat_file(path), "")

    def put(self, path: str, content: bytes, _: None) -> None:
        self.files.pipe_file(path, content)

    def walk(self, path: str) -> dict[str, Stored]:
        found = self.files.find(path, detail=True)
        return {
            name.removeprefix(f"{path}/"): Stored(held["size"], "", held["created"])
            for name, held in found.items()
            if name != path
        }

    def any_below(self, path: str) -> bool:
        return self.files.exists(path)

    def info(self, path: str) -> Stored:
        held = self.files.info(path)
        if held["type"] != "file":
            raise FileNotFoundError(path)
        return Stored(held["size"], "", held["created"])

    def remove(self, paths: list[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self.files.rm_file(path)


def _plain(url: str) -> _Plain:
    import fsspec.core

    return _Plain(fsspec.core.url_to_fs(url)[0])
