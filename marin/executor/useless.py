"""Find the steps that a failure makes useless: no result that can still be made needs them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from marin.plan.plan import Plan
from marin.steps.step import ExecutorStep


def useless(plan: Plan, todo: Container[ExecutorStep[Any]], failed: ExecutorStep[Any]) -> list[ExecutorStep[Any]]:
    """Return the steps that only lead to steps of ``todo`` that cannot be made, because they need the failed one."""
    steps = [decision.step for decision in plan.decisions]  # dependencies first
    broken = {failed}
    for step in steps:
        if step in todo and not broken.isdisjoint(step.dependencies):
            broken.add(step)
    needed = {step for step in plan.experiment.results.values() if step not in broken}
    for step in reversed(steps):
        if step in needed:
            needed.update(step.dependencies)
    return [step for step in steps if step not in needed and step not in broken]
