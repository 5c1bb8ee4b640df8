"""Are a committed output's files there, and what they were?"""

from __future__ import annotations

import os

from marin.plan.condition import FilesState
from marin.plan.snapshot import Snapshot
from marin.store.files.verify import Check
from marin.store.layout import RECORD
from marin.store.record import Record
from marin.store.store import Store


def state_of_files(snapshot: Snapshot, record: Record) -> FilesState:
    """Where the store has times: names, sizes and times as the commit left them mean that nobody touched the output;
    otherwise every byte is read once more. On other stores: that it is there; its files are checked when they are read,
    and its manifest, too, where reading is a round trip.
    """
    output, store = snapshot.store.output(record), snapshot.store
    missing = f"the output {record.attempt} is missing from the store; {store.remedy(record)}"
    if not output.is_local:
        if record.attempt not in snapshot.attempts(record.attempt.rpartition("/")[0]).directories:
            return FilesState(wrong=missing, deleted=True)
        return FilesState() if store.objects.is_remote else _manifest_state(store, record)
    stamp = output.stamp()
    if not (stamp and stamp == record.stamp):
        if not output.exists(RECORD):
            return FilesState(wrong=missing, deleted=_is_deleted(output.url))
        if record.stamp and stamp != store.stamp(record):
            return _read_again(store, record)
    return _manifest_state(store, record)


def _read_again(store: Store, record: Record) -> FilesState:
    wrong = store.verify(record, Check.CHECKSUMS)
    if wrong:
        return FilesState(wrong=f"changed in place: {'; '.join(wrong[:3])}; {store.remedy(record)}")
    touched = "its files were touched or copied; every byte was read again and is right (`marin verify` notes that)"
    return FilesState(notes=(touched,))


def _manifest_state(store: Store, record: Record) -> FilesState:
    return FilesState(wrong=store.bad_manifests([record]).get(record.attempt, ""))


def _is_deleted(path: str) -> bool:
    """Is nothing there under this name? A link to a disk that is away is something."""
    above = path
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    return above != path and os.path.isdir(above)
