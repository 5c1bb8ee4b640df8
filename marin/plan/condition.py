"""Each step's own condition in the store, before anybody decides what to do about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marin.errors import CorruptRecord
from marin.plan.drift import Today, changes, package_changes, same
from marin.plan.observed import unseen
from marin.plan.snapshot import Snapshot
from marin.steps.step import ExecutorStep
from marin.store.files.verify import Check
from marin.store.layout import RECORD
from marin.store.record import Acceptance, Observed, Record
from marin.store.store import Store

type Conditions = dict[ExecutorStep[Any], Condition]


@dataclass
class Condition:
    """drift: what changed since it was made. damage: why it cannot be read; deleted: all of it is gone. unfinished: why
    work in progress must not simply be gone on with; goes_on: somebody accepted that it is. untrusted: why its bytes
    are not to be used; revoked: they are revoked themselves.
    """

    record: Record | None = None
    damage: str = ""
    deleted: bool = False
    drift: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    goes_on: bool = False
    notes: tuple[str, ...] = ()
    untrusted: str = ""
    revoked: bool = False


def conditions(steps: list[ExecutorStep[Any]], snapshot: Snapshot, today: dict[ExecutorStep[Any], Today]) -> Conditions:
    """By step, in dependency order."""
    look_at_files(snapshot, today)
    found: Conditions = {}
    for step in steps:
        record = snapshot.records.get(step.identity)
        if record is not None:
            found[step] = _committed(step, record, snapshot, today[step], found)
        else:
            notes = tuple(unseen(Observed(), today[step].code))
            found[step] = Condition(damage=snapshot.damage.get(step.identity, ""), notes=notes)
            if not found[step].damage and step.identity in snapshot.in_progress:
                _about_unfinished(found[step], step, snapshot.store, today[step], found)
    return found


def look_at_files(snapshot: Snapshot, today: Mapping[ExecutorStep[Any], Today]) -> None:
    """All files that were observed to be read, side by side."""
    paths: list[str] = []
    held = None
    for step, now in today.items():
        record = snapshot.records.get(step.identity)
        if record is not None and record.observed.files and now.present is not None:
            held = now.present
            paths += held.paths(record.observed)
    if held is not None:
        held.digests.add(paths)


def _committed(
    step: ExecutorStep[Any], record: Record, snapshot: Snapshot, today: Today, found: Conditions
) -> Condition:
    store = snapshot.store
    held = Condition(record)
    files = state_of_files(snapshot, record)
    held.damage, held.deleted = files.wrong or snapshot.damage.get(step.identity, ""), files.deleted
    if (untrusted := snapshot.untrusted(record)) is not None:
        held.untrusted, held.revoked = untrusted.why, untrusted.is_revoked
    inputs = current_inputs(step, found)
    names = {read.identity: read.name for read in record.inputs}
    drift = changes(store, record.made_by, today, inputs, names)
    notes = [*package_changes(record.packages, today.code.packages), *files.notes, *about_observed(record, today)]
    if drift and (acceptance := accepted(store, step, today, inputs, record.observed)) is not None:
        notes.append(acceptance.describe())
        drift = []
    if step.pin is not None:
        since, about = since_pinned(step, record, snapshot)
        drift, notes = [*drift, *since], [*notes, *about]
    held.drift, held.notes = tuple(drift), tuple(notes)
    return held


def about_observed(record: Record, today: Today) -> list[str]:
    """What nobody could see, and what cannot be compared on this machine."""
    gone = today.present.missing(record.observed) if today.present is not None else []
    here = [f"{name} is not on this machine, and not compared; {record.observed.host} read it" for name in gone]
    return [*unseen(record.observed, today.code), *here]


def since_pinned(step: ExecutorStep[Any], record: Record, snapshot: Snapshot) -> tuple[tuple[str, ...], list[str]]:
    """(what changed in the code that made a pinned output, unless somebody said why it stands; notes)."""
    changes, notes = snapshot.code_of_pins.since(record)
    if not changes or step.pin is None:
        return (), notes
    if step.pin.because:
        more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        return (), [*notes, f"pinned although {changes[0]}{more}: {step.pin.because}"]
    for entry in snapshot.store.acceptances(step.identity):
        if set(changes) <= set(entry.changes):
            return (), [*notes, entry.describe()]
    return tuple(changes), notes


@dataclass(frozen=True, kw_only=True)
class FilesState:
    """wrong: what is wrong with an output's files, "" if nothing is. deleted: there is no file of it any more, and none
    of the store's own beside them. notes: what is worth saying."""

    wrong: str = ""
    deleted: bool = False
    notes: tuple[str, ...] = ()


def state_of_files(snapshot: Snapshot, record: Record) -> FilesState:
    """Are a committed output's files there, and what they were?

    Where the store has times: names, sizes and times as the commit left them mean that nobody touched the output;
    otherwise every byte is read once more. On other stores: that it is there; its files are checked when they are read,
    and its manifest, too, where reading is a round trip.
    """
    output, store = snapshot.store.output(record), snapshot.store
    missing = f"the output {record.attempt} is missing from the store; {store.remedy(record)}"
    if not output.is_local:
        if record.attempt not in snapshot.attempts(record.attempt.rpartition("/")[0]):
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


def accepted(
    store: Store, step: ExecutorStep[Any], today: Today, inputs: Mapping[str, str], seen: Observed
) -> Acceptance | None:
    """Who accepted that what today's code and inputs would make may differ; None if nobody did. seen: what the output's
    run read."""
    return next((held for held in store.acceptances(step.identity) if same(store, held, today, inputs, seen)), None)


def _about_unfinished(
    condition: Condition, step: ExecutorStep[Any], store: Store, today: Today, found: Conditions
) -> None:
    """Work in progress (training checkpoints, say) may have been begun by other code or from other inputs."""
    try:
        marker = store.state_marker(step.identity)
    except CorruptRecord as error:
        condition.unfinished = (str(error),)
        return
    if marker is None:
        return
    inputs = current_inputs(step, found)
    names = {dependency.identity: dependency.name for dependency in step.dependencies}
    condition.unfinished = tuple(changes(store, marker, today, inputs, names))
    if condition.unfinished and (acceptance := accepted(store, step, today, inputs, marker.observed)) is not None:
        condition.goes_on, condition.unfinished = True, ()
        condition.notes = (
            *condition.notes,
            f"goes on with work in progress: {acceptance.describe()}",
        )


def current_inputs(step: ExecutorStep[Any], found: Conditions) -> dict[str, str]:
    """Root digest of each committed dependency, by identity."""
    return {
        dependency.identity: record.root
        for dependency in step.dependencies
        if (record := found[dependency].record) is not None
    }
