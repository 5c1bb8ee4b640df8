"""Hashes of the files that this process wrote to object stores, so that a commit need not read the files back."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from msgspec import Struct

from marin.store.objects.stored import Stored


class Written(Struct, frozen=True):
    """A file that this process wrote.

    sha256, md5: of the bytes, in hex. stored: the store's answer about the file afterwards, if it was asked.
    """

    size: int
    sha256: str
    md5: str
    stored: Stored | None = None

    def is_what(self, found: Stored) -> bool:
        """Does the store still hold these bytes, by its checksum? An ETag is an md5, unless the upload had parts."""
        if found.size != self.size or not found.checksum:
            return False
        return found == self.stored or found.checksum in (f"md5:{self.md5}", f"etag:{self.md5}")


_written: dict[str, Written] = {}
_lock = threading.Lock()


def note(found: Mapping[str, Written]) -> None:
    """Add files, by URL, that this process or another one of the same attempt wrote."""
    with _lock:
        _written.update(found)


def hashes(url: str, found: Mapping[str, Stored]) -> dict[str, str]:
    """Return the known sha256 of files in a directory, by name. A file counts only if the store still holds its bytes.

    found: the store's listing of the directory.
    """
    known = {name: _written.get(f"{url}/{name}") for name in found}
    return {name: sent.sha256 for name, sent in known.items() if sent is not None and sent.is_what(found[name])}


def below(url: str) -> dict[str, Written]:
    """Return the files written below a directory, by URL."""
    with _lock:
        return {name: sent for name, sent in _written.items() if name.startswith(f"{url}/")}


def forget(url: str) -> None:
    """Forget the files below a directory that is no longer needed."""
    with _lock:
        for name in [name for name in _written if name.startswith(f"{url}/")]:
            del _written[name]
