"""The calls that a store needs from an object store: reads with versions, conditional writes, checksums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

ABSENT = "absent"  # as a condition: only if there is no such object
NEVER = "never"  # as a condition: a version that no object has


class PreconditionFailed(Exception):
    """A conditional write failed: the object has another version, or an earlier try's answer was lost."""


@dataclass(frozen=True)
class Content:
    """An object's content. version: changes with every write."""

    content: bytes
    version: str


@dataclass(frozen=True)
class Listed:
    """An entry of a listing. version: "" for a folder."""

    name: str
    version: str


@dataclass(frozen=True)
class Stored:
    """The size, checksum and time of a stored file.

    checksum: the store's own, after its kind (``md5:``, ``crc32c:``, ``etag:``); "" if the store keeps none.
    modified: seconds since 1970 by the store's own clock; 0 if nobody asked for it.
    """

    size: int
    checksum: str
    modified: float = 0.0


class StoreCalls(Protocol):
    """The calls of one kind of object store.

    conditions: the server's words for "only if absent" and "only at this version". path: ``bucket/key``.
    Each call raises its client's own errors, and FileNotFoundError for a missing bucket.
    """

    conditions: tuple[str, str]

    async def get(self, path: str) -> Content | None:
        """Return an object's content, or None if there is no such object."""
        ...

    async def put(self, path: str, content: bytes, only_if: str | None) -> str:
        """Write an object and return its new version. only_if: a version, ABSENT, NEVER, or None for no condition.

        Raises PreconditionFailed.
        """
        ...

    async def list(self, path: str) -> list[Listed]:
        """Return the objects and folders directly below."""
        ...

    async def walk(self, path: str) -> dict[str, Stored]:
        """Return every object below, at any depth, by its name relative to the path."""
        ...

    async def any_below(self, path: str) -> bool:
        """Is there an object below?"""
        ...

    async def info(self, path: str) -> Stored:
        """Return an object's size, checksum and time. Raises FileNotFoundError."""
        ...

    async def remove(self, path: str, names: list[str]) -> None:
        """Delete the objects with these names below a path, and ignore absent ones."""
        ...
