"""A backend that runs one attempt at a time in this process: for notebooks and tests, whose objects live only here."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from marin.errors import PlanError
from marin.executor.attempt import attempt
from marin.executor.backends.backend import Watcher
from marin.executor.context import Told
from marin.executor.job import Job, Outcome
from marin.executor.log_capture import clean_output
from marin.steps.step import ExecutorStep


class InlineBackend:
    """Runs attempts here, isolated steps included. It ignores resources, but refuses accelerators."""

    def __init__(self) -> None:
        self.queue: deque[Job] = deque()

    def start(self, steps: list[ExecutorStep[Any]], watcher: Watcher) -> None:
        must_need_no_chips(steps)
        self.watch = watcher

    def submit(self, job: Job) -> None:
        self.queue.append(job)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        if not self.queue:
            time.sleep(seconds)
            return []
        job = self.queue.popleft()
        self.watch(job, "")
        with clean_output():
            return [(job, attempt(job, map_here))]

    def stop(self) -> None:
        self.queue.clear()


def must_need_no_chips(steps: Iterable[ExecutorStep[Any]]) -> None:
    """Raise PlanError naming the first step that asks for an accelerator."""
    for step in steps:
        if (accelerator := step.resources.accelerator) is not None:
            raise PlanError(
                f"{step.name} asks for {accelerator}, and --backend inline has no chips: it would run on CPUs here. "
                "Leave --backend inline out and give the --address of a Ray cluster that has them, or run with "
                "--scale rehearsal"
            )


def map_here(work: Callable[[Any], Any], items: Sequence[Any], told: Told) -> list[Any]:
    found: list[Any] = []
    for at, item in enumerate(items):
        found.append(work(item))
        told(at, found[-1])
    return found
