"""Leases: one writer for each identity, without trusting any clock but one's own.

A lease is one object. Every change replaces it conditionally, so one of many racers wins. A live
holder raises ``beat``. Others judge the holder dead when they have *watched* the beat stand still for
``EXPIRY`` seconds of their own monotonic clock, or at once when they can see that its process is
gone. ``token`` grows with every holder. A commit is also a conditional replacement
(held → committed), so a holder that lost its lease can never commit, however late it wakes.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from enum import StrEnum
from typing import NoReturn

from msgspec import structs

from marin.errors import CorruptRecord, LeaseLost, MarinError
from marin.store.documents import Versioned
from marin.store.heartbeat import heartbeat_thread
from marin.store.layout import LOG, lease_name
from marin.store.objects.objects import Objects
from marin.store.process import Holder, this_process

logger = logging.getLogger(__name__)
EXPIRY = 60.0  # seconds without a beat, by the clock of the process that waits
BEAT_EVERY = 2.0  # seconds
LOOK_SECONDS = 0.5  # between reads of a lease that another process holds


class State(StrEnum):
    HELD = "held"
    COMMITTED = "committed"
    RELEASED = "released"


class LeaseDocument(Versioned, frozen=True, kw_only=True):
    """The content of a lease object."""

    state: State
    token: int  # grows with every holder
    attempt: str  # directory
    holder: Holder
    since: str  # for people only; never compared
    beat: int = 0  # grows while the holder lives
    progress: str = ""  # for people
    claim: str = ""  # unique to each acquisition
    collected: str = ""  # why `marin gc` deleted the output; plans show it until a rebuild

    def to_bytes(self) -> bytes:
        return self.to_json()

    def describe(self) -> str:
        verb = "committed" if self.state is State.COMMITTED else "held"
        return f"{verb} by {self.holder} since {self.since}; log: {self.attempt}/{LOG}"

    def is_same_hold(self, other: LeaseDocument) -> bool:
        """Do both documents come from the same acquisition of the lease?"""
        return (self.token, self.claim) == (other.token, other.claim)


def parse_lease(content: bytes, where: str) -> LeaseDocument:
    """Parse a lease. Raises CorruptRecord if it is unreadable, of a later format, or names an output elsewhere."""
    remedy = "if nobody runs this step, delete the file and run again"
    lease = LeaseDocument.parse_file(content, where, "lease", remedy)
    if lease.attempt.startswith("/") or ".." in lease.attempt.split("/"):
        raise CorruptRecord(
            f"{where} names the output {lease.attempt!r}, which is outside the store; it was edited by hand: {remedy}"
        )
    return lease


def read_lease(objects: Objects, identity: str) -> LeaseDocument | None:
    """Return the lease of an identity, or None. The empty file that a power cut leaves counts as none.

    Raises CorruptRecord.
    """
    content = objects.read(lease_name(identity))
    return parse_lease(content, lease_name(identity)) if content else None


class Watch:
    """A watch over foreign leases: how long each has had no beat, by our own clock. Keep one for each driver."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, expiry: float | None = None) -> None:
        """expiry: None for EXPIRY."""
        self.clock = clock
        self.expiry = expiry if expiry is not None else EXPIRY
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


_abandoned: set[LeaseDocument] = set()  # leases of this process that it could not release, or may hold unknowingly


class Lease:
    """Our own lease on one identity. Use ``acquire``; then ``commit`` or ``release``.

    lost: why the lease is no longer ours ("" while it is). taken_by: the new holder's lease.
    """

    def __init__(
        self, objects: Objects, identity: str, document: LeaseDocument, before: LeaseDocument | None = None
    ) -> None:
        """before: the lease that this one replaced."""
        self.objects = objects
        self.identity = identity
        self.document = document
        self.before = before
        self.lost: str = ""
        self.taken_by: LeaseDocument | None = None
        self._progress = ""
        self._lock = threading.Lock()
        self._stop = False
        self._beat: Callable[[], bool] | None = None

    @property
    def token(self) -> int:
        return self.document.token

    def start_beating(self, on_loss: Callable[[], None], every: float | None = None) -> None:
        """Renew the lease in the background. every: None for BEAT_EVERY.

        Calls ``on_loss()`` once if another process took over, or may have, because the store accepted no beat for
        EXPIRY seconds.
        """
        failing: float | None = None  # since when

        def beat() -> bool:
            nonlocal failing
            began = time.monotonic()
            with self._lock:
                if self._stop:
                    return False
                try:
                    self._replace(structs.replace(self.document, beat=self.document.beat + 1, progress=self._progress))
                except LeaseLost:
                    on_loss()
                    return False
                except (MarinError, OSError) as error:  # the store is unreachable for a moment, or for longer
                    failing = failing if failing is not None else began
                    if time.monotonic() - failing <= EXPIRY:
                        logger.info("the lease of %s could not be renewed just now: %s", self.document.attempt, error)
                        return True
                    self.lost = (
                        f"{self.document.attempt}: this attempt (token {self.token}) was stopped because it could not "
                        f"renew its lease for {EXPIRY:.0f} s ({error}), and others may take the step over. It "
                        "committed nothing; run again when the store answers"
                    )
                    on_loss()
                    return False
                failing = None
                return True

        self._beat = beat
        heartbeat_thread().add(beat, every if every is not None else BEAT_EVERY)

    def stop_beating(self) -> None:
        """Stop renewing. ``on_loss`` is not called after this returns."""
        self._stop = True
        if self._beat is not None:
            heartbeat_thread().remove(self._beat)
        with self._lock:
            """A running beat has ended."""

    def renew(self) -> None:
        """Renew the lease now. Raises LeaseLost if another process took over."""
        with self._lock:
            self._replace(structs.replace(self.document, beat=self.document.beat + 1, progress=self._progress))

    def report(self, progress: str) -> None:
        """Set the progress that the next beat publishes."""
        self._progress = progress

    def raise_token(self, above: int, attempt_of: Callable[[int], str]) -> None:
        """Raise our token above a record's later token, which exists if somebody removed lease objects.

        Call it before anything is written.
        """
        token = unused_token(self.objects, above, attempt_of)
        self._replace(structs.replace(self.document, token=token, attempt=attempt_of(token)))

    def commit(self) -> None:
        """Commit: the point of no return. Raises LeaseLost if another process took over."""
        self._finish(State.COMMITTED)

    def release(self, *, forget_collected: bool = False) -> None:
        """Release the lease without a result, unless it is committed. forget_collected: gc deleted nothing after all.

        Raises no error if another process holds the lease, or if the store cannot be written. In the latter case the
        lease ends with this process, or after EXPIRY seconds without a beat.
        """
        if self.document.state is not State.HELD:
            return
        try:
            self._finish(State.RELEASED, "" if forget_collected else self.document.collected)
        except LeaseLost:
            pass
        except MarinError as error:
            logger.info("the lease of %s could not be given back: %s", self.document.attempt, error)
            _abandoned.add(self.document)

    def _finish(self, state: State, collected: str = "") -> None:
        self._stop = True
        with self._lock:
            self._replace(structs.replace(self.document, state=state, collected=collected))
        self.stop_beating()

    def _replace(self, new: LeaseDocument) -> None:
        """Replace the lease object. Raises LeaseLost if the lease is no longer ours."""
        if self.objects.compare_and_swap(lease_name(self.identity), self.document.to_bytes(), new.to_bytes()):
            self.document = new
            return
        try:
            now = read_lease(self.objects, self.identity)
        except CorruptRecord as error:
            self._lose(None, str(error))
        if now == new:  # our write succeeded and its answer was lost
            self.document = new
        elif now is not None and now.state is State.HELD and now.is_same_hold(self.document) and now != self.document:
            self.document = now  # our own lease, one write earlier
            self._replace(new)
        else:
            self._lose(now, now.describe() if now is not None else "its lease object was deleted")

    def _lose(self, to: LeaseDocument | None, who: str) -> NoReturn:
        self.taken_by = to
        self.lost = (
            f"{self.document.attempt}: this attempt (token {self.token}) was taken over: {who}. "
            "It cannot commit; the other attempt's result counts"
        )
        raise LeaseLost(self.lost)


_UNREAD = b"unread"


def acquire(
    objects: Objects,
    identity: str,
    attempt_of: Callable[[int], str],
    may_take_over: Callable[[LeaseDocument], bool],
    *,
    collecting: str = "",
    seen: bytes | None = _UNREAD,
) -> Lease | LeaseDocument:
    """Acquire the lease of an identity. Return our lease, or the current holder's lease.

    attempt_of: names the attempt's directory by token. may_take_over: is the holder of this foreign lease dead?
    collecting: why gc deletes the output under this lease. seen: the lease object's content, if the caller has just
    read it; None if there is none.
    """
    content = objects.read(lease_name(identity)) if seen is _UNREAD else seen
    current = parse_lease(content, lease_name(identity)) if content else None
    if current is not None and current.state is State.HELD and current not in _abandoned and not may_take_over(current):
        return current
    token = unused_token(objects, current.token if current is not None else 0, attempt_of)
    mine = LeaseDocument(
        state=State.HELD,
        token=token,
        attempt=attempt_of(token),
        holder=this_process(),
        since=time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        claim=uuid.uuid4().hex,
        collected=collecting,
    )
    try:
        won = objects.compare_and_swap(lease_name(identity), content, mine.to_bytes())
    except MarinError:
        _abandoned.add(mine)  # the lease may have been written nevertheless
        raise
    winner = mine if won else read_lease(objects, identity)
    if winner == mine:  # also if our write succeeded and its answer was lost
        if current is not None and current.state is State.HELD:
            logger.info("took %s over: %s", mine.attempt, current.describe())
        logger.debug("%s has a lease, token %d", mine.attempt, token)
        return Lease(objects, identity, mine, current)
    return winner or acquire(objects, identity, attempt_of, may_take_over, collecting=collecting)


def acquire_in_turn[T](take: Callable[[], T | LeaseDocument], waiting: Callable[[LeaseDocument], None]) -> T:
    """Wait until ``take`` returns something other than a foreign lease. waiting: called with each foreign lease."""
    while isinstance(taken := take(), LeaseDocument):
        waiting(taken)
        time.sleep(LOOK_SECONDS)
    return taken


def unused_token(objects: Objects, above: int, attempt_of: Callable[[int], str]) -> int:
    """Return the next token whose directory is unused, also if lease objects were removed or edited."""
    token = above + 1
    while objects.list(f"{attempt_of(token)}/.marin"):
        token += 1
    return token
