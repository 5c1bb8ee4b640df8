"""Delete garbage, so that a kill at any point leaves every visible record with all its files.

gc first announces its batch (see marin.store.in_use), then surveys the store again. Outputs that a run needs or commits
in between stay. gc deletes an output's record first, then the record in its directory, then its data. A copy of the
record stays in ``superseded``, so lineage still knows the output, and the lease holds the reason for the deletion.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from marin.errors import BadPrefix, MarinError, StoreError
from marin.store.in_use import NOTHING, TURN, Needs, turn_name
from marin.store.layout import (
    ACTIONS,
    GC,
    GC_BATCH,
    MADE_BY,
    OWN,
    RECORD,
    RECORDS,
    STAMPS,
    SUPERSEDED,
    lease_name,
    record_name,
)
from marin.store.lease import Lease, LeaseDocument, State, Watch, acquire, acquire_in_turn
from marin.store.objects.errors import control_errors
from marin.store.process import this_process
from marin.store.record import Record
from marin.store.store import Store
from marin.upkeep.gc.garbage import Garbage
from marin.upkeep.gc.select import GcOptions, Selection, find_garbage
from marin.upkeep.gc.survey import StoreSurvey, is_live

RENEW_EVERY = 1.0  # seconds
ANNOUNCE_EVERY = 5.0  # seconds: a run that waits for a part of the batch continues when that part is deleted

type Clock = Callable[[StoreSurvey], float]


def by_this_machine(_: StoreSurvey) -> float:
    """Return this machine's time, for ``look``: asking a store for its time would mean writing to it."""
    return time.time()


def by_the_store(survey: StoreSurvey) -> float:
    """Return the store's time: the time of our lease, which was renewed a moment ago."""
    return survey.times[lease_name(TURN)] or time.time()


def look(store: Store, options: GcOptions, clock: Clock = by_this_machine) -> Selection:
    """Return the garbage that ``sweep`` would delete. Changes nothing. Raises CorruptRecord."""
    survey = StoreSurvey(store)
    return find_garbage(survey, options, clock(survey))


@dataclass
class SweepResult:
    """The result of a gc. refused: why the store refused a deletion, by name. left: why a piece stays, by name."""

    gone: list[Garbage] = field(default_factory=list[Garbage])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    left: dict[str, str] = field(default_factory=dict[str, str])


def sweep(
    store: Store,
    options: GcOptions,
    on_selection: Callable[[Selection], None] = lambda _: None,
    clock: Clock = by_the_store,
    on_taken: Callable[[Garbage], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
    watch: Watch | None = None,
) -> SweepResult:
    """Delete the garbage of a store.

    on_selection: called with the garbage before the first deletion. on_taken: called after each piece. on_message:
    takes messages about waiting. watch: judges whether another gc without a beat is dead.
    Raises CorruptRecord, LeaseLost, and StoreError if another gc is running. Outputs not deleted by then are whole.
    """
    turn = _take_turn(store, on_message, watch if watch is not None else Watch())
    try:
        turn.start_beating(lambda: None)
        return _Sweep(store, options, clock, turn, on_taken).run(on_selection)
    finally:
        with suppress(MarinError):
            turn.renew()
            store.objects.write(GC_BATCH, NOTHING.to_json())
        turn.release()


def _take_turn(store: Store, on_message: Callable[[str], None], watch: Watch) -> Lease:
    seen: set[LeaseDocument] = set()

    def waiting(other: LeaseDocument) -> None:
        if seen and other not in seen:
            raise StoreError(
                f"`marin gc` of {other.holder} has been running on {store.prefix} since {other.since}; "
                "run yours again when it has ended"
            )
        if not seen:
            on_message(f"`marin gc` of {other.holder} is running; waiting up to {watch.expiry:g} s for a sign of life")
            seen.add(other)

    is_dead = functools.partial(watch.is_dead, TURN)
    return acquire_in_turn(lambda: acquire(store.objects, TURN, turn_name, is_dead), waiting)


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()


def _passed(since: tuple[float, float]) -> float:
    """Return the seconds since, by the clock that shows more: one of the two stops while the machine sleeps."""
    return max(now - then for now, then in zip(_clocks(), since, strict=True))


class _Sweep:
    def __init__(
        self, store: Store, options: GcOptions, clock: Clock, turn: Lease, on_taken: Callable[[Garbage], None]
    ) -> None:
        self.store, self.options, self.clock, self.turn, self.on_taken = store, options, clock, turn, on_taken
        self.result = SweepResult()
        self.lock = threading.Lock()
        self.announced = self.renewed = _clocks()

    def run(self, on_selection: Callable[[Selection], None]) -> SweepResult:
        first = look(self.store, self.options, self.clock)
        self._announce(first.goes)
        self.survey = StoreSurvey(self.store)
        self.now = self.clock(self.survey)
        second = find_garbage(self.survey, self.options, self.now)
        goes = _in_both(first.goes, second.goes)
        self._announce(goes)
        on_selection(replace(second, goes=goes))
        waiting = {piece.key: piece for piece in goes}

        def take(piece: Garbage) -> None:
            why = refused = None
            try:
                refused = self._refused(piece)
                why = self._take(piece) if refused is None else None
            except BadPrefix as error:
                refused = str(error)
            with self.lock:
                if refused is not None:
                    self.result.refused[piece.name] = refused
                elif why is not None:
                    self.result.left[piece.name] = why
                else:
                    self.result.gone.append(piece)
                waiting.pop(piece.key)
                if _passed(self.announced) > ANNOUNCE_EVERY:
                    self._announce(waiting.values())
                self.on_taken(piece)

        if self.store.directory.is_local:
            for piece in goes:
                take(piece)
        else:
            from marin.store.files.transfer import side_by_side

            side_by_side(take, goes)
        return self.result

    def _announce(self, pieces: Iterable[Garbage]) -> None:
        self.announced = _clocks()
        self._renew()
        self.store.objects.write(GC_BATCH, Needs.union(piece.needs for piece in pieces).to_json())

    def _renew(self) -> None:
        """Renew the lease for deleting, at most every RENEW_EVERY seconds: a store accepts few writes of one object.

        A gc that was suspended for longer renews before it continues. Raises LeaseLost if a run took the lease over.
        """
        if _passed(self.renewed) > RENEW_EVERY:
            self.turn.renew()
            self.renewed = _clocks()

    def _take(self, piece: Garbage) -> str | None:
        """Delete a piece. Return why it stays; None if it is gone."""
        fenced: list[Lease] = []
        begun = False
        try:
            for identity in dict.fromkeys((*(record.identity for record in piece.records), *piece.fenced)):
                lease = self._fence(identity, piece)
                if isinstance(lease, LeaseDocument):
                    return lease.describe()
                fenced.append(lease)
                if lease.before is not None and self._committed_since(identity, lease.before):
                    return "committed meanwhile"
            if any(
                self.store.objects.read(record_name(record.identity)) != self.survey.contents[record.identity]
                for record in piece.records
            ):
                return "rebuilt meanwhile"
            self._renew()
            begun = True
            self._remove(piece)
            return None
        finally:
            for lease in fenced:
                lease.release(forget_collected=not begun)

    def _fence(self, identity: str, piece: Garbage) -> Lease | LeaseDocument:
        """Take the lease of an identity, so that no earlier holder can commit. Return our lease or a live holder's."""
        known = self.survey.leases.get(identity)
        written = self.survey.times[lease_name(identity)]

        def is_dead(lease: LeaseDocument) -> bool:
            return lease.holder.is_gone() or (lease == known and not is_live(lease, written, self.now))

        why = f"collected by `marin gc` of {this_process().user} on {time.strftime('%Y-%m-%d')}: {piece.why}"
        return acquire(
            self.store.objects,
            identity,
            lambda token: f"{GC}/{identity}.{token:04d}",
            is_dead,
            collecting=why if piece.records else known.collected if known is not None else "",
        )

    def _committed_since(self, identity: str, before: LeaseDocument) -> bool:
        """Was the step committed since the survey? If so, make its record visible, in case its writer did not."""
        record = self.survey.records.get(identity)
        if before.state is not State.COMMITTED or (record is not None and record.token >= before.token):
            return False
        return self.store.finish(identity, before) is not None

    def _refused(self, piece: Garbage) -> str | None:
        """Return why a piece cannot be deleted, or None. On a shared disk its files may be another user's.

        A record must not go if its files cannot.
        """
        if not self.store.directory.is_local:
            return None
        folders = [(self.store.directory / folder).path for folder in piece.folders]
        every = [place for folder in folders for place in (folder.parent, folder, folder / OWN)]
        places = [place for place in every if place.exists()]
        denied = next((place for place in places if not os.access(place, os.W_OK)), None)
        return None if denied is None else f"you may not delete in {denied}"

    def _remove(self, piece: Garbage) -> None:
        objects = self.store.objects
        copies = {f"{SUPERSEDED}/{record.identity}.{record.token:04d}.json": record for record in piece.records}
        for name, record in copies.items():
            objects.write(name, self.survey.contents[record.identity])
        if copies:
            objects.make_durable(list(copies))
            objects.remove([record_name(record.identity) for record in piece.records])
            objects.make_durable([RECORDS])  # a power cut must not restore records whose data is gone
        marks = [f"{folder}/{MADE_BY if folder.startswith(f'{OWN}/') else RECORD}" for folder in piece.folders]
        objects.remove([*marks, *_named_for(piece.records)])
        for folder in piece.folders:
            with control_errors(Path(self.store.prefix) / folder):
                (self.store.directory / folder).remove()
        objects.remove(piece.objects)


def _named_for(records: Iterable[Record]) -> list[str]:
    """Return the control files that are named after an output or its action."""
    found: list[str] = []
    for record in records:
        found.append(f"{STAMPS}/{record.attempt.replace('/', '--')}")
        if record.action:
            found.append(f"{ACTIONS}/{record.action}-{record.identity}")
    return found


def _in_both(announced: list[Garbage], found: list[Garbage]) -> list[Garbage]:
    """Return the announced pieces that may still go."""
    first = {piece.key: piece for piece in announced}
    both: list[Garbage] = []
    for piece in found:
        before = first.get(piece.key)
        if before is not None and set(piece.code) <= set(before.code) and piece.identities == before.identities:
            both.append(piece)
    return both
