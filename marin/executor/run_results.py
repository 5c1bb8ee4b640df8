"""What became of each step of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from marin.plan.plan import Plan
from marin.steps.step import ExecutorStep
from marin.store.record import Record


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


@dataclass
class StepResult:
    """reason: why it ran, or why it did not. undecided: it failed because a person must say what to do about drift.
    wants: what it waits for while it is queued. error: why it failed, or was stopped with the run."""

    step: ExecutorStep[Any]
    status: Status
    reason: str
    record: Record | None = None
    seconds: float = 0.0
    error: str = ""
    log: str = ""
    undecided: bool = False
    wants: str = ""


@dataclass
class Run:
    """What happened. results: by step, in plan order."""

    plan: Plan
    results: dict[ExecutorStep[Any], StepResult] = field(default_factory=dict[ExecutorStep[Any], StepResult])
    seconds: float = 0.0

    def having(self, *statuses: Status) -> list[StepResult]:
        return [result for result in self.results.values() if result.status in statuses]


type Listener = Callable[[str, StepResult], None]
