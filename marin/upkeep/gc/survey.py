"""Survey a store for ``marin gc``, with a few listings and concurrent reads. Writes nothing."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from marin.errors import CorruptRecord
from marin.store.attempts import Attempt, every_attempt
from marin.store.collector import paused
from marin.store.files import transfer
from marin.store.files.walk import entries_below
from marin.store.in_use import SHORT as NEEDED
from marin.store.in_use import Run, read_runs
from marin.store.inventory import Inventory
from marin.store.layout import RECORD, RECORDS, USES, claim_name, end_name
from marin.store.objects.errors import control_errors
from marin.store.objects.stored import Stored
from marin.store.process import Holder
from marin.store.record import Record, parse_record
from marin.store.revocation import Revocations, revoked
from marin.store.store import Store

STALE = 3600.0  # seconds without a change of a claim or beat; a live holder rewrites them every few seconds
SHORT = 12  # digits of the identity in an attempt's directory
SHOWN = 5  # unreadable objects that an error names


class StoreSurvey:
    """The present content of a store. Raises CorruptRecord if an object is unreadable that may protect an output."""

    inventory: Inventory  # every output, and every claim without an end
    records: dict[str, Record]  # outputs by identity
    past: list[Record]  # outputs that a rebuild replaced, or gc deleted
    runs: list[Run]  # that wrote their needs
    attempts: list[Attempt]  # every directory named like an attempt
    orphan_attempts: list[Attempt]  # attempts without a record
    by_short: dict[str, list[str]]  # identities by their first digits: one each, unless 48 bits collide
    in_progress: set[str]  # identities with work in progress

    @paused()
    def __init__(self, store: Store) -> None:
        self.store = store
        self.files = functools.cache(functools.partial(files_below, store))  # of a control folder, as first listed
        self._unreadable: list[str] = []
        # Read the runs first: outputs that a run commits meanwhile are found below.
        self.runs = self._readable(read_runs, list[Run]())
        self.attempts = every_attempt(store)  # before the records: an attempt committed meanwhile is not an orphan
        self.in_progress = store.state_identities()  # before the claims: a live holder of work is seen
        self.inventory = Inventory(store)
        self.records, self.claims = self.inventory.records, self.inventory.claims
        self.past = self.inventory.past()[0]
        directories = {record.attempt for record in self.records.values()}
        # In a store of before, an alias has a directory of its own, which holds only its record. A pin may name it.
        aliases = {record.identity[:SHORT] for record in self.records.values() if record.alias_of and not record.token}
        orphans = (each for each in self.attempts if each.directory not in directories)
        self.orphan_attempts = [each for each in orphans if each.short not in aliases]
        self.by_short = {}
        for identity in self.inventory.known:
            self.by_short.setdefault(identity[:SHORT], []).append(identity)
        self.revocations = self._readable(revoked, Revocations())
        if wrong := [*self._unreadable, *self.inventory.damage.values()]:
            more = f"\nand {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
            raise CorruptRecord(
                "\n".join(wrong[:SHOWN])
                + f"{more}\nNothing was deleted: an unreadable object may protect any of the store's files"
            )

    def written(self, name: str) -> float:
        """Return when a control file was written, by the store's clock; 0 if it is gone, or the store has no times."""
        folder, _, file = name.rpartition("/")
        entry = self.files(folder).get(file)
        return entry.modified if entry is not None else 0.0

    def is_held(self, identity: str, now: float) -> bool:
        """May a live process be making this step?"""
        claim = self.claims.get(identity)
        return claim is not None and _is_live(claim.holder, self.written(claim_name(identity, claim.number)), now)

    def lasting(self, now: float) -> list[Run]:
        """Return the runs that may be alive: the driver, or one of its workers, which may outlive it."""
        held = {identity[:NEEDED] for identity in self.claims if self.is_held(identity, now)}
        return [
            run
            for run in self.runs
            if run.beat is not None
            and (
                _is_live(run.beat.holder, self.written(f"{USES}/{run.name}.beat"), now)
                or not held.isdisjoint(run.needs.identities)
            )
        ]

    def made(self, record: Record) -> float:
        """Return when an output was committed, by the store's clock, or else by its writer's; infinity if unknown."""
        earlier = f"{RECORDS}/{record.identity}.json"
        if committed := self.written(end_name(record.identity, record.token) if record.token else earlier):
            return committed
        with suppress(ValueError, OverflowError):
            begun = time.mktime(time.strptime(record.provenance.started, "%Y-%m-%d %H:%M:%S"))
            return begun + record.provenance.seconds
        return float("inf")

    def began(self, run: Run) -> float:
        """Return when a run last wrote its needs or its beat, by the store's clock."""
        own = [each.modified for name, each in self.files(USES).items() if name.partition(".")[0] == run.name]
        return max((when for when in own if when), default=float("inf"))

    def name_of(self, identity: str) -> str:
        """Return the name of a step without an output, from its attempts, or else from its identity."""
        mine = [attempt.name for attempt in self.attempts if identity.startswith(attempt.short)]
        return mine[-1] if mine else identity[:SHORT]

    def with_data(self, directories: Iterable[str]) -> set[str]:
        """Return directories of attempts, and the directories that hold the data of their outputs."""
        names = [f"{directory}/{RECORD}" for directory in directories]
        found = set(directories)
        for name, content in self.store.objects.read_many(names).items():
            with suppress(CorruptRecord):
                found.add(parse_record(content, name).attempt)
        return found

    def _readable[T](self, read: Callable[[Store], T], otherwise: T) -> T:
        """Read a part of the store, or note that it is unreadable: one error then tells of all such parts."""
        try:
            return read(self.store)
        except CorruptRecord as error:
            self._unreadable.append(str(error))
            return otherwise


def _is_live(holder: Holder, written: float, now: float) -> bool:
    """May the holder be alive? written: when its claim or beat was written, by the store's clock; 0 if unknown."""
    if holder.is_gone():
        return False
    return holder.is_here() or not written or now - written < STALE


def files_below(store: Store, folder: str) -> dict[str, Stored]:
    """Return every file below a folder with size and time, also ``.marin/`` and half-written files. One listing."""
    directory = store.directory / folder
    if not directory.is_local:
        return transfer.walk(directory.url)
    found: dict[str, Stored] = {}
    with control_errors(directory.path), suppress(FileNotFoundError):  # there is no such folder
        for name, entry in entries_below(directory.url, f"{folder}/"):
            with suppress(FileNotFoundError):  # deleted meanwhile
                status = entry.stat(follow_symlinks=False)
                found[name.removeprefix(f"{folder}/")] = Stored(status.st_size, "", status.st_mtime)
    return found
