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
    """The control files of one store. Names use ``/`` and are relative to the store's prefix.

    is_remote: each call is a round trip, so callers should make few calls and make them concurrently.
    """

    is_remote: bool

    def read(self, name: str) -> bytes | None:
        """Return the content, or None if there is no such object."""
        ...

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return content by name, without absent objects. Remote stores read many at once."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Create or replace an object. A reader sees the old or the new content, never a part."""
        ...

    def compare_and_swap(self, name: str, old: bytes | None, new: bytes, *, lasting: bool = False) -> bool:
        """Write ``new`` only if the object still holds ``old`` (None: only if absent). One of many racers wins.

        lasting: a power cut leaves the old or the new content, and the new content once the call has returned.
        """
        ...

    def list_versions(self, folder: str) -> dict[str, str]:
        """Return the names of ``list``, each with a version that changes with the content ("" for a folder)."""
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Delete objects, and ignore absent ones."""
        ...

    def make_durable(self, names: Sequence[str]) -> None:
        """Make objects survive a power cut. Costs milliseconds for each on a local disk."""
        ...

    def append(self, name: str, content: bytes) -> None:
        """Add to the end of a log, which has one writer. Readers see the addition soon, and at once after ``flush``."""
        ...

    def flush(self, name: str) -> None:
        """Send everything that this process appended to a log to the store."""
        ...

    def read_log(self, name: str, start: int = 0) -> bytes:
        """Return the bytes of a log from this one on; empty if there is no log."""
        ...

    def read_logs(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return whole logs by name, without absent ones, with concurrent reads."""
        ...

    def list(self, folder: str) -> list[str]:
        """Return the names directly below a folder, sorted, without the folder; empty if it does not exist."""
        ...


def open_objects(prefix: str) -> Objects:
    """Open the control files of the store at ``prefix``.

    Raises BadPrefix if the prefix is malformed, its parent is missing or no store can be there.
    """
    if not prefix.strip():
        raise BadPrefix("the prefix is empty; name the store's place, e.g. --prefix ./store")
    if "://" not in prefix:
        return LocalObjects(Path(prefix))
    scheme = prefix.split("://", 1)[0]
    if scheme in ("memory", "gs", "s3"):
        from marin.store.objects.remote import RemoteObjects

        return RemoteObjects(prefix)
    raise BadPrefix(
        f"{prefix}: a store cannot be on {scheme}://, because it needs conditional writes. Use a local path (not a "
        "mounted bucket), memory://, gs:// or s3://"
    )
