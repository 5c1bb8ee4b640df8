"""The scheduler: carries out a plan, in dependency order, sparing what a failure does not touch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from marin.attempt import Ending, Job, Outcome
from marin.backends import Backend
from marin.lease import Watch, read_lease
from marin.plan import Action, Plan
from marin.record import Record
from marin.step import ExecutorStep

POLL_SECONDS = 0.2
HELD_POLL_SECONDS = 1.0


class Status(StrEnum):
    CACHED = "cached"
    RAN = "ran"
    FAILED = "failed"
    SKIPPED = "skipped"
    ABSENT = "absent"
    WAITING = "waiting"
    RUNNING = "running"


@dataclass
class StepResult:
    """reason: why it ran, or why it did not."""

    step: ExecutorStep[Any]
    status: Status
    reason: str
    record: Record | None = None
    seconds: float = 0.0
    error: str = ""
    log: str = ""


@dataclass
class Run:
    """What happened. results: by step, in plan order."""

    plan: Plan
    results: dict[ExecutorStep[Any], StepResult] = field(default_factory=dict[ExecutorStep[Any], StepResult])
    seconds: float = 0.0

    def having(self, *statuses: Status) -> list[StepResult]:
        return [result for result in self.results.values() if result.status in statuses]


type Listener = Callable[[str, StepResult], None]


class Scheduler:
    """listener(event, result) is told of every change: started, held, ended."""

    def __init__(self, plan: Plan, backend: Backend, listener: Listener, experiment: str = "", git: str = "") -> None:
        self.plan, self.backend, self.listener = plan, backend, listener
        self.experiment, self.git = experiment, git
        self.store = plan.store
        self.watch = Watch()
        self.run = Run(plan)
        self.held: dict[ExecutorStep[Any], tuple[Job, float]] = {}
        self.todo: dict[ExecutorStep[Any], Action] = {}

    def execute(self) -> Run:
        """Run everything that must run. Returns also when steps failed: see the results."""
        began = time.monotonic()
        for decision in self.plan.decisions:
            status = Status.ABSENT if decision.action is Action.ABSENT else Status.CACHED
            if decision.action in (Action.RUN, Action.RECHECK):
                self.todo[decision.step] = decision.action
                status = Status.WAITING
            self.run.results[decision.step] = StepResult(decision.step, status, decision.reason, decision.record)
        if self.todo:
            self._keep_code()
            try:
                self.backend.start(list(self.todo))
                self._loop()
            finally:
                self.backend.stop()
        self.run.seconds = time.monotonic() - began
        return self.run

    def _keep_code(self) -> None:
        for code in {today.code.digest: today.code for today in self.plan.today.values()}.values():
            self.store.keep_code(code.digest, code.to_json(sources=True))

    def _loop(self) -> None:
        while any(self._unfinished(step) for step in self.todo):
            for step in list(self.todo):
                if self.run.results[step].status is Status.WAITING and step not in self.held:
                    self._consider(step)
            self._look_at_held()
            for job, outcome in self.backend.wait(POLL_SECONDS):
                self._ended(job, outcome)

    def _unfinished(self, step: ExecutorStep[Any]) -> bool:
        return self.run.results[step].status in (Status.WAITING, Status.RUNNING)

    def _consider(self, step: ExecutorStep[Any]) -> None:
        """Start it, settle it, or leave it waiting."""
        producer = step.producer
        if producer is not None and producer in self.todo and self._unfinished(producer):
            self._adopt_published(step)
            return
        needs = [self.run.results[dep] for dep in step.dependencies]
        broken = next((need for need in needs if need.status in (Status.FAILED, Status.SKIPPED)), None)
        if producer is not None and self._adopt_published(step):
            return
        if broken is not None:
            cause = broken.reason if broken.status is Status.SKIPPED else f"{broken.step.name} failed"
            self._settle(step, Status.SKIPPED, cause)
            return
        if any(need.status in (Status.WAITING, Status.RUNNING) for need in needs):
            return
        result = self.run.results[step]
        if (
            self.todo[step] is Action.RECHECK
            and result.record is not None
            and self._inputs_unchanged(step, result.record)
        ):
            self._settle(step, Status.CACHED, "its inputs were made again with the same bytes")
            return
        if self.todo[step] is Action.RECHECK:
            result.reason = "an input has other bytes now"
        result.status = Status.RUNNING
        self.listener("started", result)
        self.backend.submit(self._job(step))

    def _inputs_unchanged(self, step: ExecutorStep[Any], record: Record) -> bool:
        roots = {dep.identity: held.root for dep in step.dependencies if (held := self.run.results[dep].record)}
        return all(roots.get(held.identity) == held.root for held in record.inputs)

    def _adopt_published(self, step: ExecutorStep[Any]) -> bool:
        """A milestone may have been committed by its producer meanwhile."""
        old = self.plan.of(step).record
        record = self.store.record(step.identity)
        if record is None or (old is not None and old.attempt == record.attempt):
            return False
        self.run.results[step].record = record
        self.run.results[step].seconds = record.provenance.seconds
        self._settle(step, Status.RAN, "published by its training run")
        return True

    def _job(self, step: ExecutorStep[Any]) -> Job:
        records = {dep.identity: held for dep in step.dependencies if (held := self.run.results[dep].record)}
        milestones = {
            getattr(other, "step"): self._described(other, records)
            for other in self.todo
            if other.producer == step and self._unfinished(other)
        }
        return replace(self._described(step, records), milestones=milestones)

    def _described(self, step: ExecutorStep[Any], inputs: dict[str, Record]) -> Job:
        """A milestone's inputs are its training run's: what its bytes were made from."""
        today, decision = self.plan.today[step], self.plan.of(step)
        return Job(
            prefix=self.store.prefix,
            step=step,
            code=today.code.digest,
            packages=dict(today.code.packages),
            outside=today.outside,
            inputs=inputs,
            replaces=decision.record.attempt if decision.record is not None else "",
            experiment=self.experiment,
            git=self.git,
        )

    def _look_at_held(self) -> None:
        for step, (job, next_look) in list(self.held.items()):
            if time.monotonic() < next_look:
                continue
            lease = read_lease(self.store.objects, step.identity)
            if lease is not None and lease.state == "held" and not self.watch.is_dead(step.identity, lease):
                self.held[step] = (job, time.monotonic() + HELD_POLL_SECONDS)
                continue
            del self.held[step]
            dead = (lease.token, lease.beat) if lease is not None and lease.state == "held" else None
            self.run.results[step].status = Status.RUNNING
            self.backend.submit(replace(job, presumed_dead=dead))

    def _ended(self, job: Job, outcome: Outcome) -> None:
        result = self.run.results[job.step]
        if outcome.ending is Ending.HELD:
            result.status, result.reason = Status.WAITING, outcome.held_by
            self.held[job.step] = (job, time.monotonic() + HELD_POLL_SECONDS)
            self.listener("held", result)
            return
        result.seconds, result.log = outcome.seconds, outcome.log
        if outcome.ending is Ending.FAILED:
            result.error = outcome.error
            self._settle(job.step, Status.FAILED, result.reason)
            return
        result.record = outcome.record
        if outcome.ending is Ending.CACHED:
            self._settle(job.step, Status.CACHED, "another driver made it meanwhile")
        else:
            self._settle(job.step, Status.RAN, result.reason)

    def _settle(self, step: ExecutorStep[Any], status: Status, reason: str) -> None:
        result = self.run.results[step]
        result.status, result.reason = status, reason
        self.listener("ended", result)
