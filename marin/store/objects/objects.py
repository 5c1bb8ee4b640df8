"""The small control files of a store: atomic writes, exclusive creation, one listing.

Claims, ends, statements and events go through here; the bytes of outputs do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from marin.errors import BadPrefix
from marin.store.objects.local import LocalObjects
from marin.store.objects.stored import Stored


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

    def create(self, name: str, content: bytes, *, lasting: bool = False) -> bool:
        """Create an object, whole or not at all. Of many racers exactly one gets True, and no call replaces an object.

        Also returns True if the object already holds these very bytes: the answer to our first call was lost.
        lasting: the object survives a power cut once the call has returned.
        """
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

    def stats(self, folder: str) -> dict[str, Stored]:
        """Return the objects of ``list`` with their sizes and times, without folders. Takes one listing."""
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
