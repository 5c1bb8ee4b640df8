"""What a store needs of an object store: reads that tell the version, writes that can be bound to one, checksums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

ABSENT = "absent"  # as a condition: only if there is no such object
NEVER = "never"  # as a condition: a version that no object has


class PreconditionFailed(Exception):
    """The object is not at the version that the write was bound to; or it was, and only the answer was lost."""


@dataclass(frozen=True)
class Content:
    """version: changes with every write."""

    content: bytes
    version: str


@dataclass(frozen=True)
class Listed:
    """version: "" for a folder."""

    name: str
    version: str


@dataclass(frozen=True)
class Stored:
    """checksum: as the store keeps it, behind its kind (``md5:``, ``crc32c:``, ``etag:``); "" if it keeps none.
    modified: seconds since 1970 by the store's own clock; 0 where nobody asked for it."""

    size: int
    checksum: str
    modified: float = 0.0


class StoreCalls(Protocol):
    """conditions: what the server's dialect calls "only if absent" and "only at this version".

    path: ``bucket/key``. Each raises what its client raises, FileNotFoundError for a missing bucket.
    """

    conditions: tuple[str, str]

    async def get(self, path: str) -> Content | None:
        """None if there is no such object."""
        ...

    async def put(self, path: str, content: bytes, only_if: str | None) -> str:
        """The new version. only_if: a version, ABSENT, NEVER or None for whatever is there.

        Raises PreconditionFailed.
        """
        ...

    async def list(self, path: str) -> list[Listed]:
        """Objects and folders directly below."""
        ...

    async def walk(self, path: str) -> dict[str, Stored]:
        """Every object below, at any depth, by its name relative to the path."""
        ...

    async def any_below(self, path: str) -> bool:
        """Is there an object below?"""
        ...

    async def info(self, path: str) -> Stored:
        """Raises FileNotFoundError."""
        ...

    async def remove(self, path: str, names: list[str]) -> None:
        """What has these names below a path. No error for what is not there."""
        ...
