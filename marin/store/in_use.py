"""The needs of running experiments, so that ``marin gc`` leaves their outputs alone.

::

    {prefix}/.marin/uses/<run>.json          inputs and outputs of a run; stays, so that gc knows recent runs
    {prefix}/.marin/uses/<run>.beat          exists while the run lasts; rewritten like a claim

Each gc takes a turn to delete, which has a claim and an end like an attempt. A run first writes its needs, then looks
for an open turn, then checks that its inputs exist. gc first begins its turn, then reads the needs of all runs. The
second of the two sees the first: gc leaves the output, or the run waits until the turn has ended.
"""

from __future__ import annotations

import functools
import threading
import time
import uuid
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from marin.errors import MarinError, StalePlan
from marin.store.documents import Versioned
from marin.store.ends import LOOK_SECONDS, Claim, Held, Watch, take
from marin.store.heartbeat import heartbeat_thread
from marin.store.inventory import Inventory
from marin.store.layout import ENDS, GC, RECORD, USES, claim_name, end_name, numbered, slug
from marin.store.process import Holder, this_process
from marin.store.record import Record
from marin.store.store import Store

TURN = "gc"  # the claim to delete, which works like a step's
BEAT_EVERY = 10.0  # seconds; a claim expires after several beats
RECENT = 1.0  # days: needs of runs that began since stay, because a killed run may be started again
SHORT = 16  # digits of an identity: a run may need a hundred thousand identities
FEW = 32  # outputs: reading the next end of each is faster than listing all ends of a store
REMEDY = "if nothing runs on this store, delete the file"


class Needs(Versioned, frozen=True, kw_only=True):
    """The outputs that a run needs."""

    experiment: str = ""
    whole: bool = False  # the run covers its whole experiment, which has no other steps
    # These two have no default: a file without them is malformed, and must not be read as needing nothing.
    identities: list[str]  # first digits
    attempts: list[str]  # directories to read
    code: list[str] = msgspec.field(default_factory=list[str])  # digests of stored code and lists of outside data

    @classmethod
    def union(cls, parts: Iterable[Needs]) -> Needs:
        every = list(parts)
        return cls(
            experiment=next((each.experiment for each in every if each.experiment), ""),
            whole=any(each.whole for each in every),
            identities=sorted({name for each in every for name in each.identities}),
            attempts=sorted({name for each in every for name in each.attempts}),
            code=sorted({digest for each in every for digest in each.code}),
        )


class Beat(Versioned, frozen=True, kw_only=True):
    """The sign of life of a run. Runs before December 2026 wrote further fields."""

    holder: Holder
    since: str  # for people only
    beat: int = 0  # grows while the run lasts


def last_turn(store: Store, after: int = 0) -> int:
    """Return the number of the last turn to delete that has ended. Turns have no gaps, so a few reads find it.

    after: number of an ended turn.
    """

    def is_open(number: int) -> bool:
        return store.objects.read(end_name(TURN, number)) is None

    ahead = 1
    while not is_open(after + ahead):
        ahead *= 2
    return after + bisect_left(range(after + 1, after + ahead), True, key=is_open)


def take_turn(store: Store, watch: Watch, after: int = 0) -> Held | Claim:
    """Claim the turn to delete: return it, or the claim of the process that has it. There is no such directory.

    after: number of an ended turn.
    """
    is_dead = functools.partial(watch.is_dead, TURN)
    turn = take(store.objects, TURN, lambda number: f"{GC}/{number:04d}", is_dead, after)
    assert not isinstance(turn, Record), "a turn commits nothing"
    return turn


class Uses:
    """The needs of one run. Use it as a context manager around everything that reads or writes the store."""

    def __init__(
        self,
        store: Store,
        experiment: str,
        on_message: Callable[[str], None] = lambda _: None,
        watch: Watch | None = None,
    ) -> None:
        """on_message: takes messages about waiting. watch: judges whether a gc without a beat is dead."""
        self.store, self.experiment, self.on_message = store, experiment, on_message
        moment = f"{datetime.now():%Y%m%dT%H%M%S%f}"[:-3]  # names say which of two runs began some milliseconds later
        self.run = f"{moment}-{slug(experiment)}-{uuid.uuid4().hex[:12]}"
        self._beat_name = f"{USES}/{self.run}.beat"
        self._needed: set[str] = set()  # identities, directories and digests that are written
        self._parts = self._turns = 0  # parts of the needs that are written; turns to delete that have ended
        self._watch = watch if watch is not None else Watch()
        self._lock, self._ended = threading.Lock(), False

    def __enter__(self) -> Uses:
        self._last = Beat(holder=this_process(), since=time.strftime("%Y-%m-%d %H:%M:%S %Z"))
        self.store.objects.write(self._beat_name, self._last.to_json())
        heartbeat_thread().add(self._beat, BEAT_EVERY)
        return self

    def __exit__(self, *_: object) -> None:
        heartbeat_thread().remove(self._beat)
        with self._lock, suppress(MarinError, OSError):  # a running beat has ended
            self._ended = True
            self.store.objects.remove([self._beat_name])

    def add(
        self,
        records: Collection[Record],
        identities: Iterable[str] = (),
        code: Iterable[str] = (),
        *,
        whole: bool = False,
        replaced: Collection[str] = (),
    ) -> None:
        """Add needs, which gc leaves alone from now on.

        records: outputs to read, which must exist where the plan saw them, except in the directories ``replaced``.
        identities: further outputs to read or build. code, whole: see Needs.
        Waits while gc deletes. Raises StalePlan if an output is gone.
        """
        needs = Needs(
            experiment=self.experiment,
            whole=whole,
            identities=sorted({each[:SHORT] for each in (*identities, *(record.identity for record in records))}),
            attempts=sorted({record.attempt for record in records}),
            code=sorted(set(code)),
        )
        needed = {*needs.identities, *needs.attempts, *needs.code}
        if not needed <= self._needed:
            self._needed |= needed
            part = f".{self._parts}" if self._parts else ""
            self._parts += 1
            self.store.objects.write(f"{USES}/{self.run}{part}.json", needs.to_json())
            self._wait_for_gc()
        if gone := _gone(self.store, [record for record in records if record.attempt not in replaced]):
            raise StalePlan(
                f"{', '.join(record.name for record in gone[:3])}{' …' if len(gone) > 3 else ''}: rebuilt, or deleted "
                f"by `marin gc`, since the plan ({gone[0].attempt}); a new plan is needed"
            )

    def _wait_for_gc(self) -> None:
        """Wait for the end of an open turn: its gc may not have read these needs. The gc of a later turn reads them.

        A gc that was only suspended finds its turn taken when it wakes up, and deletes nothing. A killed gc does no
        harm: every remaining record has all its files.
        """
        objects, told = self.store.objects, False
        self._turns = last_turn(self.store, self._turns)
        number = self._turns + 1
        while objects.read(claim_name(TURN, number)) is not None and objects.read(end_name(TURN, number)) is None:
            turn = take_turn(self.store, self._watch, self._turns)
            if isinstance(turn, Held):  # that gc is dead, or has ended
                return turn.release()
            if not told:
                self.on_message(f"`marin gc` of {turn.holder} is deleting outputs; waiting for it")
                told = True
            time.sleep(LOOK_SECONDS)

    def _beat(self) -> bool:
        with self._lock, suppress(MarinError, OSError):  # the store is unreachable for a moment
            if not self._ended:
                self._last = replace(self._last, beat=self._last.beat + 1)
                self.store.objects.write(self._beat_name, self._last.to_json())
        return not self._ended


def _gone(store: Store, records: Collection[Record]) -> list[Record]:
    """Return the records whose outputs are gone.

    An output is there while its directory holds its record: gc first ends the output, then deletes this record, then
    the data. A pin may name an output that a rebuild replaced, or that was copied here by hand. The output of a step is
    there in any case. Takes one listing and reads only outputs with new ends, or one read for each of a FEW records.
    """
    if len(records) > FEW:
        last = dict(sorted(map(numbered, store.objects.list(ENDS))))
        records = [record for record in records if last.get(record.identity, 0) != record.token]
    kept = store.objects.read_many(list({f"{record.attempt}/{RECORD}" for record in records}))
    missing = [record for record in records if f"{record.attempt}/{RECORD}" not in kept]
    now = Inventory(store, [record.identity for record in missing]).records if missing else {}
    return [each for each in missing if each.identity not in now or now[each.identity].attempt != each.attempt]


class Run(Struct, frozen=True):
    """One run that wrote its needs. beat: None once the run has ended."""

    name: str
    needs: Needs
    beat: Beat | None


def read_runs(store: Store) -> list[Run]:
    """Return every run that wrote its needs. Reads the needs before the beats. Raises CorruptRecord."""
    names = store.objects.list(USES)
    needs: dict[str, list[Needs]] = {}
    for run, content, where in _files(store, names, ".json"):
        needs.setdefault(run, []).append(Needs.parse_file(content, where, "list of needs", REMEDY))
    lasting = _files(store, names, ".beat")
    beats = {run: Beat.parse_file(content, where, "beat", REMEDY) for run, content, where in lasting if run in needs}
    return [Run(name=run, needs=Needs.union(parts), beat=beats.get(run)) for run, parts in needs.items()]


def _files(store: Store, names: list[str], ending: str) -> list[tuple[str, bytes, str]]:
    """Return (name of the run, content, where the file is) of each file of runs with this ending."""
    wanted = {f"{USES}/{name}": name.partition(".")[0] for name in names if name.endswith(ending)}
    found = store.objects.read_many(list(wanted))
    return [(wanted[name], content, f"{store.prefix}/{name}") for name, content in found.items()]
