"""Read and write conditionally through any other fsspec file system: ``memory://`` as a store, others as sources."""

# pyright: basic

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

from marin.store.objects.conditional import ABSENT, Content, Listed, PreconditionFailed, Stored


class PlainCalls:
    """The calls of a store on a file system without versions and checksums: a version is a digest of the content.

    All calls of a process run one after the other on one event loop, so that nothing comes between a condition and
    its write.
    """

    conditions: tuple[str, str] = ("only if absent", "only if unchanged")

    def __init__(self, files: Any) -> None:
        self.files = files

    async def get(self, path: str) -> Content | None:
        try:
            content = self.files.cat_file(path)
        except FileNotFoundError:
            return None
        return Content(content, _version(content))

    async def put(self, path: str, content: bytes, only_if: str | None) -> str:
        if only_if is not None:
            there = await self.get(path)
            if (ABSENT if there is None else there.version) != only_if:
                raise PreconditionFailed(path)
        self.files.pipe_file(path, content)
        return _version(content)

    async def list(self, path: str) -> list[Listed]:
        with contextlib.suppress(FileNotFoundError):
            return [
                Listed(entry["name"].rsplit("/", 1)[-1], "" if entry["type"] == "directory" else str(entry["created"]))
                for entry in self.files.ls(path, detail=True)
            ]
        return []

    async def walk(self, path: str) -> dict[str, Stored]:
        found = self.files.find(path, detail=True)
        return {name.removeprefix(f"{path}/"): _stored(entry) for name, entry in found.items() if name != path}

    async def any_below(self, path: str) -> bool:
        return self.files.exists(path)

    async def info(self, path: str) -> Stored:
        entry = self.files.info(path)
        if entry["type"] != "file":
            raise FileNotFoundError(path)
        return _stored(entry)

    async def remove(self, path: str, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self.files.rm_file(f"{path}/{name}")


def _version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _stored(entry: Any) -> Stored:
    return Stored(entry["size"], "", entry["created"])
