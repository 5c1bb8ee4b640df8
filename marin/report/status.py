"""Where steps stand in a store, whoever works on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from marin.errors import CorruptRecord
from marin.report.run_history import QueuedStep, queued_steps
from marin.steps.step import ExecutorStep
from marin.store.attempts import Standing, parse_attempt
from marin.store.in_use import SHORT, Run, read_runs
from marin.store.inventory import Inventory
from marin.store.layout import FAILURE, LOG
from marin.store.lease import State
from marin.store.numbers import write_bytes, write_duration
from marin.store.record import parse_failure
from marin.store.store import Store


@dataclass(frozen=True, kw_only=True)
class StepStatus:
    step: str
    identity: str
    status: Standing
    detail: str  # who and since when, the error, or what is committed
    log: str = ""  # of the attempt that it is about; "" if none


def statuses(store: Store, steps: Iterable[ExecutorStep[Any]]) -> list[StepStatus]:
    """Of an experiment's steps, in their order: reads side by side."""
    every = list(steps)
    found = _Found(store, [step.identity for step in every], queued_steps(store))
    return [found.status(step.identity, step.name) for step in every]


def status_of(store: Store, identity: str) -> StepStatus:
    """Of one step, of which the store may know nothing."""
    found = _Found(store, [identity], queued_steps(store))
    return found.status(identity, found.name_of(identity))


def store_statuses(store: Store) -> list[StepStatus]:
    """Of everything in the store that runs, died or failed; what is well and committed is left to ``ls``."""
    queued = queued_steps(store)
    found = _Found(store, sorted({*store.leased(), *queued}), queued)
    rows = [found.status(identity, found.name_of(identity)) for identity in found.identities]
    failed = [row.identity for row in rows if row.status is Standing.FAILED]
    over = found.made_since(failed)
    with suppress(CorruptRecord):  # then nobody knows which are over
        over |= _left_out_since(store, failed) if failed else set[str]()
    return [row for row in rows if row.status not in (Standing.COMMITTED, Standing.ABSENT) and row.identity not in over]


def _left_out_since(store: Store, failed: list[str]) -> set[str]:
    """Those that the last run of their experiment, of all of it, did not need any more."""
    runs = sorted((run for run in read_runs(store) if run.needs.experiment), key=_moment)
    last = {run.needs.experiment: _moment(run) for run in runs if run.needs.whole}  # whole run, by experiment
    over: set[str] = set()
    for identity in failed:
        needed = [run for run in runs if identity[:SHORT] in run.needs.identities]
        if needed and all(last.get(run.needs.experiment, "") > _moment(needed[-1]) for run in needed):
            over.add(identity)
    return over


def _moment(run: Run) -> str:
    """When it began: names of runs begin with it."""
    return run.name.partition("-")[0]


class _Found:
    def __init__(self, store: Store, identities: list[str], queued: Mapping[str, QueuedStep]) -> None:
        self.identities, self.prefix, self.queued = identities, store.prefix, queued
        inventory = Inventory(store, identities, every_lease=True)
        self.records, self.leases, self.corrupt = inventory.records, inventory.leases, inventory.damage
        released = [
            f"{lease.attempt}/{FAILURE}"
            for identity, lease in self.leases.items()
            if lease.state is not State.HELD and identity not in self.records
        ]
        self.failures = store.objects.read_many(released)

    def name_of(self, identity: str) -> str:
        """What people call it; where only a lease tells, with the label as it is in paths."""
        if identity in self.records:
            return self.records[identity].name
        if identity in self.queued:
            return self.queued[identity].step
        attempt = parse_attempt(self.leases[identity].attempt) if identity in self.leases else None
        return attempt.name if attempt is not None else identity[:12]

    def made_since(self, failed: Iterable[str]) -> set[str]:
        """Those whose step (op/label) was tried later, under another identity: it was changed.

        Leases tell seconds; of two tries in one second the one that succeeded counts as the later.
        """
        tries = {each: (lease.since, each in self.records) for each, lease in self.leases.items()}
        latest: dict[str, tuple[str, bool]] = {}
        for identity, tried in tries.items():
            name = self.name_of(identity)
            latest[name] = max(latest.get(name, tried), tried)
        return {identity for identity in failed if tries[identity] < latest[self.name_of(identity)]}

    def status(self, identity: str, name: str) -> StepStatus:
        standing, detail, log = self._standing(identity)
        if identity in self.queued and standing not in (Standing.RUNNING, Standing.CORRUPT):
            standing, detail, log = Standing.QUEUED, self.queued[identity].detail, ""
        return StepStatus(step=name, identity=identity, status=standing, detail=detail, log=log)

    def _standing(self, identity: str) -> tuple[Standing, str, str]:
        lease, record = self.leases.get(identity), self.records.get(identity)
        log = "" if lease is None else f"{lease.attempt}/{LOG}"
        if identity in self.corrupt:
            return Standing.CORRUPT, self.corrupt[identity], log
        if lease is not None and lease.state is State.HELD:
            who = f"{lease.holder} since {lease.since}"
            if lease.holder.is_gone():
                return Standing.DEAD, f"{who}: its process is gone, the next run takes over", log
            return Standing.RUNNING, f"{who} {lease.progress}".rstrip(), log
        if record is not None:
            made = record.provenance
            took, size = write_duration(made.seconds), write_bytes(record.bytes)
            detail = f"{made.started} by {made.who}, {took}, {size}: {record.attempt}"
            return Standing.COMMITTED, detail, f"{record.attempt}/{LOG}"
        if lease is not None and (failure := self.failures.get(f"{lease.attempt}/{FAILURE}")) is not None:
            failed = parse_failure(failure, f"{self.prefix}/{lease.attempt}/{FAILURE}")
            return (Standing.STOPPED if failed.stopped else Standing.FAILED), failed.describe(), log
        return Standing.ABSENT, lease.collected if lease is not None and lease.collected else "never built", ""
