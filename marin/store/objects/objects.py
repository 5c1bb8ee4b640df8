"""The small control files of a store: atomic writes, conditional replacement, one listing.

Records, leases, acceptances and events go through here; the bytes of outputs do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from marin.errors import BadPrefix
from marin.store.objects.local import LocalObjects


class Objects(Protocol):
    """Names use ``/`` and are relative to the store's prefix.

    is_remote: each call is a round trip, so that few calls, and calls side by side, are worth some thought.
    """

    is_remote: bool

    def read(self, name: str) -> bytes | None:
        """Content, or None if there is no such object."""
        ...

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        """Content by name, without what is absent. Remote stores are asked for many at once."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Create or replace; a reader sees the old or the new content, never a part."""
        ...

    def compare_and_swap(self, name: str, old: bytes | None, new: bytes, *, lasting: bool = False) -> bool:
        """Write ``new`` only if the object still holds ``old`` (None: only if absent). One of many racers wins.

        lasting: a power cut leaves the old content or the new one, and the new one once this has returned.
        """
        ...

    def list_versions(self, folder: str) -> dict[str, str]:
        """What ``list`` gives, each with a version that changes with the content ("" for a folder): one listing."""
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Delete objects; nothing happens for one that is not there."""
        ...

    def make_durable(self, names: Sequence[str]) -> None:
        """When this returns, a power cut does not take these any more. Costs milliseconds each on a local disk."""
        ...

    def append(self, name: str, content: bytes) -> None:
        """Add to the end of a log, which has one writer. Others see it soon, and at once after ``flush``."""
        ...

    def flush(self, name: str) -> None:
        """When this returns, everything that this process appended to a log is in the store."""
        ...

    def read_log(self, name: str, start: int = 0) -> bytes:
        """What was appended, from this byte on; empty if nothing was."""
        ...

    def read_logs(self, names: Sequence[str]) -> dict[str, bytes]:
        """Whole logs by name, without what is absent, side by side."""
        ...

    def list(self, folder: str) -> list[str]:
        """Names directly below a folder, sorted, without the folder; empty if it does not exist."""
        ...


def open_objects(prefix: str) -> Objects:
    """The control files of the store at ``prefix``.

    Raises BadPrefix if the prefix is malformed, its parent is missing or no store can be there.
    """
    if not prefix.strip():
        raise BadPrefix("the prefix is empty; name where the store lives, e.g. --prefix ./store")
    if "://" not in prefix:
        return LocalObjects(Path(prefix))
    scheme = prefix.split("://", 1)[0]
    if scheme in ("memory", "gs", "s3"):
        from marin.store.objects.remote import RemoteObjects

        return RemoteObjects(prefix)
    raise BadPrefix(
        f"{prefix}: a store cannot be on {scheme}://; it needs conditional writes, as a local path, memory://, gs:// "
        "and s3:// have them (a mounted bucket does not count)"
    )
