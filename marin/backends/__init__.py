"""Where attempts run: in this process, or on a Ray cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from marin.job import Job, Outcome
from marin.step import ExecutorStep


class BackendName(StrEnum):
    RAY = "ray"
    INLINE = "inline"


class Backend(Protocol):
    """Started only when something must run."""

    def start(self, steps: list[ExecutorStep[object]]) -> None:  # pyright: ignore[reportInvalidTypeArguments]
        """Get ready to run these. Raises PlanError if the machine can never give what a step asks for."""
        ...

    def submit(self, job: Job) -> None: ...

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """What ended, waiting at most this long for the first."""
        ...

    def stop(self) -> None:
        """End what still runs and give everything back."""
        ...
