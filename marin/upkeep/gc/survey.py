"""Survey a store for ``marin gc``, with a few listings and concurrent reads. Writes nothing."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain

from msgspec.structs import replace

from marin.errors import CorruptRecord
from marin.store.attempts import every_attempt
from marin.store.collector import paused
from marin.store.files import transfer
from marin.store.files.transfer import side_by_side
from marin.store.files.walk import entries_below
from marin.store.in_use import read_runs
from marin.store.inventory import Inventory
from marin.store.layout import FAILURE, RECORD, RECORDS, end_name
from marin.store.objects.errors import control_errors
from marin.store.objects.stored import Stored
from marin.store.record import Record, parse_record
from marin.store.revocation import revoked
from marin.store.store import Store
from marin.upkeep.gc.garbage import Garbage

SHOWN = 5  # unreadable objects that an error names


class StoreSurvey:
    """The present content of a store. Raises CorruptRecord if an object is unreadable that may protect an output."""

    @paused()
    def __init__(self, store: Store) -> None:
        self.store = store
        self.files = functools.cache(functools.partial(_files_below, store))  # of a control folder, as first listed
        try:
            self.runs = read_runs(store)  # first: outputs that a run commits meanwhile are found below
            self.attempts = every_attempt(store)  # before the records: an attempt committed meanwhile is not an orphan
            self.in_progress = store.state_identities()  # before the claims: a live holder of work is seen
            self.inventory = Inventory(store)
            self.revocations = revoked(store)
            markers = side_by_side(store.state_marker, self.in_progress)
            accepted = store.acceptances.every().values()
            if damage := list(self.inventory.damage.values()):
                more = [f"and {len(damage) - SHOWN} more"] if len(damage) > SHOWN else []
                raise CorruptRecord("\n".join([*damage[:SHOWN], *more]))
        except CorruptRecord as error:
            raise CorruptRecord(
                f"{error}\nNothing was deleted: an unreadable object may protect any of the store's files"
            ) from error
        self.records, self.claims = self.inventory.records, self.inventory.claims
        self.past = self.inventory.past()[0]  # outputs that a rebuild replaced, or gc deleted
        self.built_from = [*self.records.values(), *self.past, *filter(None, markers), *chain.from_iterable(accepted)]

    def written(self, name: str) -> float:
        """Return when a control file was written, by the store's clock; 0 if it is gone, or the store has no times."""
        folder, _, file = name.rpartition("/")
        entry = self.files(folder).get(file)
        return entry.modified if entry is not None else 0.0

    def made(self, record: Record) -> float:
        """Return when an output was committed, by the store's clock, or else by its writer's; infinity if unknown."""
        earlier = f"{RECORDS}/{record.identity}.json"
        if committed := self.written(end_name(record.identity, record.token) if record.token else earlier):
            return committed
        with suppress(ValueError, OverflowError):
            begun = time.mktime(time.strptime(record.provenance.started, "%Y-%m-%d %H:%M:%S"))
            return begun + record.provenance.seconds
        return float("inf")

    def with_data(self, directories: Iterable[str]) -> set[str]:
        """Return directories of attempts, and the directories that hold the data of their outputs."""
        names = [f"{directory}/{RECORD}" for directory in directories]
        found = set(directories)
        for name, content in self.store.objects.read_many(names).items():
            with suppress(CorruptRecord):
                found.add(parse_record(content, name).attempt)
        return found

    def with_extent(self, piece: Garbage) -> Garbage:
        """Return a piece of one folder with its bytes, files and, if unknown, the time of the newest file.

        A piece without times is never old. An empty folder counts as old: an interrupted removal left it.
        """
        (folder,) = piece.folders
        found = _files_below(self.store, folder)
        newest = max((entry.modified for entry in found.values()), default=0.0) or float("inf")
        return replace(
            piece,
            why=piece.why or ("did not finish" if FAILURE not in found else self._failed_or_stopped(folder)),
            bytes=sum(entry.size for entry in found.values()),
            files=len(found),
            since=piece.since if piece.since is not None else newest if found else 0.0,
        )

    def _failed_or_stopped(self, attempt: str) -> str:
        with suppress(CorruptRecord):
            failure = self.store.failure(attempt)
            if failure is not None and failure.stopped:
                return "stopped"
        return "failed"


def _files_below(store: Store, folder: str) -> dict[str, Stored]:
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
