"""Complete files, kept in a step's state until its commit, so that a later attempt does not fetch them again.

::

    {state}/whole/<key>/<name>    key: digest of the file's origin and its expected content

In an object store a file appears there only when it is complete, and is copied into the output without passing through
this machine. On a disk the file is moved there and linked.
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
    """One file of a download. name: in the output. origin: all that identifies the file, with its checksums."""

    def __init__(self, state: Directory, name: str, *origin: str) -> None:
        self._state, self.name = state, name
        self.key = xxhash.xxh3_64_hexdigest("\n".join(origin).encode())
        self.directory = state / WHOLE / self.key

    def there(self) -> bool:
        return self.directory.exists(self.name)

    @contextmanager
    def arriving(self) -> Generator[IO[bytes]]:
        """Open the file for writing. The file appears when the context ends, and never if it ends with an error."""
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
        """Move a local file here."""
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
        """Yield the file's path on a local disk, for programs that need one. Of a remote file: a temporary copy."""
        if self._state.is_local:
            yield self.directory.path / self.name
            return
        with tempfile.TemporaryDirectory() as folder, self.directory.open(self.name, "rb") as source:
            path = Path(folder) / Path(self.name).name
            with path.open("wb") as target:
                shutil.copyfileobj(source, target, CHUNK)
            yield path

    def put_into(self, out: Directory) -> int:
        """Put the file into the output, and return its size in bytes."""
        self.directory.share([self.name], out)
        return self.directory.size(self.name)


@contextmanager
def scratch(state: Directory) -> Generator[Path]:
    """Yield a local folder for partial files: the step's state if it is local, else a temporary folder."""
    if state.is_local:
        state.path.mkdir(parents=True, exist_ok=True)
        yield state.path
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
