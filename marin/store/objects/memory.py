"""Control files inside this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any


class MemoryObjects:
    """A store inside this process, for tests and notebooks (fsspec's ``memory://``)."""

    is_remote = False
    _lock = threading.RLock()

    def __init__(self, prefix: str) -> None:
        import fsspec  # pyright: ignore[reportMissingTypeStubs]

        self.prefix = prefix.rstrip("/")
        self.files: Any = fsspec.filesystem("memory")  # pyright: ignore[reportUnknownMemberType]

    def read(self, name: str) -> bytes | None:
        with self._lock:
            try:
                return self.files.cat_file(f"{self.prefix}/{name}")
            except FileNotFoundError:
                return None

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        return {name: content for name in names if (content := self.read(name)) is not None}

    def write(self, name: str, content: bytes) -> None:
        with self._lock:
            self.files.pipe_file(f"{self.prefix}/{name}", content)

    def compare_and_swap(self, name: str, old: bytes | None, new: bytes, *, lasting: bool = False) -> bool:
        with self._lock:
            if self.read(name) != old:
                return False
            self.write(name, new)
            return True

    def remove(self, names: Sequence[str]) -> None:
        with self._lock:
            for name in names:
                if self.files.exists(f"{self.prefix}/{name}"):
                    self.files.rm_file(f"{self.prefix}/{name}")

    def settle(self, names: Sequence[str]) -> None:
        """Nothing here survives anyway."""

    def append(self, name: str, content: bytes) -> None:
        with self._lock:
            self.write(name, (self.read(name) or b"") + content)

    def flush(self, name: str) -> None:
        """Appending writes at once."""

    def read_log(self, name: str, start: int = 0) -> bytes:
        return (self.read(name) or b"")[start:]

    def read_logs(self, names: Sequence[str]) -> dict[str, bytes]:
        return self.read_many(names)

    def names(self, folder: str) -> list[str]:
        return sorted(self.stamps(folder))

    def stamps(self, folder: str) -> dict[str, str]:
        with self._lock:
            try:
                found: list[dict[str, Any]] = self.files.ls(f"{self.prefix}/{folder}", detail=True)
            except FileNotFoundError:
                return {}
        return {
            str(entry["name"]).rsplit("/", 1)[-1]: "" if entry["type"] == "directory" else str(entry["created"])
            for entry in found
        }
