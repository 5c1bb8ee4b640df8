"""Capture a process's output in the log of its current attempt, without credentials.

stdout and stderr go to a file without a name, and from there to the log, in whole lines. If the process is killed, the
output since the last copy is lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO

from marin.errors import StoreError
from marin.store.heartbeat import heartbeat_thread
from marin.store.redaction import redacted
from marin.store.store import Store

COPY_EVERY, COPY_EVERY_HERE = 1.0, 0.25  # seconds between copies to an object store, and to a disk
PIECE = 1 << 20
LONGEST_KEY = 1 << 14  # bytes of a private key, which takes several lines


@contextmanager
def clean_output() -> Generator[None]:
    """Remove credentials from the output of this process, but not of its children.

    A terminal stays as it is, for debuggers.
    """
    with contextlib.ExitStack() as stack:
        if not sys.stdout.isatty():
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(CleanStream(sys.stdout))))
        if not sys.stderr.isatty():
            stack.enter_context(contextlib.redirect_stderr(stack.enter_context(CleanStream(sys.stderr))))
        yield


class CleanStream:
    """A stream that passes on whole lines, and the rest when it is flushed."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.rest = stream, ""

    def write(self, text: str, /) -> int:
        whole, newline, self.rest = (self.rest + text).rpartition("\n")
        self.stream.write(redacted(whole + newline))
        return len(text)

    def flush(self) -> None:
        rest, self.rest = self.rest, ""
        self.stream.write(redacted(rest))
        self.stream.flush()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def captured(store: Store, log: str) -> Generator[None]:
    """Send this process's stdout and stderr, and those of its children, to a log of the store."""
    with tempfile.TemporaryFile() as file:
        copy = _Copy(file.fileno(), store, log)
        thread = heartbeat_thread("marin-output")  # a store that hangs must not delay the beats of claims
        thread.add(copy.copy, COPY_EVERY_HERE if store.directory.is_local else COPY_EVERY)
        try:
            with _redirected(file.fileno()):
                yield
        finally:
            copy.copy(last=True)


@contextmanager
def _redirected(file: int) -> Generator[None]:
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)  # a child may open its stdout again, and write there too
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    for number in kept:
        os.dup2(file, number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


class _Copy:
    """Copies a file of output to a log. position: of the first byte that was not sent."""

    def __init__(self, file: int, store: Store, log: str) -> None:
        self.file, self.store, self.log, self.position = file, store, log, 0
        self.lock, self.ended = threading.Lock(), False

    def copy(self, *, last: bool = False) -> bool:
        """Copy the new whole lines, because a credential in a whole line is whole too. last: the rest as well.

        Return whether more may come.
        """
        with self.lock, contextlib.suppress(StoreError):
            if self.ended:  # the file is closed, and its descriptor may belong to another file
                return False
            self.ended = last
            while piece := os.pread(self.file, PIECE, self.position):
                count = _whole(piece) or (len(piece) if last else 0)
                if not count:
                    break
                self.store.log(self.log, piece[:count])
                self.position += count
        return not last


def _whole(text: bytes) -> int:
    """Return the bytes up to the end of the last line, or to the beginning of an incomplete private key."""
    cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
    key = text.rfind(b"-----BEGIN ")
    if key >= 0 and b"-----END " not in text[key:] and len(text) - key < LONGEST_KEY:
        return min(cut, key)
    return cut or (len(text) if len(text) >= PIECE else 0)
