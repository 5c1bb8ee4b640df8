"""What every place where attempts run can do."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from marin.executor.job import Job, Outcome
from marin.steps.step import ExecutorStep


class BackendName(StrEnum):
    RAY = "ray"
    INLINE = "inline"


class Watcher(Protocol):
    """Is told how far jobs are."""

    def queued(self, job: Job, wants: str) -> None:
        """It waits for a worker. wants: for what (``2 CPU``)."""
        ...

    def began(self, job: Job) -> None:
        """An attempt at it has started. Not told of those that ended before anybody looked."""
        ...


class Backend(Protocol):
    """Started only when something must run."""

    def start(
        self,
        steps: list[ExecutorStep[object]],  # pyright: ignore[reportInvalidTypeArguments]
        watcher: Watcher,
    ) -> None:
        """Get ready to run these. Raises PlanError if the machine can never give what a step asks for."""
        ...

    def submit(self, job: Job) -> None: ...

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """What ended, waiting at most this long for the first. Raises ClusterLost."""
        ...

    def stop(self) -> None:
        """End what still runs and give everything back."""
        ...
