"""Read the facts that a plan needs about each step, once: from the store, and from today's code, data and inputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from marin.errors import CorruptRecord
from marin.plan.condition import UNCHANGED, Comparison, Condition, Conditions, FilesState
from marin.plan.drift import CurrentCode, changes, package_changes, same
from marin.plan.missing import why_missing
from marin.plan.observed import unseen
from marin.plan.snapshot import Snapshot
from marin.steps.step import ExecutorStep, Pin
from marin.store.files.verify import Check
from marin.store.layout import RECORD
from marin.store.numbers import listed
from marin.store.record import Acceptance, BuiltFrom, Observed, Record, parse_record
from marin.store.store import Store


def read_conditions(snapshot: Snapshot, today: Mapping[ExecutorStep[Any], CurrentCode]) -> Conditions:
    """Return the condition of each step in the order of ``today``: dependencies first."""
    _look_at_observed_files(snapshot, today)
    found: Conditions = {}
    for step, now in today.items():
        record = snapshot.records.get(step.identity)
        if record is not None:
            found[step] = _committed(snapshot, step, record, now)
        elif damage := snapshot.damage.get(step.identity):
            found[step] = Condition(damage=damage, remarks=tuple(unseen(Observed(), now.code)))
        else:
            found[step] = _uncommitted(snapshot, step, now)
    missing = [step for step, condition in found.items() if condition.is_missing and step.pin is None]
    for step, why in why_missing(missing, snapshot).items():
        found[step] = replace(found[step], missing=why)
    return found


def compare(
    store: Store,
    step: ExecutorStep[Any],
    then: BuiltFrom,
    today: CurrentCode,
    inputs: Mapping[str, str],
    identity: str = "",
    accepted: Callable[[str], list[Acceptance]] | None = None,
) -> Comparison:
    """Compare ``then``, the code and data that built an output, with today's.

    inputs: today's root digest of each input, by identity. identity: the step whose acceptances count, "" for ``step``.
    accepted: reads the acceptances of an identity; None to list and read those of the store as it is now.
    """
    found, about = changes(store, step, then, today, inputs), accepted or store.acceptances.about
    for acceptance in about(identity or step.identity) if found else ():
        if same(store, acceptance, today, inputs, then.observed):
            return Comparison(changes=tuple(found), acceptance=acceptance, excuse=acceptance.describe())
    return Comparison(changes=tuple(found)) if found else UNCHANGED


def pinned_output(snapshot: Snapshot, pin: Pin) -> Record:
    """Return the record of the output that a pin names. Raises CorruptRecord naming the fault."""
    store = snapshot.store
    content = store.objects.read(f"{pin.at}/{RECORD}")
    if content is None:
        raise CorruptRecord(
            f"the pinned output {pin.at} is not in {store.prefix}; `marin ls` lists the outputs there, "
            "`marin adopt` brings outside data in"
        )
    record = parse_record(content, f"{store.prefix}/{pin.at}/{RECORD}")
    if record.root != pin.digest:
        raise CorruptRecord(
            f"the pinned output {pin.at} holds {record.root[:12]}, the pin says {pin.digest[:12]}: the output was "
            "rebuilt since, or the pin names another output; check the output, then pin the digest that you mean"
        )
    if wrong := state_of_files(snapshot, record).wrong:
        raise CorruptRecord(f"the pinned output {pin.at} is damaged: {wrong}")
    return record


def _look_at_observed_files(snapshot: Snapshot, today: Mapping[ExecutorStep[Any], CurrentCode]) -> None:
    """Take the digests of all files that runs were observed to read, concurrently."""
    paths: list[str] = []
    for step, now in today.items():
        if (record := snapshot.records.get(step.identity)) is not None and record.observed.files:
            paths += now.present.paths(record.observed)
    if paths:
        next(iter(today.values())).present.digests.add(paths)  # all share them


def _committed(snapshot: Snapshot, step: ExecutorStep[Any], record: Record, today: CurrentCode) -> Condition:
    files = state_of_files(snapshot, record)
    distrust = snapshot.trust.untrusted(record)
    return Condition(
        record=record,
        damage=files.wrong or snapshot.damage.get(step.identity, ""),
        deleted=files.deleted,
        untrusted=distrust.why if distrust is not None else "",
        revoked=distrust is not None and distrust.is_revoked,
        output=_compare(snapshot, step, record.made_by, today),
        pinned=UNCHANGED if step.pin is None else _compare_pinned(snapshot, step, step.pin, record),
        remarks=(
            *package_changes(record.packages, today.code.packages),
            *files.notes,
            *unseen(record.observed, today.code),
            *today.present.notes(record.observed),
        ),
    )


def _uncommitted(snapshot: Snapshot, step: ExecutorStep[Any], today: CurrentCode) -> Condition:
    condition = Condition(remarks=tuple(unseen(Observed(), today.code)))
    if step.pin is not None:
        try:
            record = pinned_output(snapshot, step.pin)
        except CorruptRecord as error:
            return replace(condition, pin_fault=str(error))
        condition = replace(condition, pinned_output=record)
        if (distrust := snapshot.trust.untrusted(record)) is not None:
            return replace(condition, untrusted=distrust.why, revoked=distrust.is_revoked)
        return replace(condition, pinned=_compare_pinned(snapshot, step, step.pin, record))
    if step.identity in snapshot.in_progress:
        return replace(condition, work=_compare_work(snapshot, step, today))
    return condition


def _compare_work(snapshot: Snapshot, step: ExecutorStep[Any], today: CurrentCode) -> Comparison:
    """Compare work in progress with today: other code or inputs may have begun it, such as training checkpoints."""
    try:
        marker = snapshot.store.state_marker(step.identity)
    except CorruptRecord as error:
        return Comparison(changes=(str(error),))
    if marker is None:
        return UNCHANGED
    return _compare(snapshot, step, marker, today)


def _compare(snapshot: Snapshot, step: ExecutorStep[Any], then: BuiltFrom, today: CurrentCode) -> Comparison:
    inputs = _current_inputs(snapshot, step)
    return compare(snapshot.store, step, then, today, inputs, accepted=snapshot.accepted)


def _compare_pinned(snapshot: Snapshot, step: ExecutorStep[Any], pin: Pin, record: Record) -> Comparison:
    """Compare the code that built a pinned output with today's, unless somebody said why the output stands."""
    compared = snapshot.code_of_pins.since(record)
    if not compared.changes:
        return compared
    if pin.because:
        return replace(compared, excuse=f"pinned although {listed(compared.changes, 1)}: {pin.because}")
    for acceptance in snapshot.accepted(step.identity):
        if set(compared.changes) <= set(acceptance.changes):
            return replace(compared, excuse=acceptance.describe(), acceptance=acceptance)
    return compared


def _current_inputs(snapshot: Snapshot, step: ExecutorStep[Any]) -> dict[str, str]:
    """Return the root digest of each committed dependency, by identity."""
    return {
        dependency.identity: record.root
        for dependency in step.dependencies
        if (record := snapshot.records.get(dependency.identity)) is not None
    }


def state_of_files(snapshot: Snapshot, record: Record) -> FilesState:
    """Return whether a committed output's files are there and unchanged.

    On a store with file times, the output is untouched if names, sizes and times are as the commit left them.
    Otherwise marin reads every byte again. On other stores marin only checks that the output is there, and its files
    are checked when they are read. The file with the manifest must exist and must not be empty, as a power cut may
    leave it. Its content is checked when it is read.
    """
    output, store = snapshot.store.output(record), snapshot.store
    missing = f"the output {record.attempt} is missing from the store; {store.remedy(record)}"
    if not output.is_local:
        if record.attempt not in snapshot.attempts(record.attempt.rpartition("/")[0]).directories:
            return FilesState(wrong=missing, deleted=True)
        return FilesState()
    stamp = output.stamp()
    if not (stamp and stamp == record.stamp):
        if not output.exists(RECORD):
            return FilesState(wrong=missing, deleted=_is_deleted(output.url))
        if record.stamp and stamp != store.stamp(record):
            return _read_again(store, record)
    if not _has_content(f"{output.url}/{RECORD}"):
        return FilesState(wrong=store.bad_manifests([record]).get(record.attempt, ""))
    return FilesState()


def _read_again(store: Store, record: Record) -> FilesState:
    wrong = store.verify(record, Check.CHECKSUMS)
    if wrong:
        return FilesState(wrong=f"changed in place: {'; '.join(wrong[:3])}; {store.remedy(record)}")
    touched = (
        "its files were touched or copied; marin read every byte again: no damage (`marin audit --bytes` records this)"
    )
    return FilesState(notes=(touched,))


def _has_content(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except OSError:
        return False


def _is_deleted(path: str) -> bool:
    """Return whether nothing is there under this name. A link to a disk that is away is something."""
    above = path
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    return above != path and os.path.isdir(above)
