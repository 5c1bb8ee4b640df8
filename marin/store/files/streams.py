"""File objects on an object store: reads in blocks, and writes that appear whole or not at all."""

# pyright: basic

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Any

from marin.errors import StoreError
from marin.store.files import transfer, written
from marin.store.files.written import Written
from marin.store.objects.clients import asking, send

READ_BLOCK = 8 << 20  # bytes fetched at a time, and ahead
WRITE_BLOCK = 16 << 20  # a smaller file is sent in one call, a larger one in parts of this size


def reader(url: str, mode: str) -> IO[Any]:
    """Open a file for reading. Raises FileNotFoundError."""
    handle: Any = io.BufferedReader(RemoteReader(url), buffer_size=1 << 20)
    return handle if "b" in mode else io.TextIOWrapper(handle, encoding="utf-8")


@contextmanager
def writer(url: str, mode: str) -> Generator[IO[Any]]:
    """Open a file for writing. The file appears when the context ends, and not at all if it ends with an error."""
    if mode not in ("w", "wb"):
        raise StoreError(
            f"{url}: cannot be opened with mode {mode!r} on an object store; write the whole file with 'wb' or 'w'"
        )
    raw: Any = RemoteWriter(url)
    handle: Any = raw if "b" in mode else io.TextIOWrapper(raw, encoding="utf-8")
    try:
        yield handle
        handle.close()
    except BaseException:
        raw.discard()
        raise


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


class RemoteWriter(io.BufferedIOBase):
    """A file that is being written. ``close`` publishes the file; ``discard`` before ``close`` leaves nothing."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self._small = bytearray()
        self._stream: Any = None
        self._size = 0
        self._sha256, self._md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        if self.closed:
            raise ValueError(f"{self.url} is closed")
        view = memoryview(data).cast("B")
        self._sha256.update(view)
        self._md5.update(view)
        self._size += view.nbytes
        if self._stream is None and len(self._small) + view.nbytes < WRITE_BLOCK:
            self._small += view
            return view.nbytes
        with asking(self.url, "write") as (files, path):
            if self._stream is None:
                self._stream = files.open(path, "wb", block_size=WRITE_BLOCK)
                self._stream.write(bytes(self._small))
                self._small.clear()
            self._stream.write(view)
        return view.nbytes

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        stored = None
        if self._stream is None:
            send(self.url, bytes(self._small))
        else:
            with asking(self.url, "write"):
                self._stream.close()
            stored = transfer.info(self.url)
        sent = Written(size=self._size, sha256=self._sha256.hexdigest(), md5=self._md5.hexdigest(), stored=stored)
        written.note(self.url, sent)

    def discard(self) -> None:
        if self.closed:
            return
        super().close()
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(Exception):  # the sent parts never appear, and the store drops them later
                stream.discard()
            stream.closed = True  # an open stream sends its buffer when it is collected
