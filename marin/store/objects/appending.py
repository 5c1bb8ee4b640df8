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
import time
from collections.abc import Callable

from marin.errors import StoreError

PART_BYTES = 256 << 10  # a longer part is closed, which bounds the bytes that each send rewrites
SEND_EVERY = 2.0  # seconds
MOST_WAITING = 64 << 20  # bytes to keep while the store does not accept them


class PartedLog:
    """A log in parts. write: writes an object by its full name. parts: lists the parts' names. read: reads a part."""

    def __init__(
        self,
        name: str,
        write: Callable[[str, bytes], None],
        parts: Callable[[], list[str]],
        read: Callable[[str], bytes],
    ) -> None:
        self.name = name
        self._write, self._parts, self._read = write, parts, read
        self._begun = False  # have the existing parts been read?
        self._start = 0  # of the open part
        self._part = bytearray()
        self._sent = 0  # bytes of the open part that the store has
        self._lock, self._sending = threading.Lock(), threading.Lock()

    def append(self, content: bytes) -> None:
        with self._lock:
            self._part += content
            if len(self._part) - self._sent > MOST_WAITING:
                lost = len(self._part) - self._sent - len(content)
                self._part[self._sent :] = f"\n[{lost} bytes lost: the store did not take them]\n".encode() + content

    def send(self) -> None:
        """Send everything that was appended before. Raises StoreError."""
        with self._sending:
            if not self._begun:
                self._begin()
            with self._lock:
                content = bytes(self._part)
                if len(content) == self._sent:
                    return
            self._write(part_name(self.name, self._start), content)
            with self._lock:
                self._sent = len(content)
                if self._sent >= PART_BYTES:
                    self._start += self._sent
                    del self._part[: self._sent]
                    self._sent = 0

    def _begin(self) -> None:
        """Continue after the last byte of an earlier writer."""
        parts = sorted(self._parts())
        last = self._read(f"{self.name}/{parts[-1]}") if parts else b""
        start = int(parts[-1]) if parts else 0
        with self._lock:
            if len(last) >= PART_BYTES:
                start, last = start + len(last), b""
            self._begun, self._start, self._sent = True, start, len(last)
            self._part[:0] = last


def part_name(log: str, start: int) -> str:
    return f"{log}/{start:015d}"


def parts_from(parts: list[str], start: int) -> list[str]:
    """Return the parts that hold bytes from this one on."""
    ordered = sorted(parts)
    later = [int(part) for part in ordered[1:]]
    return [part for number, part in enumerate(ordered) if number == len(later) or later[number] > start]


class Sender:
    """The logs that this process writes, by URL, and the thread that sends them."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.logs: dict[str, PartedLog] = {}
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None

    def log(self, url: str, make: Callable[[], PartedLog]) -> PartedLog:
        with self.lock:
            if url not in self.logs:
                self.logs[url] = make()
            if self.thread is None:
                self.thread = threading.Thread(target=self._send_for_ever, name="marin-logs", daemon=True)
                self.thread.start()
                atexit.register(self.send_quietly)
            return self.logs[url]

    def send(self, url: str) -> None:
        """Send the rest of one log and forget it. Raises StoreError."""
        with self.lock:
            log = self.logs.get(url)
        if log is not None:
            log.send()
            with self.lock:
                self.logs.pop(url, None)

    def send_quietly(self) -> None:
        with self.lock:
            logs = list(self.logs.values())
        for log in logs:
            with contextlib.suppress(StoreError):
                log.send()

    def _send_for_ever(self) -> None:
        while True:
            time.sleep(SEND_EVERY)
            self.send_quietly()


_sender = Sender()


def sender() -> Sender:
    """Return this process's sender. A forked process must not send its parent's lines, so it gets a new one."""
    global _sender
    if _sender.pid != os.getpid():
        _sender = Sender()
    return _sender
