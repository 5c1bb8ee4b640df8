"""The interface of backends, the places where attempts run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from marin.executor.job import Job, Outcome
from marin.steps.step import ExecutorStep

# Hears that a job waits for a worker, with the resources that it waits for ("2 CPU"), and with "" that an attempt at it
# has started. An attempt may end before anybody sees that it started.
type Watcher = Callable[[Job, str], None]


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
