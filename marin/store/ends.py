"""Claims and ends: one writer for each identity, and one point of no return, without trusting any clock but one's own.

Each attempt at an identity has a number n, a claim and an end. Both are created once, and one of many racers creates
them::

    claims/<identity>.<n>    who makes attempt n. Only the holder rewrites it, with a ``beat`` that grows
    ends/<identity>.<n>      how attempt n ended. Nobody rewrites it. The end of a committed attempt is its record

The holder commits by creating the end. A driver that takes over first creates the end as "taken over". One of the two
wins, so a holder that wakes up late cannot commit: the end exists. Attempt n + 1 begins only when attempt n has an end.
Others judge a holder dead when they have *watched* its beat stand still for ``EXPIRY`` seconds of their own monotonic
clock, or at once when they can see that its process is gone.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import NoReturn
from weakref import WeakKeyDictionary

from msgspec import structs

from marin.errors import CorruptRecord, LeaseLost, MarinError
from marin.store.documents import Versioned
from marin.store.heartbeat import heartbeat_thread
from marin.store.layout import LOG, claim_name, end_name
from marin.store.objects.objects import Objects
from marin.store.process import Holder, this_process
from marin.store.record import Record, parse_record

logger = logging.getLogger(__name__)
EXPIRY = 60.0  # seconds without a beat, by the clock of the process that waits
BEAT_EVERY = 2.0  # seconds
LOOK_SECONDS, REMOTE_LOOK_SECONDS = 0.5, 2.0  # between looks at what other processes do; a remote one costs requests


class How(StrEnum):
    """How an attempt ended that committed nothing."""

    RELEASED = "released"  # it failed or was stopped
    TAKEN_OVER = "taken over"
    COLLECTED = "collected"  # no attempt: `marin gc` deleted the output of an earlier one


class Claim(Versioned, frozen=True, kw_only=True):
    """The claim of one process to make an attempt."""

    number: int  # of the attempt
    attempt: str  # directory
    holder: Holder
    since: str  # for people only; never compared
    id: str = ""  # unique to each claim
    beat: int = 0  # grows while the holder lives
    progress: str = ""  # for people

    def describe(self) -> str:
        return f"held by {self.holder} since {self.since}; log: {self.attempt}/{LOG}"


class End(Versioned, frozen=True, kw_only=True):
    """How an attempt ended that committed nothing. A committed attempt ends with its record instead."""

    how: How
    attempt: str  # directory
    by: str  # process
    when: str  # for people only
    why: str = ""  # for people
    id: str = ""  # unique to each end

    def describe(self) -> str:
        return f"{self.how} by {self.by} on {self.when}{f': {self.why}' if self.why else ''}"


def parse_claim(content: bytes, where: str) -> Claim:
    """Parse a claim. Raises CorruptRecord if it is unreadable, of a later format, or names an output elsewhere."""
    remedy = "if nobody runs this step, delete the file and run again"
    claim = Claim.parse_file(content, where, "claim", remedy)
    if claim.attempt.startswith("/") or ".." in claim.attempt.split("/"):
        raise CorruptRecord(
            f"{where} names the output {claim.attempt!r}, which is outside the store; it was edited by hand: {remedy}"
        )
    return claim


def is_record(content: bytes) -> bool:
    """Return whether an end is a record, or may have been one before it was damaged.

    No End has this key, and JSON escapes the quotes of a text that mentions the key.
    """
    return b'"identity":' in content or not content.startswith(b'{"')


def parse_end(content: bytes, where: str) -> Record | End | None:
    """Parse an end. An empty one, as a power cut leaves it, is an end without a result: None.

    Raises CorruptRecord if it is unreadable, or the record of another identity or attempt.
    """
    if not content:
        return None
    if not is_record(content):
        return End.parse_file(content, where, "end", "empty the file and run again: an empty end counts for nothing")
    record = parse_record(content, where)
    if not where.endswith(end_name(record.identity, record.token)):
        raise CorruptRecord(f"{where} belongs to {record.identity}.{record.token:04d}; it was copied or edited by hand")
    return record


class Watch:
    """A watch over foreign claims: how long each has had no beat, by our own clock. Keep one for each driver."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, expiry: float | None = None) -> None:
        """expiry: None for EXPIRY."""
        self.clock = clock
        self.expiry = expiry if expiry is not None else EXPIRY
        self.seen: dict[str, tuple[tuple[int, int], float]] = {}

    def is_dead(self, identity: str, claim: Claim) -> bool:
        if claim.holder.is_gone():
            return True
        now, state = self.clock(), (claim.number, claim.beat)
        known = self.seen.get(identity)
        if known is None or known[0] != state:
            self.seen[identity] = (state, now)
            return False
        return now - known[1] > self.expiry


_abandoned: set[str] = set()  # ids of claims of this process that it could not end, or may hold unknowingly
_foreign: WeakKeyDictionary[Objects, set[str]] = WeakKeyDictionary()  # claims of others: a waiting process reads them


class Held:
    """An attempt that this process holds. Use ``take``; then ``commit`` or ``release``.

    lost: why the attempt is no longer ours ("" while it is). taken_by: the end that another process gave it, if any.
    """

    def __init__(self, objects: Objects, identity: str, claim: Claim) -> None:
        self.objects, self.identity, self.claim = objects, identity, claim
        self.lost: str = ""
        self.taken_by: End | None = None
        self._ended = False
        self.progress = ""  # for people; the next beat publishes it
        self._lock = threading.RLock()
        self._stop = False
        self._failing: float | None = None  # since when the store has accepted no beat

    @property
    def number(self) -> int:
        return self.claim.number

    @property
    def attempt(self) -> str:
        """Return the directory of the attempt."""
        return self.claim.attempt

    def start_beating(self) -> None:
        """Renew the claim in the background, until it ends or is lost.

        It is also lost if the store accepts no beat for EXPIRY seconds, because another process may have taken over.
        """
        heartbeat_thread().add(self._beat, BEAT_EVERY)

    def stop_beating(self) -> None:
        """Stop renewing. No beat is under way when this returns."""
        self._stop = True
        heartbeat_thread().remove(self._beat)
        with self._lock:
            """A running beat has ended."""

    def _beat(self) -> bool:
        began = time.monotonic()
        with self._lock:
            if self._stop:
                return False
            try:
                self.renew()
            except LeaseLost:
                return False
            except (MarinError, OSError) as error:  # the store is unreachable for a moment, or for longer
                self._failing = self._failing if self._failing is not None else began
                if time.monotonic() - self._failing > EXPIRY:
                    self.lost = (
                        f"{self.attempt}: this attempt was stopped because it could not renew its claim for "
                        f"{EXPIRY:.0f} s ({error}), and others may take the step over. It committed nothing; run "
                        "again when the store answers"
                    )
                    return False
                logger.info("the claim of %s could not be renewed just now: %s", self.attempt, error)
                return True
            self._failing = None
            return True

    def renew(self) -> None:
        """Renew the claim now. Raises LeaseLost if another process took over."""
        with self._lock:
            claim = structs.replace(self.claim, beat=self.claim.beat + 1, progress=self.progress)
            self.objects.write(claim_name(self.identity, self.number), claim.to_json())
            self.claim = claim
            if self.objects.read(end_name(self.identity, self.number)) is not None:
                self._lose()

    def commit(self, record: bytes, *, lasting: bool = False) -> None:
        """End the attempt with its record: the point of no return. Raises LeaseLost if another process took over.

        lasting: the record survives a power cut.
        """
        self._end(record, lasting=lasting)

    def release(self, why: str = "") -> None:
        """End the attempt without a result, unless it has ended.

        Raises no error if another process took over, or if the store cannot be written. In the latter case the claim
        ends with this process, or after EXPIRY seconds without a beat.
        """
        if self._ended:
            return
        try:
            self._end(_ended(How.RELEASED, self.attempt, why))
        except LeaseLost:
            pass
        except MarinError as error:
            logger.info("%s could not be given back: %s", self.attempt, error)
            _abandoned.add(self.claim.id)

    def _end(self, content: bytes, *, lasting: bool = False) -> None:
        self._stop = True
        with self._lock:
            if not self.objects.create(end_name(self.identity, self.number), content, lasting=lasting):
                self._lose()
        self._ended = True
        self.stop_beating()

    def _lose(self) -> NoReturn:
        who = "ended already"
        try:
            if isinstance(end := read_end(self.objects, self.identity, self.number), End):
                self.taken_by, who = end, end.describe()
        except CorruptRecord as error:
            who = f"ended: {error}"
        self.lost = f"{self.attempt}: this attempt was {who}. It cannot commit; the other attempt's result counts"
        raise LeaseLost(self.lost)


def take(
    objects: Objects, identity: str, attempt_of: Callable[[int], str], is_dead: Callable[[Claim], bool], after: int = 0
) -> Held | Claim | Record:
    """Begin the next attempt at an identity. Return it, or another holder's claim, or a newer committed output.

    attempt_of: names the attempt's directory by its number. is_dead: is the holder of this foreign claim dead? after:
    number of the last ended attempt that the caller knows. An output that a later attempt committed is newer.
    Raises CorruptRecord, StoreError.
    """
    newer: Record | None = None
    number, foreign = after + 1, _foreign.setdefault(objects, set())
    while True:
        name = claim_name(identity, number)
        if newer is None and name not in foreign:  # an attempt that has an end had a claim, and marin keeps claims
            mine = Claim(
                number=number,
                attempt=attempt_of(number),
                holder=this_process(),
                since=time.strftime("%Y-%m-%d %H:%M:%S %Z"),
                id=uuid.uuid4().hex,
            )
            try:
                won = objects.create(name, mine.to_json())
            except MarinError:
                _abandoned.add(mine.id)  # the claim may have been written nevertheless
                raise
            if won:
                logger.debug("%s is claimed", mine.attempt)
                return Held(objects, identity, mine)
            foreign.add(name)
        content = objects.read(end_name(identity, number))
        if content is not None:
            end = parse_end(content, end_name(identity, number))
            if isinstance(end, Record):
                newer = end
            elif end is not None and end.how is How.COLLECTED:
                newer = None
            number += 1
            continue
        if newer is not None:
            return newer
        content = objects.read(name)
        if content is None:  # a person has deleted the claim
            foreign.discard(name)
            continue
        other = parse_claim(content, name) if content else None
        if other is not None and other.id not in _abandoned and not is_dead(other):
            return other
        why = other.describe() if other is not None else "its claim is empty, as a power cut leaves it"
        if objects.create(end_name(identity, number), _ended(How.TAKEN_OVER, other.attempt if other else "", why)):
            logger.info("took %s over: %s", attempt_of(number), why)


def end_attempt(objects: Objects, identity: str, number: int, how: How, attempt: str, why: str) -> bool:
    """End an attempt that this process does not hold. Return False if the attempt has an end already.

    From then on nobody can commit the attempt. attempt: its directory, if any. why: for people. The end "collected"
    survives a power cut, because data is deleted next.
    """
    objects.create(claim_name(identity, number), b"")  # ``take`` relies on it: an attempt that has an end has a claim
    return objects.create(end_name(identity, number), _ended(how, attempt, why), lasting=how is How.COLLECTED)


def look_seconds(objects: Objects) -> float:
    """Return the time between two looks at the work of other processes on a store."""
    return REMOTE_LOOK_SECONDS if objects.is_remote else LOOK_SECONDS


def take_in_turn[T](attempt: Callable[[], T | Claim], waiting: Callable[[Claim], None]) -> T:
    """Wait until ``attempt`` returns something other than a foreign claim. waiting: called with each foreign claim."""
    while isinstance(taken := attempt(), Claim):
        waiting(taken)
        time.sleep(LOOK_SECONDS)
    return taken


def read_end(objects: Objects, identity: str, number: int) -> Record | End | None:
    """Return how an attempt ended; None if it has no end. Raises CorruptRecord."""
    content = objects.read(end_name(identity, number))
    return None if content is None else parse_end(content, end_name(identity, number))


def read_ends(objects: Objects, after: Mapping[str, int]) -> dict[str, dict[int, bytes]]:
    """Return the ends of every attempt at these steps, by identity and number, without a listing.

    after: number of the last end to leave out, by identity; 0 for none.
    """
    found: dict[str, dict[int, bytes]] = {identity: {} for identity in after}
    at = {identity: number + 1 for identity, number in after.items()}
    while at:
        contents = objects.read_many([end_name(identity, number) for identity, number in at.items()])
        ended = {each: number for each, number in at.items() if end_name(each, number) in contents}
        for identity, number in ended.items():
            found[identity][number] = contents[end_name(identity, number)]
        at = {identity: number + 1 for identity, number in ended.items()}
    return found


def read_claims(objects: Objects, after: Mapping[str, int]) -> dict[str, Claim]:
    """Return the claims of attempts that have no end, by identity, without unreadable ones. after: as for read_ends.

    Whoever makes the next attempt reports an unreadable claim.
    """
    ends = read_ends(objects, after)
    names = {claim_name(each, max(ends[each], default=number) + 1): each for each, number in after.items()}
    found: dict[str, Claim] = {}
    for name, content in objects.read_many(list(names)).items():
        with suppress(CorruptRecord):
            found[names[name]] = parse_claim(content, name)
    return found


def _ended(how: How, attempt: str, why: str) -> bytes:
    end = End(
        how=how,
        attempt=attempt,
        by=str(this_process()),
        when=time.strftime("%Y-%m-%d %H:%M:%S"),
        why=why,
        id=uuid.uuid4().hex,
    )
    return end.to_json()
