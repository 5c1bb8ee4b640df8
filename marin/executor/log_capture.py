"""Capture a process's output in the log of its current attempt, without credentials.

stdout and stderr go to a file on this machine first, and from there to the log, in whole lines. The file keeps the last
output of a killed process. The next capture on this machine copies that output to its log.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from marin.errors import MarinError, StoreError
from marin.store.heartbeat import heartbeat_thread
from marin.store.redaction import redacted
from marin.store.store import Store

COPY_EVERY, COPY_EVERY_HERE = 1.0, 0.25  # seconds between copies to an object store, and to a disk
PIECE = 1 << 20
LONGEST_KEY = 1 << 14  # bytes of a private key, which takes several lines
DIGITS = 16  # of the position up to which the file was copied; then come prefix, log and END
END = b"\0\n"


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
    with tempfile.NamedTemporaryFile(dir=_folder()) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until this process is gone
        head = f"{store.prefix}\0{log}".encode() + END
        file.write(b"%016d" % (DIGITS + len(head)) + head)
        file.flush()
        with _followed(_Copy(file.fileno(), store, log, DIGITS + len(head))), _redirected(file.name):
            yield


@functools.cache
def _folder() -> Path:
    """Return the folder for output of this user's processes. Copies output of killed ones to their logs first."""
    folder = Path(tempfile.gettempdir()) / f"marin-output-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise StoreError(f"{folder} belongs to somebody else, who would read what steps print; set TMPDIR")
    for path in folder.iterdir():
        # A store that is gone or that refuses must not keep a step from starting.
        with contextlib.suppress(OSError, MarinError, ValueError), path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            head = file.readline()
            if head.endswith(END):
                prefix, log = head[DIGITS : -len(END)].decode().split("\0")
                store = Store(prefix)
                if store.directory.is_local:  # a log on an object store has one writer, which is gone
                    _Copy(file.fileno(), store, log, int(head[:DIGITS])).copy(last=True)
                path.unlink()
    return folder


@contextmanager
def _redirected(path: str) -> Generator[None]:
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        os.close(kept[0])
        os.close(kept[1])


@contextmanager
def _followed(copy: _Copy) -> Generator[None]:
    def follow(*, last: bool = False) -> bool:
        with contextlib.suppress(StoreError):
            copy.copy(last=last)
        return True

    thread = heartbeat_thread("marin-output")  # not the thread of claims: a store that hangs would delay their beats
    thread.add(follow, COPY_EVERY_HERE if copy.store.directory.is_local else COPY_EVERY)
    try:
        yield
    finally:
        thread.remove(follow)
        follow(last=True)


class _Copy:
    """Copies a file of output to a log. position: of the first byte that is not in the log. rest: read after it."""

    def __init__(self, file: int, store: Store, log: str, position: int) -> None:
        self.file, self.store, self.log, self.position, self.rest = file, store, log, position, b""
        self.lock, self.ended = threading.Lock(), False

    def copy(self, *, last: bool) -> None:
        """Copy the new whole lines, because a credential in a whole line is whole too. last: the rest as well."""
        with self.lock:
            if self.ended:  # the file is closed, and its descriptor may belong to another file
                return
            self.ended = last
            while piece := os.pread(self.file, PIECE, self.position + len(self.rest)):
                self.rest += piece
                self._send(_whole(self.rest))
            if last:
                self._send(len(self.rest))

    def _send(self, count: int) -> None:
        if count:
            self.store.log(self.log, self.rest[:count])
            self.rest, self.position = self.rest[count:], self.position + count
            os.pwrite(self.file, b"%016d" % self.position, 0)


def _whole(text: bytes) -> int:
    """Return the bytes up to the end of the last line, or to the beginning of an incomplete private key."""
    cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
    key = text.rfind(b"-----BEGIN ")
    if key >= 0 and b"-----END " not in text[key:] and len(text) - key < LONGEST_KEY:
        return min(cut, key)
    return cut or (len(text) if len(text) >= PIECE else 0)
