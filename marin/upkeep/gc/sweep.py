"""Delete garbage, so that a kill at any point leaves every remaining output with all its files.

gc first announces its batch (see marin.store.in_use), then surveys the store again. Outputs that a run needs or commits
in between stay. To delete an output, gc claims the next attempt and ends it as "collected", with the reason: from then
on the step has no output, and no earlier holder can commit. Then it deletes the data. The output's own end stays, so
lineage still knows the output.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from marin.errors import BadPrefix, MarinError, StoreError
from marin.store.ends import Claim, Held, Watch, take, take_in_turn
from marin.store.in_use import NOTHING, Needs, last_turn, take_turn
from marin.store.layout import GC, GC_BATCH, MADE_BY, OWN, RECORD, action_name, claim_name, stamp_name
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
    clock: Clock | None = None,
    on_taken: Callable[[Garbage], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
    watch: Watch | None = None,
) -> SweepResult:
    """Delete the garbage of a store.

    on_selection: called with the garbage before the first deletion. on_taken: called after each piece. on_message:
    takes messages about waiting. clock: None for the store's clock. watch: judges whether another gc without a beat is
    dead.
    Raises CorruptRecord, LeaseLost, and StoreError if another gc is running. Outputs not deleted by then are whole.
    """
    turn = _take_turn(store, on_message, watch if watch is not None else Watch())
    try:
        turn.start_beating(lambda: None)

        def by_the_store(survey: StoreSurvey) -> float:
            """Return the time of our claim, which was renewed a moment ago."""
            return survey.times[claim_name(turn.identity, turn.number)] or time.time()

        return _Sweep(store, options, clock or by_the_store, turn, on_taken).run(on_selection)
    finally:
        with suppress(MarinError):
            turn.renew()
            store.objects.write(GC_BATCH, NOTHING.to_json())
        turn.release()


def _take_turn(store: Store, on_message: Callable[[str], None], watch: Watch) -> Held:
    seen: set[Claim] = set()

    def waiting(other: Claim) -> None:
        if seen and other not in seen:
            raise StoreError(
                f"`marin gc` of {other.holder} has been running on {store.prefix} since {other.since}; "
                "run yours again when it has ended"
            )
        if not seen:
            on_message(f"`marin gc` of {other.holder} is running; waiting up to {watch.expiry:g} s for a sign of life")
            seen.add(other)

    last = last_turn(store)
    turn = take_in_turn(lambda: take_turn(store, watch, last), waiting)
    assert isinstance(turn, Held), "no attempt to delete has an output"
    return turn


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()


def _passed(since: tuple[float, float]) -> float:
    """Return the seconds since, by the clock that shows more: one of the two stops while the machine sleeps."""
    return max(now - then for now, then in zip(_clocks(), since, strict=True))


class _Sweep:
    def __init__(
        self, store: Store, options: GcOptions, clock: Clock, turn: Held, on_taken: Callable[[Garbage], None]
    ) -> None:
        self.store, self.options, self.clock, self.turn, self.on_taken = store, options, clock, turn, on_taken
        self.result = SweepResult()
        self.lock = threading.Lock()
        self.collected: dict[str, str] = {}  # why gc deleted the output of a step that has none, by identity
        self.announced = self.renewed = _clocks()

    def run(self, on_selection: Callable[[Selection], None]) -> SweepResult:
        first = look(self.store, self.options, self.clock)
        self._announce(first.goes)
        self.survey = StoreSurvey(self.store)
        self.collected |= self.survey.inventory.collected
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
        """Renew the turn to delete, at most every RENEW_EVERY seconds: a store accepts few writes of one object.

        A gc that was suspended for longer renews before it continues. Raises LeaseLost if a run took the turn over.
        """
        if _passed(self.renewed) > RENEW_EVERY:
            self.turn.renew()
            self.renewed = _clocks()

    def _take(self, piece: Garbage) -> str | None:
        """Delete a piece. Return why it stays; None if it is gone."""
        fenced: list[Held] = []
        outputs = {record.identity for record in piece.records}
        try:
            for identity in dict.fromkeys((*outputs, *piece.fenced)):
                held = self._fence(identity)
                if isinstance(held, Claim):
                    return held.describe()
                if isinstance(held, Record):
                    return "rebuilt meanwhile" if identity in outputs else "committed meanwhile"
                fenced.append(held)
            self._renew()
            # A store that refuses to delete says so here, while the output is there.
            self.store.objects.remove([stamp_name(record.attempt) for record in piece.records])
            why = f"collected by `marin gc` of {this_process().user} on {time.strftime('%Y-%m-%d')}: {piece.why}"
            for held in fenced:
                if held.identity in outputs:
                    held.collect(why)
                    self.collected[held.identity] = why
            self._remove(piece)
            return None
        finally:
            for held in fenced:
                before = self.collected.get(held.identity) if held.identity not in outputs else None
                if before is not None:  # plans show the last end of a step without an output
                    with suppress(MarinError):
                        held.collect(before)
                held.release()

    def _fence(self, identity: str) -> Held | Claim | Record:
        """Claim the next attempt, so that no earlier holder can commit; or return a live holder's claim or a record."""
        known = self.survey.claims.get(identity)
        written = self.survey.times[claim_name(identity, known.number)] if known is not None else 0.0

        def is_dead(claim: Claim) -> bool:
            return claim.holder.is_gone() or (claim == known and not is_live(claim.holder, written, self.now))

        after = self.survey.inventory.last.get(identity, 0)
        return take(self.store.objects, identity, lambda number: f"{GC}/{identity}.{number:04d}", is_dead, after)

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
        marks = [f"{folder}/{MADE_BY if folder.startswith(f'{OWN}/') else RECORD}" for folder in piece.folders]
        actions = [action_name(record.action, record.identity) for record in piece.records if record.action]
        objects.remove([*marks, *actions])
        for folder in piece.folders:
            with control_errors(Path(self.store.prefix) / folder):
                (self.store.directory / folder).remove()
        objects.remove(piece.objects)


def _in_both(announced: list[Garbage], found: list[Garbage]) -> list[Garbage]:
    """Return the announced pieces that may still go."""
    first = {piece.key: piece for piece in announced}
    both: list[Garbage] = []
    for piece in found:
        before = first.get(piece.key)
        if before is not None and set(piece.code) <= set(before.code) and piece.identities == before.identities:
            both.append(piece)
    return both
