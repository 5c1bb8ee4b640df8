"""One writer per identity, without trusting any clock but one's own.

A lease is one object that every change replaces conditionally, so of many racers one wins. A live
holder raises ``beat``; others judge it dead when they have *watched* the beat stand still for
``EXPIRY`` seconds of their own monotonic clock, or at once when they can see that its process is
gone. ``token`` grows with every holder. Committing is itself a conditional replacement
(held → committed), so a holder that was taken over can never commit, however late it wakes.
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
EXPIRY = 60.0  # seconds without a beat, as watched by the one who waits
BEAT_EVERY = 2.0  # seconds
LOOK_SECONDS = 0.5  # between looks at a lease that somebody else holds


class State(StrEnum):
    HELD = "held"
    COMMITTED = "committed"
    RELEASED = "released"


class LeaseDocument(Versioned, frozen=True, kw_only=True):
    """What the lease object holds."""

    state: State
    token: int  # grows with every holder
    attempt: str  # directory
    holder: Holder
    since: str  # for people only; never compared
    beat: int = 0  # grows while the holder lives
    progress: str = ""  # for people
    claim: str = ""  # no two takings share one
    collected: str = ""  # why `marin gc` took the output away; plans show it until somebody makes it again

    def to_bytes(self) -> bytes:
        return self.to_json()

    def describe(self) -> str:
        verb = "committed" if self.state is State.COMMITTED else "held"
        return f"{verb} by {self.holder} since {self.since}; log: {self.attempt}/{LOG}"

    def is_same_hold(self, other: LeaseDocument) -> bool:
        """Another beat or state of one taking of the lease."""
        return (self.token, self.claim) == (other.token, other.claim)


def parse_lease(content: bytes, where: str) -> LeaseDocument:
    """Raises CorruptRecord if it cannot be read, names an output outside of the store or is of a later format."""
    remedy = "if nobody runs this step, delete the file and run again"
    lease = LeaseDocument.parse_file(content, where, "lease", remedy)
    if lease.attempt.startswith("/") or ".." in lease.attempt.split("/"):
        raise CorruptRecord(
            f"{where} names the output {lease.attempt!r}, which is outside the store; it was edited by hand: {remedy}"
        )
    return lease


def read_lease(objects: Objects, identity: str) -> LeaseDocument | None:
    """None if there is none, or only the empty file that a power cut leaves. Raises CorruptRecord."""
    content = objects.read(lease_name(identity))
    return parse_lease(content, lease_name(identity)) if content else None


class Watch:
    """How long each foreign lease has stood still, by our own clock. Keep one per driver."""

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


_abandoned: set[LeaseDocument] = set()  # holds of this process that it could not give back, or does not know it has


class Lease:
    """Our own hold on one identity. Use ``acquire``; then ``commit`` or ``release``.

    lost: why it is not ours any more ("" while it is). taken_by: who has it instead.
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
        """Renew in the background; ``on_loss()`` is called once if somebody took over, or may have: the store did not
        take a beat for EXPIRY seconds. every: None for BEAT_EVERY.
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
                except (MarinError, OSError) as error:  # the store is away for a moment, or for good
                    failing = failing if failing is not None else began
                    if time.monotonic() - failing <= EXPIRY:
                        logger.info("the lease of %s could not be renewed just now: %s", self.document.attempt, error)
                        return True
                    self.lost = (
                        f"{self.document.attempt}: this attempt (token {self.token}) could not renew its lease for "
                        f"{EXPIRY:.0f} s ({error}), so that others may take the step over: it was stopped. Nothing of "
                        "it was committed; run again when the store answers"
                    )
                    on_loss()
                    return False
                failing = None
                return True

        self._beat = beat
        heartbeat_thread().add(beat, every if every is not None else BEAT_EVERY)

    def stop_beating(self) -> None:
        """When this returns, ``on_loss`` is not called any more."""
        self._stop = True
        if self._beat is not None:
            heartbeat_thread().remove(self._beat)
        with self._lock:
            """A beat that was under way has ended."""

    def renew(self) -> None:
        """When this returns, nobody had taken over. Raises LeaseLost."""
        with self._lock:
            self._replace(structs.replace(self.document, beat=self.document.beat + 1, progress=self._progress))

    def report(self, progress: str) -> None:
        """Shown to everybody with the next beat."""
        self._progress = progress

    def raise_token(self, above: int, attempt_of: Callable[[int], str]) -> None:
        """Before anything is written: somebody removed lease objects, and a record has a later token than ours."""
        token = unused_token(self.objects, above, attempt_of)
        self._replace(structs.replace(self.document, token=token, attempt=attempt_of(token)))

    def commit(self) -> None:
        """The point of no return. Raises LeaseLost if somebody took over."""
        self._finish(State.COMMITTED)

    def release(self, *, forget_collected: bool = False) -> None:
        """Give it back without a result, unless it is committed. forget_collected: nothing was taken away after all.

        No error if it is somebody else's, or if the store cannot take it: then it ends with this process, or when
        its beat has stood still long enough.
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
        """Raises LeaseLost if the lease is not ours any more."""
        if self.objects.compare_and_swap(lease_name(self.identity), self.document.to_bytes(), new.to_bytes()):
            self.document = new
            return
        try:
            now = read_lease(self.objects, self.identity)
        except CorruptRecord as error:
            self._lose(None, str(error))
        if now == new:  # a write whose answer was lost on the way
            self.document = new
        elif now is not None and now.state is State.HELD and now.is_same_hold(self.document) and now != self.document:
            self.document = now  # the same, one write earlier
            self._replace(new)
        else:
            self._lose(now, now.describe() if now is not None else "its lease object was deleted")

    def _lose(self, to: LeaseDocument | None, who: str) -> NoReturn:
        self.taken_by = to
        self.lost = (
            f"{self.document.attempt}: this attempt (token {self.token}) was taken over: {who}. "
            "It may not commit; the other attempt's result counts"
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
    """Our lease, or the lease of who has it.

    attempt_of(token) names the attempt's directory. may_take_over: is the holder of this foreign lease dead?
    collecting: what the lease says of an output that is taken away under it. seen: what the lease object holds, where
    the caller has just read it; None if there is none.
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
        _abandoned.add(mine)  # it may have been written all the same
        raise
    winner = mine if won else read_lease(objects, identity)
    if winner == mine:  # also a write whose answer was lost on the way
        if current is not None and current.state is State.HELD:
            logger.info("took %s over: %s", mine.attempt, current.describe())
        logger.debug("%s has a lease, token %d", mine.attempt, token)
        return Lease(objects, identity, mine, current)
    return winner or acquire(objects, identity, attempt_of, may_take_over, collecting=collecting)


def acquire_in_turn[T](take: Callable[[], T | LeaseDocument], waiting: Callable[[LeaseDocument], None]) -> T:
    """What ``take`` gives once nobody else has the lease. waiting: called with each look at the lease of who has it."""
    while isinstance(taken := take(), LeaseDocument):
        waiting(taken)
        time.sleep(LOOK_SECONDS)
    return taken


def unused_token(objects: Objects, above: int, attempt_of: Callable[[int], str]) -> int:
    """The next one whose directory nobody has written to, also where lease objects were removed or edited."""
    token = above + 1
    while objects.list(f"{attempt_of(token)}/.marin"):
        token += 1
    return token
