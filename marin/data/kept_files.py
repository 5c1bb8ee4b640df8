"""Files that arrived whole, kept in a step's state until its commit: a later attempt does not fetch them again.

::

    {state}/whole/<key>/<name>    key: digest of where the file came from and of what it must be

In an object store a file appears there at once and whole, and goes on into the output without passing through this
machine; on a disk it is moved there and linked.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import xxhash

from marin.store.files.directory import Directory

WHOLE = "whole"
CHUNK = 1 << 20


class KeptFile:
    """One file of a download. name: in the output. origin: all that tells it from another file, checksums too."""

    def __init__(self, state: Directory, name: str, *origin: str) -> None:
        self._state, self.name = state, name
        self.key = xxhash.xxh3_64_hexdigest("\n".join(origin).encode())
        self.directory = state / WHOLE / self.key

    def there(self) -> bool:
        return self.directory.exists(self.name)

    @contextmanager
    def arriving(self) -> Generator[IO[bytes]]:
        """The file is there when the context ends, and not at all if it ends with an error."""
        if not self._state.is_local:
            with self.directory.open(self.name, "wb") as handle:
                yield handle
            return
        part = self._state.path / f"{self.key}.arriving"
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as handle:
            yield handle
        self.take(part)

    def take(self, part: Path) -> None:
        """Make a local file this one; it is gone from where it was."""
        if self._state.is_local:
            target = self.directory.path / self.name
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(part, target)
            return
        with part.open("rb") as source, self.arriving() as target:
            shutil.copyfileobj(source, target, CHUNK)
        part.unlink()

    @contextmanager
    def on_disk(self) -> Generator[Path]:
        """The file on a local disk, for programs that read nothing else; a copy that goes away if it is elsewhere."""
        if self._state.is_local:
            yield self.directory.path / self.name
            return
        with tempfile.TemporaryDirectory() as folder, self.directory.open(self.name, "rb") as source:
            path = Path(folder) / Path(self.name).name
            with path.open("wb") as target:
                shutil.copyfileobj(source, target, CHUNK)
            yield path

    def put_into(self, out: Directory) -> int:
        """Its bytes."""
        self.directory.share([self.name], out)
        return self.directory.size(self.name)


@contextmanager
def scratch(state: Directory) -> Generator[Path]:
    """A local folder for partial files: the step's state if that is local, else one that does not outlive the call."""
    if state.is_local:
        state.path.mkdir(parents=True, exist_ok=True)
        yield state.path
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
