"""A place that files can be read from and written to: a local folder or any fsspec URL."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from marin.errors import StoreError


@dataclass(frozen=True)
class Directory:
    """url: an absolute local path or ``scheme://…``; names below it use ``/``."""

    url: str

    def __truediv__(self, name: str) -> Directory:
        return Directory(f"{self.url.rstrip('/')}/{name}")

    @property
    def is_local(self) -> bool:
        return "://" not in self.url

    @property
    def path(self) -> Path:
        """The local path. Raises StoreError for a remote directory."""
        if not self.is_local:
            raise StoreError(f"{self.url} is not on this machine; copy it first")
        return Path(self.url)

    @contextmanager
    def open(self, name: str, mode: str = "rb") -> Generator[IO[Any]]:
        """Open one file; parents are made when writing. Text modes are UTF-8."""
        encoding = None if "b" in mode else "utf-8"
        if self.is_local:
            target = self.path / name
            if "r" not in mode:
                target.parent.mkdir(parents=True, exist_ok=True)
            with target.open(mode, encoding=encoding) as handle:
                yield handle
        else:
            with self._filesystem().open(f"{self.url}/{name}", mode, encoding=encoding) as handle:
                yield handle

    def exists(self, name: str = "") -> bool:
        if self.is_local:
            return (self.path / name).exists()
        return self._filesystem().exists(f"{self.url}/{name}" if name else self.url)

    def names(self) -> list[str]:
        """Every file below, relative, sorted; ``.marin/`` is not listed. Empty if nothing is there."""
        if self.is_local:
            root = self.path
            found = [
                os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
                for folder, _, names in os.walk(root)
                for name in names
            ]
        else:
            filesystem = self._filesystem()
            base = filesystem._strip_protocol(self.url).rstrip("/") + "/"
            found = [path.removeprefix(base) for path in filesystem.find(self.url)]
        return sorted(name for name in found if not name.startswith(".marin/"))

    def stamp(self) -> str:
        """Digest of names, sizes and modification times of every file below, ``.marin/`` left out.

        "" where the store has no such times, or nothing is there. Reads no file.
        """
        if not self.is_local:
            return ""
        found: list[str] = []
        try:
            _stamps(self.url, "", found)
        except FileNotFoundError:
            return ""
        return hashlib.sha256("\n".join(sorted(found)).encode(errors="surrogateescape")).hexdigest()[:32]

    def size(self, name: str) -> int:
        """Bytes of one file."""
        if self.is_local:
            return (self.path / name).stat().st_size
        return int(self._filesystem().size(f"{self.url}/{name}"))

    def read_bytes(self, name: str) -> bytes:
        with self.open(name, "rb") as handle:
            return handle.read()

    def read_text(self, name: str) -> str:
        return self.read_bytes(name).decode()

    def write_bytes(self, name: str, content: bytes) -> None:
        with self.open(name, "wb") as handle:
            handle.write(content)

    def write_text(self, name: str, content: str) -> None:
        self.write_bytes(name, content.encode())

    def remove(self) -> None:
        """Delete the directory and everything below it; nothing happens if it is not there."""
        if self.is_local:
            shutil.rmtree(self.path, ignore_errors=True)
        elif self.exists():
            self._filesystem().rm(self.url, recursive=True)

    def _filesystem(self) -> Any:
        import fsspec

        return fsspec.core.url_to_fs(self.url)[0]  # pyright: ignore[reportUnknownMemberType]


def _stamps(folder: str, below: str, found: list[str]) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if below or entry.name != ".marin":
                    _stamps(entry.path, f"{below}{entry.name}/", found)
            else:
                status = entry.stat()
                found.append(f"{below}{entry.name} {status.st_size} {status.st_mtime_ns}")
