"""Results of the steps of a run."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from marin.plan.decision import Action
from marin.plan.plan import Plan
from marin.steps.step import ExecutorStep
from marin.store.record import Record

RETRIES = 3  # of a step whose processes died or stood still, in a row that begin no further on


class Status(StrEnum):
    CACHED = "cached"
    ALIAS = "alias"
    RAN = "ran"
    FAILED = "failed"
    SKIPPED = "skipped"
    STOPPED = "stopped"
    NOT_NEEDED = "absent"
    WAITING = "waiting"
    RUNNING = "running"


class Event(StrEnum):
    """An event of a step during a run, as the run's events in the store name it."""

    QUEUED = "queued"  # sent to the backend, which has no worker for it yet
    STARTED = "started"
    HELD = "held"  # another driver makes it
    ENDED = "ended"
    PREEMPTED = "preempted"  # its worker was told to stop; it is sent again
    RETRIED = "retried"  # one of its processes died or stood still; it is sent again
    STOPPED = "stopped"  # stopped with the run


class StepResult(Struct):
    step: ExecutorStep[Any]
    status: Status
    reason: str  # why it ran, or why it did not
    record: Record | None = None
    seconds: float = 0.0
    error: str = ""  # why it failed, or was stopped with the run
    log: str = ""  # of the attempt
    undecided: bool = False  # whether it failed because a person must decide about drift
    wants: str = ""  # resources that it waits for while it is queued
    losses: int = 0  # attempts in a row that were lost and began no further on than the ones before
    furthest: float = -1.0  # where the furthest lost attempt began, in the step's own unit

    def may_begin_again(self, began_at: float) -> bool:
        """Count an attempt that lost a process. Return whether to try again, which is as long as it makes progress.

        Preemptions do not count: nobody caused them, and they cost only time.
        """
        self.losses = 1 if began_at > self.furthest else self.losses + 1
        self.furthest = max(self.furthest, began_at)
        return self.losses <= RETRIES


class Run(Struct):
    plan: Plan
    results: dict[ExecutorStep[Any], StepResult] = field(
        default_factory=dict[ExecutorStep[Any], StepResult]
    )  # in order
    seconds: float = 0.0
    dashboard: str = ""  # of the Ray cluster, if the cluster outlives the run

    def begin(self) -> dict[ExecutorStep[Any], Action]:
        """Add a result for each step, in the plan's order. Return the steps that the plan has not settled."""
        todo: dict[ExecutorStep[Any], Action] = {}
        for decision in self.plan.decisions:
            status = Status.NOT_NEEDED if decision.action is Action.NOT_NEEDED else Status.CACHED
            if decision.action in (Action.RUN, Action.RECHECK, Action.ALIAS):
                todo[decision.step] = decision.action
                status = Status.WAITING
            self.results[decision.step] = StepResult(decision.step, status, decision.reason, decision.record)
        return todo

    def having(self, *statuses: Status) -> list[StepResult]:
        return [result for result in self.results.values() if result.status in statuses]


type Listener = Callable[[Event, StepResult], None]
