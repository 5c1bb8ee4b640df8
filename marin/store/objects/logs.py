"""Logs on stores without appending: buffered, and sent in the background in parts of bounded size.

::

    {log}/000000000000000      bytes 0 … of the log, rewritten while it is short
    {log}/000000000262183      the rest, from that byte on; earlier parts no longer change

One process writes a log. If the process is killed, it loses at most the lines since the background thread last sent.
Readers join the parts.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from typing import Protocol

from marin.errors import StoreError
from marin.store.heartbeat import heartbeat_thread

PART_BYTES = 256 << 10  # a longer part is closed, which bounds the bytes that each send rewrites
SEND_EVERY = 2.0  # seconds


class Parts(Protocol):
    """The store of the parts; see marin.store.objects.objects."""

    prefix: str

    def read(self, name: str) -> bytes | None: ...
    def write(self, name: str, content: bytes) -> None: ...
    def create(self, name: str, content: bytes) -> bool: ...
    def list(self, folder: str) -> list[str]: ...


class PartedLog:
    """A log that this process writes, in parts. name: of the log in the store."""

    def __init__(self, objects: Parts, name: str) -> None:
        self.objects, self.name = objects, name
        self._begun = False  # are the parts of earlier writers known?
        self._start = 0  # of the open part
        self._part = bytearray()
        self._sent = 0  # bytes of the open part that the store has
        self._lock, self._sending = threading.Lock(), threading.Lock()

    def append(self, content: bytes) -> None:
        with self._lock:
            self._part += content

    def send(self) -> None:
        """Send everything that was appended before. Raises StoreError."""
        with self._sending:
            with self._lock:
                content = bytes(self._part)
            if len(content) == self._sent:
                return
            if self._begun or not self.objects.create(part_name(self.name, 0), content):  # nearly every log is new
                if not self._begun:
                    content = self._after_earlier_writer()
                self.objects.write(part_name(self.name, self._start), content)
            self._begun = True
            with self._lock:
                self._sent = len(content)
                if self._sent >= PART_BYTES:
                    self._start += self._sent
                    del self._part[: self._sent]
                    self._sent = 0

    def _after_earlier_writer(self) -> bytes:
        """Go on after the last byte that is there. Return the content of the open part."""
        parts = self.objects.list(self.name)
        start, last = (int(parts[-1]), self.objects.read(f"{self.name}/{parts[-1]}") or b"") if parts else (0, b"")
        with self._lock:
            if start == 0 and self._part.startswith(last):
                last = b""  # our own first lines: the answer to our call was lost
            elif len(last) >= PART_BYTES:
                start, last = start + len(last), b""
            self._begun, self._start = True, start
            self._part[:0] = last
            return bytes(self._part)


def part_name(log: str, start: int) -> str:
    return f"{log}/{start:015d}"


def parts_from(parts: list[str], start: int) -> list[str]:
    """Return the parts that hold bytes from this one on. parts: in their order."""
    later = [int(part) for part in parts[1:]]
    return [part for number, part in enumerate(parts) if number == len(later) or later[number] > start]


_logs: dict[str, PartedLog] = {}  # by URL: the logs that this process writes and has not flushed


def append(objects: Parts, name: str, content: bytes) -> None:
    """Add to a log, which the background thread sends."""
    if not _logs:
        heartbeat_thread("marin-logs").add(_send_all, SEND_EVERY)  # not the thread of claims: a send may take long
    url = f"{objects.prefix}/{name}"
    log = _logs.get(url) or _logs.setdefault(url, PartedLog(objects, name))
    log.append(content)


def flush(objects: Parts, name: str) -> None:
    """Send the rest of one log and forget the log. Raises StoreError."""
    url = f"{objects.prefix}/{name}"
    if (log := _logs.get(url)) is not None:
        log.send()
        _logs.pop(url, None)


def _send_all() -> bool:
    for log in list(_logs.values()):
        with contextlib.suppress(StoreError):
            log.send()
    return True


atexit.register(_send_all)
os.register_at_fork(after_in_child=_logs.clear)  # a child must not send its parent's lines
