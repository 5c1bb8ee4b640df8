"""What runs need from a store while they last, so that ``marin gc`` leaves it alone.

::

    {prefix}/.marin/uses/<run>.json          what a run reads and makes; stays, so that gc knows recent runs
    {prefix}/.marin/uses/<run>.beat          there while the run lasts; rewritten, as a lease is
    {prefix}/.marin/gc.json                  what gc is about to take away: its batch

A run first says what it needs, then looks at the batch, then at what it needs. gc first says what it takes, then looks
at the needs of all runs. Whoever comes second sees the other: gc leaves it, or the run waits for the batch to pass.
"""

from __future__ import annotations

import functools
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from marin.errors import CorruptRecord, MarinError, StalePlan
from marin.store.documents import BadDocument, Document
from marin.store.heartbeat import heartbeat_thread
from marin.store.layout import GC, GC_BATCH, RECORD, USES, slug
from marin.store.lease import Lease, LeaseDocument, State, Watch, acquire, acquire_in_turn, parse_lease
from marin.store.process import this_process
from marin.store.record import Record
from marin.store.store import Store

TURN = "gc"  # whose turn it is to delete: a lease like a step's
BEAT_EVERY = 10.0  # seconds; a lease's expiry is several of them
RECENT = 1.0  # days: what a run needed that began since stays; it may have been killed, and be run again
SHORT = 16  # digits of an identity: a run may need a hundred thousand


class Needs(Document, frozen=True, kw_only=True):
    """What must stay, or, of gc, what goes."""

    experiment: str = ""
    whole: bool = False  # of a run of all of its experiment: no other step is a part of it
    # These two have no default: what lacks them is no such file, rather than one that needs nothing.
    identities: list[str]  # their first digits
    attempts: list[str]  # directories that are read
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

    def meets(self, other: Needs) -> bool:
        """Is something of the one in the other?"""
        pairs = ((other.identities, self.identities), (other.attempts, self.attempts), (other.code, self.code))
        return not all(set(theirs).isdisjoint(mine) for theirs, mine in pairs)

    def holds(self, other: Needs) -> bool:
        pairs = ((other.identities, self.identities), (other.attempts, self.attempts), (other.code, self.code))
        return all(set(theirs) <= set(mine) for theirs, mine in pairs)


NOTHING = Needs(identities=[], attempts=[])


def turn_name(token: int) -> str:
    """What the lease of a turn calls its attempt; there is no such directory."""
    return f"{GC}/{token:04d}"


def needs_of(
    identities: Iterable[str],
    records: Iterable[Record],
    code: Iterable[str],
    experiment: str = "",
    *,
    whole: bool = False,
) -> Needs:
    """identities: what is read or made. records: what is there of it."""
    every = list(records)
    return Needs(
        experiment=experiment,
        whole=whole,
        identities=sorted({each[:SHORT] for each in (*identities, *(record.identity for record in every))}),
        attempts=sorted({record.attempt for record in every}),
        code=sorted(set(code)),
    )


class Uses:
    """One run's own. Use as a context manager around everything that reads the store or writes to it."""

    def __init__(
        self,
        store: Store,
        experiment: str,
        on_message: Callable[[str], None] = lambda _: None,
        watch: Watch | None = None,
    ) -> None:
        """on_message: what it waits for, in words. watch: judges whether a gc that stands still is dead."""
        self.store, self.experiment, self.on_message = store, experiment, on_message
        now = time.time()  # to the millisecond: names say which of two runs began later
        moment = f"{time.strftime('%Y%m%dT%H%M%S', time.localtime(now))}{int(now * 1000) % 1000:03d}"
        self.run = f"{moment}-{slug(experiment)}-{uuid.uuid4().hex[:12]}"
        self.needs = replace(NOTHING, experiment=experiment)
        self._parts = 0
        self._watch = watch if watch is not None else Watch()
        self._lock, self._ended = threading.Lock(), False

    def __enter__(self) -> Uses:
        self._lease = LeaseDocument(
            state=State.HELD,
            token=1,
            attempt=f"{USES}/{self.run}",
            holder=this_process(),
            since=time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        )
        self.store.objects.write(self._beat_name, self._lease.to_bytes())
        heartbeat_thread().add(self._beat, BEAT_EVERY)
        return self

    def __exit__(self, *_: object) -> None:
        heartbeat_thread().remove(self._beat)
        with self._lock, suppress(MarinError, OSError):  # a beat that was under way has ended
            self._ended = True
            self.store.objects.remove([self._beat_name])

    def add(self, needs: Needs, records: Collection[Record]) -> None:
        """From now on gc leaves these alone. records: what must be there, by the directory that the plan saw.

        Waits while gc is taking some of it away. Raises StalePlan if some of it is gone.
        """
        if not self.needs.holds(needs):
            self.needs = Needs.union([self.needs, needs])
            part = f".{self._parts}" if self._parts else ""
            self._parts += 1
            name = f"{USES}/{self.run}{part}.json"
            self.store.objects.write(name, needs.to_json())
            self._let_pass(needs)
        gone = _gone(self.store, records)
        if gone:
            raise StalePlan(
                f"{', '.join(record.name for record in gone[:3])}{' …' if len(gone) > 3 else ''}: made again or taken "
                f"away by `marin gc` since this was planned ({gone[0].attempt}); run again"
            )

    def _let_pass(self, needs: Needs) -> None:
        """Wait for gc's turn where gc is taking some of this. A gc that only stood still finds its turn taken when it
        wakes up, and deletes nothing; what one that was killed left is well: a record that is there has all its files.
        """
        has_said = False

        def take() -> Lease | LeaseDocument | None:
            batch = read_batch(self.store)
            if batch is None or not batch.meets(needs):
                return None
            return acquire(self.store.objects, TURN, turn_name, functools.partial(self._watch.is_dead, TURN))

        def waiting(other: LeaseDocument) -> None:
            nonlocal has_said
            if not has_said:
                self.on_message(f"`marin gc` of {other.holder} is taking away what this run needs; waiting for it")
                has_said = True

        turn = acquire_in_turn(take, waiting)
        if turn is not None:
            turn.release()

    @property
    def _beat_name(self) -> str:
        return f"{USES}/{self.run}.beat"

    def _beat(self) -> bool:
        with self._lock, suppress(MarinError, OSError):  # the store is away for a moment
            if not self._ended:
                self._lease = replace(self._lease, beat=self._lease.beat + 1)
                self.store.objects.write(self._beat_name, self._lease.to_bytes())
        return not self._ended


def _gone(store: Store, records: Collection[Record]) -> list[Record]:
    """Those whose directories do not hold an output any more. gc removes the record and then that mark, before data."""
    marks = {f"{record.attempt}/{RECORD}": record for record in records}
    there = store.objects.read_many(list(marks))
    unmarked = [record for mark, record in marks.items() if mark not in there]
    committed = store.record_contents({record.identity for record in unmarked}) if unmarked else {}
    return [record for record in unmarked if record.attempt.encode() not in committed.get(record.identity, b"")]


@dataclass(frozen=True)
class Run:
    """beat: None once it has ended."""

    name: str
    needs: Needs
    beat: LeaseDocument | None


def read_runs(store: Store) -> list[Run]:
    """Every run that said what it needs: first what, then whether it still lasts. Raises CorruptRecord."""
    names = [f"{USES}/{name}" for name in store.objects.list(USES)]
    needs = store.objects.read_many([name for name in names if name.endswith(".json")])
    beats = store.objects.read_many([name for name in names if name.endswith(".beat")])
    found: dict[str, list[Needs]] = {}
    for name, content in needs.items():
        run = name.removeprefix(f"{USES}/").removesuffix(".json").partition(".")[0]
        found.setdefault(run, []).append(_parsed(content, f"{store.prefix}/{name}"))
    lasting = {name.removeprefix(f"{USES}/").removesuffix(".beat"): content for name, content in beats.items()}
    return [
        Run(
            name=run,
            needs=Needs.union(parts),
            beat=parse_lease(lasting[run], f"{store.prefix}/{USES}/{run}.beat") if run in lasting else None,
        )
        for run, parts in found.items()
    ]


def read_batch(store: Store) -> Needs | None:
    """What gc is taking away, if it is at work or was killed at it. Raises CorruptRecord."""
    content = store.objects.read(GC_BATCH)
    return None if content is None else _parsed(content, f"{store.prefix}/{GC_BATCH}")


def _parsed(content: bytes, where: str) -> Needs:
    try:
        return Needs.parse(content)
    except BadDocument as error:
        raise CorruptRecord(
            f"{where} is not readable ({error}); if nobody runs anything in this store, delete it"
        ) from error
