"""One writer per identity, without trusting any clock but one's own.

A lease is one object that every change replaces conditionally, so of many racers one wins. A live
holder raises ``beat``; others judge it dead when they have *watched* the beat stand still for
``EXPIRY`` seconds of their own monotonic clock, or at once when it ran on this very host and its
process is gone. ``token`` grows with every holder. Committing is itself a conditional replacement
(held → committed), so a holder that was taken over can never commit, however late it wakes.
"""

from __future__ import annotations

import functools
import getpass
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, ValidationError

from marin.errors import CorruptRecord, LeaseLost, MarinError
from marin.objects import Objects

EXPIRY = 60.0  # seconds without a beat, as watched by the one who waits
BEAT_EVERY = 2.0  # seconds


class State(StrEnum):
    HELD = "held"
    COMMITTED = "committed"
    RELEASED = "released"


class Holder(BaseModel):
    """A process, well enough described to see from the same host that it is gone."""

    model_config = ConfigDict(frozen=True)
    user: str
    host: str
    boot: str
    pid: int
    started: str

    def is_gone(self) -> bool:
        """True only when this host can prove it: same boot, and no such process any more."""
        me = this_process()
        if self.host != me.host:
            return False
        return self.boot != me.boot or _started(self.pid) != self.started

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid})"


class LeaseDocument(BaseModel):
    """What the lease object holds. since: for people only; never compared."""

    model_config = ConfigDict(frozen=True)
    state: State
    token: int
    attempt: str
    holder: Holder
    since: str
    beat: int = 0
    progress: str = ""

    def to_bytes(self) -> bytes:
        return self.model_dump_json().encode()

    def describe(self) -> str:
        return f"held by {self.holder} since {self.since}; log: {self.attempt}/.marin/log.txt"


def parse_lease(content: bytes, where: str) -> LeaseDocument:
    try:
        return LeaseDocument.model_validate_json(content)
    except ValidationError as error:
        raise CorruptRecord(
            f"{where} is not a readable lease; if nobody runs this step, delete the file and run again"
        ) from error


def lease_name(identity: str) -> str:
    return f".marin/leases/{identity}.json"


def read_lease(objects: Objects, identity: str) -> LeaseDocument | None:
    name = lease_name(identity)
    content = objects.read(name)
    return None if content is None else parse_lease(content, name)


@dataclass(frozen=True)
class Held:
    """Somebody else has it."""

    by: LeaseDocument


class Watch:
    """How long each foreign lease has stood still, by our own clock. Keep one per driver."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, expiry: float = EXPIRY) -> None:
        self.clock = clock
        self.expiry = expiry
        self.seen: dict[str, tuple[tuple[int, int], float]] = {}

    def is_dead(self, identity: str, lease: LeaseDocument) -> bool:
        if lease.holder.is_gone():
            return True
        now, state = self.clock(), (lease.token, lease.beat)
        known = self.seen.get(identity)
        if known is None or known[0] != state:
            self.seen[identity] = (state, now)
            return False
        return now - known[1] > self.expiry


_abandoned: set[LeaseDocument] = set()  # leases of this process that a full disk kept it from releasing


class Lease:
    """Our own hold on one identity. Use ``acquire``; then ``commit`` or ``release``."""

    def __init__(
        self, objects: Objects, identity: str, document: LeaseDocument, before: LeaseDocument | None = None
    ) -> None:
        """before: the lease that this one replaced."""
        self.objects = objects
        self.identity = identity
        self.document = document
        self.before = before
        self.lost: str = ""
        self._progress = ""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def token(self) -> int:
        return self.document.token

    def start_beating(self, on_loss: Callable[[str], None], every: float = BEAT_EVERY) -> None:
        """Renew in the background; ``on_loss(message)`` is called once if somebody took over."""

        def beat() -> None:
            while not self._stop.wait(every):
                try:
                    with self._lock:
                        if self._stop.is_set():
                            return
                        self._replace(
                            self.document.model_copy(
                                update={"beat": self.document.beat + 1, "progress": self._progress}
                            )
                        )
                except LeaseLost as error:
                    self.lost = str(error)
                    on_loss(self.lost)
                    return
                except (MarinError, OSError):
                    continue  # the store is away for a moment; the next beat tells whether we still hold the lease

        self._thread = threading.Thread(target=beat, name=f"lease-{self.identity[:8]}", daemon=True)
        self._thread.start()

    def report(self, progress: str) -> None:
        """Shown to everybody with the next beat."""
        self._progress = progress

    def commit(self) -> None:
        """The point of no return. Raises LeaseLost if somebody took over."""
        self._finish(State.COMMITTED)

    def release(self) -> None:
        """Give it back without a result; no error if it is somebody else's, or if the store cannot take it:
        then it ends with this process, or when its beat has stood still long enough."""
        try:
            self._finish(State.RELEASED)
        except LeaseLost:
            pass
        except MarinError:
            _abandoned.add(self.document)

    def _finish(self, state: State) -> None:
        self._stop.set()
        with self._lock:
            self._replace(self.document.model_copy(update={"state": state}))
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _replace(self, new: LeaseDocument) -> None:
        if not self.objects.swap(lease_name(self.identity), self.document.to_bytes(), new.to_bytes()):
            now = read_lease(self.objects, self.identity)
            who = now.describe() if now else "its lease object was deleted"
            raise LeaseLost(
                f"{self.document.attempt}: this attempt (token {self.token}) was taken over: {who}. "
                "It may not commit; the other attempt's result counts"
            )
        self.document = new


def acquire(
    objects: Objects,
    identity: str,
    attempt_of: Callable[[int], str],
    is_dead: Callable[[LeaseDocument], bool],
) -> Lease | Held:
    """Our lease, or who has it.

    attempt_of(token) names the attempt's directory. is_dead: may this foreign lease be taken over?
    """
    content = objects.read(lease_name(identity))
    current = None if content is None else parse_lease(content, lease_name(identity))
    if current is not None and current.state is State.HELD and current not in _abandoned and not is_dead(current):
        return Held(current)
    token = current.token + 1 if current is not None else 1
    mine = LeaseDocument(
        state=State.HELD,
        token=token,
        attempt=attempt_of(token),
        holder=this_process(),
        since=time.strftime("%Y-%m-%d %H:%M:%S %Z"),
    )
    if objects.swap(lease_name(identity), content, mine.to_bytes()):
        return Lease(objects, identity, mine, current)
    winner = read_lease(objects, identity)
    return Held(winner) if winner is not None else acquire(objects, identity, attempt_of, is_dead)


def this_process() -> Holder:
    pid = os.getpid()
    return Holder(user=_user(), host=socket.gethostname(), boot=_boot(), pid=pid, started=_started(pid))


@functools.cache
def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())


@functools.cache
def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
            return handle.read().strip()
    except OSError:
        return "unknown"


def _started(pid: int) -> str:
    """Start time of a process in clock ticks since boot; "" if there is none; "?" where the system has no /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as handle:
            fields = handle.read().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        if os.path.exists("/proc/self/stat"):
            return ""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass
        return "?"
    return "" if fields[0] == "Z" else fields[19]
