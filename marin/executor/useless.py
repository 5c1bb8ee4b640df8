"""Find the steps that a failure makes useless: no result that can still be made needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from marin.steps.step import ExecutorStep

type Step = ExecutorStep[Any]


def useless(
    failed: Iterable[Step], todo: Iterable[Step], dependents: Mapping[Step, Sequence[Step]], results: Iterable[Step]
) -> set[Step]:
    """Return the steps of ``todo`` that only lead to steps that cannot be made, because they need a failed one.

    dependents: the steps of ``todo`` that read a step.
    """
    todo = set(todo)
    broken = _below(failed, lambda step: dependents.get(step, ()))
    needed = _below((step for step in results if step not in broken), lambda step: step.dependencies)
    return todo - broken - needed


def _below(roots: Iterable[Step], following: Callable[[Step], Iterable[Step]]) -> set[Step]:
    found, queue = set[Step](), list(roots)
    while queue:
        step = queue.pop()
        if step not in found:
            found.add(step)
            queue.extend(following(step))
    return found
