"""What the trainings of a plan change that count on from another's optimizer steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from marin.plan.missing import describe_fields, leaf_changes
from marin.steps.step import ExecutorStep
from marin.store.numbers import listed

# What differs between any two trainings of one run: where they begin and end, and what they read.
OWN = frozenset({"first_step", "end_step", "start", "data"})
NAMED = 3  # trainings
CHANGES = 4  # of one
REORDERED = {
    "seed": "it is shuffled anew",
    "seq_len": "it is cut anew",
    "shuffle": "it is shuffled anew",
}


@runtime_checkable
class GoesOn(Protocol):
    """A training that may count its optimizer steps on from another's."""

    first_step: int

    def goes_on_from(self) -> ExecutorStep[Any] | None: ...

    def lengths(self) -> dict[int, int]:
        """Tokens of a sequence, by the step from which on: of those that it goes on from, and its own."""
        ...


def what_forks_change(steps: Iterable[ExecutorStep[Any]]) -> list[str]:
    """A sentence for each change of a run in its middle; one for all trainings that make the same."""
    found: dict[tuple[str, str], list[str]] = {}
    for step in steps:
        if not isinstance(step, GoesOn) or (before := step.goes_on_from()) is None:
            continue
        if changed := changes_between(before, step):
            fields = {line.partition(":")[0] for line in changed}
            again = sorted({why for name, why in REORDERED.items() if name in fields})
            reads = f". Its text may come again before an epoch ends: {', '.join(again)}" if again else ""
            at = f"from {before.name} at step {step.first_step:,}"
            found.setdefault((at, f"{listed(changed, CHANGES)}{reads}"), []).append(step.name)
    return [
        f"{listed(names, NAMED)} {'goes' if len(names) == 1 else 'go'} on {at}, changed: {text}"
        for (at, text), names in found.items()
    ]


def changes_between(before: ExecutorStep[Any], step: ExecutorStep[Any]) -> list[str]:
    """``optimizer.max_grad_norm: 1.0 → 0.2`` for every field, those of OWN left out."""
    then, now = ({k: v for k, v in describe_fields(each).items() if k not in OWN} for each in (before, step))
    return [f"{place}: {_plain(old)} → {_plain(new)}" for place, old, new in leaf_changes("", then, now)]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())  # pyright: ignore
    return "none" if value is None else str(value)
