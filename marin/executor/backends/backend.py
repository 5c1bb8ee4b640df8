"""The interface of backends, the places where attempts run."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

from marin.executor.job import Job, Outcome
from marin.steps.step import ExecutorStep


class BackendName(StrEnum):
    RAY = "ray"
    INLINE = "inline"


class Watcher(Protocol):
    """A listener for the progress of jobs."""

    def queued(self, job: Job, wants: str) -> None:
        """The job waits for a worker. wants: resources that it waits for (``2 CPU``)."""
        ...

    def began(self, job: Job) -> None:
        """An attempt at the job has started. An attempt may end before anybody sees that it started."""
        ...


class Backend(Protocol):
    """A place where attempts run. It is started only when a step must run."""

    def start(self, steps: list[ExecutorStep[Any]], watcher: Watcher) -> None:
        """Get ready to run these steps. Raises PlanError if the machine can never provide a step's resources."""
        ...

    def submit(self, job: Job) -> None: ...

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Return the jobs that ended, waiting at most this long for the first. Raises ClusterLost."""
        ...

    def stop(self) -> None:
        """Stop the running attempts and release everything."""
        ...
