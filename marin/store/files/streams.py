"""File objects on an object store: reads in blocks, and writes that appear whole or not at all."""

# pyright: basic

from __future__ import annotations

import io
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from marin.errors import StoreError
from marin.store.files import written
from marin.store.objects.clients import asking

READ_BLOCK = 8 << 20  # bytes fetched at a time, and ahead


def reader(url: str, mode: str) -> IO[Any]:
    """Open a file for reading. Raises FileNotFoundError."""
    handle: Any = io.BufferedReader(RemoteReader(url), buffer_size=1 << 20)
    return handle if "b" in mode else io.TextIOWrapper(handle, encoding="utf-8")


@contextmanager
def writer(url: str, mode: str) -> Generator[IO[Any]]:
    """Open a file for writing, below $TMPDIR. The file appears when the context ends, unless it ends with an error."""
    if mode not in ("w", "wb"):
        raise StoreError(
            f"{url}: cannot be opened with mode {mode!r} on an object store; write the whole file with 'wb' or 'w'"
        )
    with tempfile.TemporaryDirectory(prefix="marin-sent-") as folder:
        path = Path(folder) / "file"
        with path.open(mode, encoding=None if "b" in mode else "utf-8") as handle:
            yield handle
        written.upload(path, url)


class RemoteReader(io.RawIOBase):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        with asking(url, "read", may_be_absent=True) as (files, path):
            self._stream = files.open(path, "rb", block_size=READ_BLOCK)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with asking(self.url, "read", may_be_absent=True):
            return self._stream.readinto(buffer)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
