"""Each step's own condition in the store, before anybody decides what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marin.drift import Today, changes, package_changes, same
from marin.errors import CorruptRecord
from marin.record import Acceptance, Check, Record
from marin.snapshot import Snapshot
from marin.step import ExecutorStep
from marin.store import Store

type Conditions = dict[ExecutorStep[Any], Condition]


@dataclass
class Condition:
    """drift: what changed since it was made. damage: why it cannot be read. unfinished: why work in progress must not
    simply be gone on with; goes_on: somebody accepted that it is. untrusted: why its bytes are not to be used; revoked:
    they are revoked themselves.
    """

    record: Record | None = None
    damage: str = ""
    drift: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    goes_on: bool = False
    notes: tuple[str, ...] = ()
    untrusted: str = ""
    revoked: bool = False


def conditions(steps: list[ExecutorStep[Any]], snapshot: Snapshot, today: dict[ExecutorStep[Any], Today]) -> Conditions:
    """By step, in dependency order."""
    found: Conditions = {}
    for step in steps:
        record = snapshot.records.get(step.identity)
        if record is not None:
            found[step] = _committed(step, record, snapshot, today[step], found)
        else:
            found[step] = Condition(damage=snapshot.damage.get(step.identity, ""))
            if not found[step].damage and step.identity in snapshot.in_progress:
                _about_unfinished(found[step], step, snapshot.store, today[step], found)
    return found


def _committed(
    step: ExecutorStep[Any], record: Record, snapshot: Snapshot, today: Today, found: Conditions
) -> Condition:
    store = snapshot.store
    held = Condition(record)
    held.damage, touched = damage(snapshot, record)
    held.damage = held.damage or snapshot.damage.get(step.identity, "")
    held.untrusted, held.revoked = snapshot.untrusted(record)
    inputs = current_inputs(step, found)
    names = {read.identity: read.name for read in record.inputs}
    drift = changes(store, record.made_by, today, inputs, names)
    notes = [*package_changes(record.packages, today.code.packages), *touched]
    if drift and (acceptance := accepted(store, step, today, inputs)) is not None:
        notes.append(acceptance.describe())
        drift = []
    if step.pin is not None:
        since, about = since_pinned(step, record, snapshot)
        drift, notes = [*drift, *since], [*notes, *about]
    held.drift, held.notes = tuple(drift), tuple(notes)
    return held


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


def damage(snapshot: Snapshot, record: Record) -> tuple[str, list[str]]:
    """(what is wrong with an output's files, or ""; what is worth a note).

    Where the store has times: names, sizes and times as the commit left them mean that nobody touched the output;
    otherwise every byte is read once more. On other stores: that it is there; its files are checked when they are read,
    and its manifest, too, where reading is a round trip.
    """
    output, store = snapshot.store.output(record), snapshot.store
    if not output.is_local:
        op = record.attempt.rpartition("/")[0]
        gone = record.attempt not in snapshot.attempts(op)
        if gone:
            return f"the output {record.attempt} is missing from the store; {store.remedy(record)}", []
        return "" if store.objects.is_remote else store.bad_manifests([record]).get(record.attempt, ""), []
    stamp = output.stamp()
    if not (stamp and stamp == record.stamp):
        if not output.exists(".marin/record.json"):
            return f"the output {record.attempt} is missing from the store; {store.remedy(record)}", []
        if record.stamp and stamp != store.stamp(record):
            return _read_again(store, record)
    return store.bad_manifests([record]).get(record.attempt, ""), []


def _read_again(store: Store, record: Record) -> tuple[str, list[str]]:
    wrong = store.verify(record, Check.CHECKSUMS)
    if wrong:
        return f"changed in place: {'; '.join(wrong[:3])}; {store.remedy(record)}", []
    return "", ["its files were touched or copied; every byte was read again and is right (`marin verify` notes that)"]


def accepted(store: Store, step: ExecutorStep[Any], today: Today, inputs: Mapping[str, str]) -> Acceptance | None:
    """Who accepted that what today's code and inputs would make may differ; None if nobody did."""
    return next((held for held in store.acceptances(step.identity) if same(held, today, inputs)), None)


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
    if condition.unfinished and (acceptance := accepted(store, step, today, inputs)) is not None:
        condition.goes_on, condition.unfinished = True, ()
        condition.notes = (f"goes on with work in progress: {acceptance.describe()}",)


def current_inputs(step: ExecutorStep[Any], found: Conditions) -> dict[str, str]:
    """Root digest of each committed dependency, by identity."""
    return {
        dependency.identity: record.root
        for dependency in step.dependencies
        if (record := found[dependency].record) is not None
    }
