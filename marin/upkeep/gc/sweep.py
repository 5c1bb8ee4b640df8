"""Delete garbage, so that a kill at any point leaves every remaining output with all its files.

gc first takes its turn to delete (see marin.store.in_use), then surveys the store: a run that begins during the turn
waits. To delete an output, gc ends the next attempt at its step as "collected", with the reason. From then on the step
has no output, and no earlier holder can commit. Then gc deletes the data. The output's own end stays, so lineage still
knows the output.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from marin.errors import BadPrefix, StoreError
from marin.store.ends import Claim, Held, How, Watch, end_attempt, take_in_turn
from marin.store.files.transfer import side_by_side
from marin.store.in_use import TURN, last_turn, take_turn
from marin.store.layout import GC, MADE_BY, OWN, RECORD, action_name, claim_name, end_name, stamp_name
from marin.store.objects.errors import control_errors
from marin.store.process import this_process
from marin.store.store import Store
from marin.upkeep.gc.garbage import Garbage
from marin.upkeep.gc.select import GcOptions, Selection, find_garbage
from marin.upkeep.gc.survey import StoreSurvey


def look(store: Store, options: GcOptions, clock: Callable[[], float] = time.time) -> Selection:
    """Return the garbage that ``sweep`` would delete, by this machine's clock: asking a store's means writing to it.

    Changes nothing. Raises CorruptRecord.
    """
    return find_garbage(StoreSurvey(store), options, clock())


class SweepResult(Struct):
    """The result of a gc. refused: why the store refused a deletion, by name. left: why a piece stays, by name."""

    gone: list[Garbage] = field(default_factory=list[Garbage])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    left: dict[str, str] = field(default_factory=dict[str, str])


def sweep(
    store: Store,
    options: GcOptions,
    on_selection: Callable[[Selection], None] = lambda _: None,
    clock: Callable[[], float] | None = None,
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
    turn = _take_turn(store, on_message, watch or Watch())
    try:
        turn.start_beating()
        survey = StoreSurvey(store)
        ours = claim_name(TURN, turn.number)  # written a moment ago
        found = find_garbage(survey, options, clock() if clock is not None else survey.written(ours) or time.time())
        on_selection(found)
        sweeping = _Sweep(store, turn, survey, on_taken)
        # Outputs go before everything else: the end of an output also ends an open attempt at its step.
        for pieces in (
            [each for each in found.goes if each.records],
            [each for each in found.goes if not each.records],
        ):
            if store.directory.is_local:
                for piece in pieces:
                    sweeping.take(piece)
            else:
                side_by_side(sweeping.take, pieces)
    finally:
        turn.release()
    return sweeping.result


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
    return take_in_turn(lambda: take_turn(store, watch, last), waiting)


class _Sweep:
    """The deletions of one gc."""

    def __init__(self, store: Store, turn: Held, survey: StoreSurvey, on_taken: Callable[[Garbage], None]) -> None:
        self.store, self.turn, self.inventory, self.on_taken = store, turn, survey.inventory, on_taken
        self.result = SweepResult()

    def take(self, piece: Garbage) -> None:
        """Delete a piece, or note why it stays. Raises LeaseLost if a run took the turn over."""
        if self.store.objects.read(end_name(TURN, self.turn.number)) is not None:
            self.turn.renew()  # raises the error that names who ended the turn
        try:
            self._must_be_deletable(piece)
            why = self._delete(piece)
        except BadPrefix as error:
            self.result.refused[piece.name] = str(error)
        else:
            if why is not None:
                self.result.left[piece.name] = why
            else:
                self.result.gone.append(piece)
        self.on_taken(piece)

    def _delete(self, piece: Garbage) -> str | None:
        """Delete a piece. Return why it stays; None if it is gone."""
        # A store that refuses to delete says so here, while the output is there.
        self.store.objects.remove([stamp_name(record.attempt) for record in piece.records])
        why = f"collected by `marin gc` of {this_process().user} on {time.strftime('%Y-%m-%d')}: {piece.why}"
        for record in piece.records:
            if not self._end(record.identity, How.COLLECTED, why):
                return "rebuilt meanwhile"
        for identity in piece.fenced:
            # Plans show the last end of a step without an output.
            before = self.inventory.collected.get(identity)
            how, why = (How.TAKEN_OVER, "`marin gc` deleted its files") if before is None else (How.COLLECTED, before)
            if not self._end(identity, how, why) and self.store.record(identity, self._last(identity)) is not None:
                return "committed meanwhile"
        self._remove(piece)
        return None

    def _end(self, identity: str, how: How, why: str) -> bool:
        """End the next attempt at a step, so that no earlier holder can commit. Return False if it has ended."""
        number = self._last(identity) + 1
        return end_attempt(self.store.objects, identity, number, how, f"{GC}/{identity}.{number:04d}", why)

    def _last(self, identity: str) -> int:
        return self.inventory.last.get(identity, 0)

    def _must_be_deletable(self, piece: Garbage) -> None:
        """Raise BadPrefix if a piece cannot be deleted. On a shared disk its files may be another user's.

        A record must not go if its files cannot.
        """
        if not self.store.directory.is_local:
            return
        folders = [(self.store.directory / folder).path for folder in piece.folders]
        every = [place for folder in folders for place in (folder.parent, folder, folder / OWN)]
        denied = next((place for place in every if place.exists() and not os.access(place, os.W_OK)), None)
        if denied is not None:
            raise BadPrefix(f"you may not delete in {denied}")

    def _remove(self, piece: Garbage) -> None:
        objects = self.store.objects
        marks = [f"{folder}/{MADE_BY if folder.startswith(f'{OWN}/') else RECORD}" for folder in piece.folders]
        actions = [action_name(record.action, record.identity) for record in piece.records if record.action]
        objects.remove([*marks, *actions])
        for folder in piece.folders:
            with control_errors(Path(self.store.prefix) / folder):
                (self.store.directory / folder).remove()
        objects.remove(piece.objects)
