"""What control files need of an object store: reads that tell the version, writes that can be bound to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

ABSENT = "absent"  # as a condition: only if there is no such object


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


class ConditionalCalls(Protocol):
    """path: ``bucket/key``. Each raises what its client raises, FileNotFoundError for a missing bucket."""

    async def get(self, path: str) -> Content | None:
        """None if there is no such object."""
        ...

    async def put(self, path: str, content: bytes, only_if: str | None) -> str:
        """The new version. only_if: a version, ABSENT or None for whatever is there. Raises PreconditionFailed."""
        ...

    async def list(self, path: str) -> list[Listed]:
        """Objects and folders directly below."""
        ...
