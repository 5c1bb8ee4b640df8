"""Control files on an object store, by the public calls of its fsspec client.

Object stores cannot append. A log is buffered, and sent in the background in parts of bounded size::

    {log}/000000000000000      bytes 0 … of the log, rewritten while it is short
    {log}/000000000262183      the rest, from that byte on; earlier parts no longer change

One process writes a log. If the process is killed, it loses at most the lines since the background thread last sent.
Readers join the parts.
"""

# pyright: basic

from __future__ import annotations

import atexit
import contextlib
import math
import os
import threading
from collections.abc import Sequence

from marin.errors import BadPrefix, MarinError, StoreError
from marin.store.heartbeat import heartbeat_thread
from marin.store.layout import CONDITIONS
from marin.store.objects import listing
from marin.store.objects.clients import REMOTE, asking, path_of, read_at_once, send
from marin.store.objects.stored import Stored

PART_BYTES = 256 << 10  # a longer part is closed, which bounds the bytes that each send rewrites
SEND_EVERY = 2.0  # seconds
ATTEMPTS = 5  # to create an object that the store refuses to create although there is none
CONDITION = {"gs": "ifGenerationMatch=0", "s3": "If-None-Match"}  # the servers' words for "only if there is none"
_honest: set[str] = set()  # prefixes whose store was seen, by this process, to honour that condition
_memory = threading.Lock()  # the memory of this process has no condition of its own


class RemoteObjects:
    """The control files of a store on ``gs://``, ``s3://`` or, inside this process, ``memory://``.

    Safe to use from many threads and after a fork.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix.rstrip("/")
        self.scheme, _, path = self.prefix.partition("://")
        self.is_remote = self.scheme in REMOTE
        if not path.split("/")[0]:
            raise BadPrefix(f"{prefix}: names no bucket; wanted {self.scheme}://bucket/folder")

    def read(self, name: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError), asking(self._url(name), "read", may_be_absent=True) as asked:
            files, path = asked
            return files.cat_file(path)
        return None

    def read_many(self, names: Sequence[str]) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(names))
        contents = read_at_once(self.prefix, [(path_of(self._url(name)), None, None) for name in wanted])
        return {name: content for name, content in zip(wanted, contents, strict=True) if content is not None}

    def write(self, name: str, content: bytes) -> None:
        send(self._url(name), content)

    def create(self, name: str, content: bytes, *, lasting: bool = False) -> bool:
        self._must_honour_the_condition()
        for _ in range(ATTEMPTS):
            if self._created(name, content):
                return True
            there = self.read(name)
            if there is not None:
                return there == content
        raise StoreError(
            f"{self.prefix}/{name}: the store refused {ATTEMPTS} times to create this object although there is none; "
            "run again"
        )

    def remove(self, names: Sequence[str]) -> None:
        if names:
            listing.remove(self.prefix, list(dict.fromkeys(names)))

    def make_durable(self, names: Sequence[str]) -> None:
        """Do nothing: an object store answers only when its content is safe."""

    def append(self, name: str, content: bytes) -> None:
        if not self.is_remote:
            return self.write(_part_name(name, 0), (self.read(_part_name(name, 0)) or b"") + content)
        if not _logs:
            heartbeat_thread("marin-logs").add(_send_all, SEND_EVERY)  # not the thread of claims: a send may take long
        url = self._url(name)
        log = _logs.get(url) or _logs.setdefault(url, _PartedLog(self, name))
        log.append(content)

    def flush(self, name: str) -> None:
        if (log := _logs.get(self._url(name))) is not None:
            log.send()
            _logs.pop(self._url(name), None)

    def read_log(self, name: str, start: int = 0) -> bytes:
        parts = self.list(name)
        if not parts:
            return b""
        ends = [*map(int, parts[1:]), math.inf]
        parts = [part for part, end in zip(parts, ends, strict=True) if end > start]
        found = self.read_many([f"{name}/{part}" for part in parts])
        return b"".join(found.get(f"{name}/{part}", b"") for part in parts)[start - int(parts[0]) :]

    def read_logs(self, names: Sequence[str]) -> dict[str, bytes]:
        found = self.read_many([_part_name(name, 0) for name in names])
        first = {name: found[_part_name(name, 0)] for name in names if _part_name(name, 0) in found}
        return {name: part if len(part) < PART_BYTES else self.read_log(name) for name, part in first.items()}

    def list(self, folder: str) -> list[str]:
        return sorted(name for name in listing.below(self._url(folder), deep=False) if not name.startswith("."))

    def stats(self, folder: str) -> dict[str, Stored]:
        found = listing.below(self._url(folder), deep=False).items()
        return {name: stored for name, stored in found if stored is not None and not name.startswith(".")}

    def _url(self, name: str) -> str:
        return f"{self.prefix}/{name}".rstrip("/")

    def _created(self, name: str, content: bytes) -> bool:
        """Create an object in one call. Return False if the store refused because there may be one already."""
        try:
            with contextlib.nullcontext() if self.is_remote else _memory:
                return send(self._url(name), content, only_if_absent=True)
        except BadPrefix:
            raise
        except StoreError:
            with contextlib.suppress(MarinError):
                if self.read(name) == content:
                    return True  # only the answer was lost
            raise

    def _must_honour_the_condition(self) -> None:
        """Raise BadPrefix if the store replaces an object that it was asked only to create.

        Each process asks once. The object for this test stays in the store.
        """
        if self.prefix in _honest or not self.is_remote:
            return
        for content in (b"created once\n", b"created again\n"):
            if not send(self._url(CONDITIONS), content, only_if_absent=True):
                _honest.add(self.prefix)
                return
        raise BadPrefix(
            f"{self.prefix}: this store ignores {CONDITION[self.scheme]} (it replaced {CONDITIONS}, which it was asked "
            "only to create), so two drivers could both commit a step. Use a store that honours conditional writes"
        )


class _PartedLog:
    """A log that this process writes, in parts. name: of the log in the store."""

    def __init__(self, objects: RemoteObjects, name: str) -> None:
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
            if self._begun or not self.objects.create(_part_name(self.name, 0), content):  # nearly every log is new
                if not self._begun:
                    content = self._after_earlier_writer()
                self.objects.write(_part_name(self.name, self._start), content)
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


def _part_name(log: str, start: int) -> str:
    return f"{log}/{start:015d}"


_logs: dict[str, _PartedLog] = {}  # by URL: the logs that this process writes and has not flushed


def _send_all() -> bool:
    for log in list(_logs.values()):
        with contextlib.suppress(StoreError):
            log.send()
    return True


atexit.register(_send_all)
os.register_at_fork(after_in_child=_logs.clear)  # a child must not send its parent's lines
