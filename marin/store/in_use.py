"""The needs of running experiments, so that ``marin gc`` leaves their outputs alone.

::

    {prefix}/.marin/uses/<run>.json          inputs and outputs of a run; stays, so that gc knows recent runs
    {prefix}/.marin/uses/<run>.beat          exists while the run lasts; rewritten like a lease
    {prefix}/.marin/gc.json                  the batch that gc is about to delete

A run first writes its needs, then reads the batch, then checks that its inputs exist. gc first writes its batch, then
reads the needs of all runs. The second of the two sees the first: gc leaves the output, or the run waits until the
batch is done.
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

TURN = "gc"  # the lease for deleting, which works like a step's
BEAT_EVERY = 10.0  # seconds; a lease expires after several beats
RECENT = 1.0  # days: needs of runs that began since stay, because a killed run may be started again
SHORT = 16  # digits of an identity: a run may need a hundred thousand identities


class Needs(Document, frozen=True, kw_only=True):
    """The outputs that a run needs, or that gc is about to delete."""

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

    def meets(self, other: Needs) -> bool:
        """Do the two share an identity, a directory or a digest?"""
        pairs = ((other.identities, self.identities), (other.attempts, self.attempts), (other.code, self.code))
        return not all(set(theirs).isdisjoint(mine) for theirs, mine in pairs)

    def holds(self, other: Needs) -> bool:
        pairs = ((other.identities, self.identities), (other.attempts, self.attempts), (other.code, self.code))
        return all(set(theirs) <= set(mine) for theirs, mine in pairs)


NOTHING = Needs(identities=[], attempts=[])


def turn_name(token: int) -> str:
    """Return the attempt's name in the lease for deleting; there is no such directory."""
    return f"{GC}/{token:04d}"


def needs_of(
    identities: Iterable[str],
    records: Iterable[Record],
    code: Iterable[str],
    experiment: str = "",
    *,
    whole: bool = False,
) -> Needs:
    """Return the needs of a run. identities: outputs to read or build. records: the ones that exist."""
    every = list(records)
    return Needs(
        experiment=experiment,
        whole=whole,
        identities=sorted({each[:SHORT] for each in (*identities, *(record.identity for record in every))}),
        attempts=sorted({record.attempt for record in every}),
        code=sorted(set(code)),
    )


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
        with self._lock, suppress(MarinError, OSError):  # a running beat has ended
            self._ended = True
            self.store.objects.remove([self._beat_name])

    def add(self, needs: Needs, records: Collection[Record]) -> None:
        """Add needs, which gc leaves alone from now on. records: outputs that must exist where the plan saw them.

        Waits while gc is deleting a needed output. Raises StalePlan if one is gone.
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
                f"{', '.join(record.name for record in gone[:3])}{' …' if len(gone) > 3 else ''}: rebuilt, or deleted "
                f"by `marin gc`, since this was planned ({gone[0].attempt}); run again"
            )

    def _let_pass(self, needs: Needs) -> None:
        """Wait for the lease for deleting if gc's batch holds one of these needs.

        A gc that was only suspended finds its lease taken when it wakes up, and deletes nothing. A killed gc does no
        harm: every remaining record has all its files.
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
                self.on_message(f"`marin gc` of {other.holder} is deleting outputs that this run needs; waiting for it")
                has_said = True

        turn = acquire_in_turn(take, waiting)
        if turn is not None:
            turn.release()

    @property
    def _beat_name(self) -> str:
        return f"{USES}/{self.run}.beat"

    def _beat(self) -> bool:
        with self._lock, suppress(MarinError, OSError):  # the store is unreachable for a moment
            if not self._ended:
                self._lease = replace(self._lease, beat=self._lease.beat + 1)
                self.store.objects.write(self._beat_name, self._lease.to_bytes())
        return not self._ended


def _gone(store: Store, records: Collection[Record]) -> list[Record]:
    """Return the records whose outputs are gone: neither the store nor the directory holds the record any more.

    gc deletes an output's record first, then the record in its directory, then its data.
    """
    marks = {f"{record.attempt}/{RECORD}": record for record in records}
    there = store.objects.read_many(list(marks))
    unmarked = [record for mark, record in marks.items() if mark not in there]
    committed = store.record_contents({record.identity for record in unmarked}) if unmarked else {}
    return [record for record in unmarked if record.attempt.encode() not in committed.get(record.identity, b"")]


@dataclass(frozen=True)
class Run:
    """One run that wrote its needs. beat: None once the run has ended."""

    name: str
    needs: Needs
    beat: LeaseDocument | None


def read_runs(store: Store) -> list[Run]:
    """Return every run that wrote its needs. Reads the needs before the beats. Raises CorruptRecord."""
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
    """Return the batch of a gc that is deleting, or was killed while deleting; else None. Raises CorruptRecord."""
    content = store.objects.read(GC_BATCH)
    return None if content is None else _parsed(content, f"{store.prefix}/{GC_BATCH}")


def _parsed(content: bytes, where: str) -> Needs:
    try:
        return Needs.parse(content)
    except BadDocument as error:
        raise CorruptRecord(
            f"{where} is not readable ({error}); if nothing runs on this store, delete the file"
        ) from error
