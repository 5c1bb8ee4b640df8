"""Context: what a running step may touch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from marin.data.artifacts import Checkpoint
from marin.steps.artifact import Artifact
from marin.steps.step import ExecutorStep
from marin.store.files.directory import Directory


class Context(Protocol):
    """Handed to ``run()``. Inputs come by ``ctx[self.field]``; everything written goes below ``out``.

    out: this attempt's own directory; becomes the committed output.
    milestones: optimizer steps at which somebody waits for a checkpoint of this step, ascending.
    """

    out: Directory
    milestones: Sequence[int]

    @property
    def state(self) -> Directory:
        """Survives failed attempts of this step, for work in progress (training checkpoints); gone after the commit."""
        ...

    def __getitem__[A: Artifact](self, step: ExecutorStep[A]) -> A:
        """The committed artifact of a dependency. Raises KeyError for a step that is not one."""
        ...

    def map[T, R](self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """``[work(item) for item in items]``, spread over the cluster when there is one.

        work must be a top-level function; items and results must pickle.
        """
        ...

    def progress(self, done: float, total: float, unit: str, note: str = "") -> None:
        """Say how far the step is; shown live. Cheap: call it as often as you like."""
        ...

    def log(self, message: str) -> None:
        """One line into this attempt's log."""
        ...

    def publish(self, milestone: ExecutorStep[Checkpoint], artifact: Checkpoint, source: Directory) -> None:
        """Commit a milestone now, from the files below ``source``, while this step runs on."""
        ...
