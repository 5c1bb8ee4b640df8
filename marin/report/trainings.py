"""What trainings draw of each source, with the gates of it, and what they change of the one that they go on from: told
before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from marin.data.draw_table import DrawTable, draw_table, must_be_drawable
from marin.data.mixture import BatchSchedule, Stages
from marin.errors import StarvedSource, TooManyEpochs
from marin.plan.cost.plan_cost import Sizes
from marin.plan.decision import Action
from marin.plan.missing import describe_fields, leaf_changes
from marin.plan.plan import Plan
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
class DrawsBatches(Protocol):
    """A step that draws its batches from stages of token stores, within bounds."""

    first_step: int
    end_step: int
    batch: BatchSchedule
    data: Stages[Any]
    seq_len: int
    block: int
    max_epochs: float
    allow_starved: tuple[str, ...]


@runtime_checkable
class GoesOn(Protocol):
    """A training that may count its optimizer steps on from another's."""

    first_step: int

    def goes_on_from(self) -> ExecutorStep[Any] | None: ...

    def lengths(self) -> dict[int, int]:
        """Tokens of a sequence, by the step from which on: of those that it goes on from, and its own."""
        ...


def draws_of(step: ExecutorStep[Any], sizes: Sizes) -> DrawTable[ExecutorStep[Any]] | None:
    """What a training draws; None for a step that is none, or whose shares go by tokens that nobody knows yet.

    Raises StarvedSource for a source that is shorter than a sequence.
    """
    return _table(step, sizes, certain=False) if isinstance(step, DrawsBatches) else None


def check_draws(step: ExecutorStep[Any], sizes: Sizes) -> None:
    """The run's own gates, as far as they are certain now: what is a guess from bytes of text refuses nothing.

    Raises StarvedSource or TooManyEpochs, naming the training.
    """
    if not isinstance(step, DrawsBatches):
        return
    try:
        table = _table(step, sizes, certain=True)
        if table is not None:
            must_be_drawable(table, end=step.end_step, max_epochs=step.max_epochs, allow_starved=step.allow_starved)
    except (StarvedSource, TooManyEpochs) as error:
        raise type(error)(f"{step.name}: {error}") from error


def must_not_starve(plan: Plan, sizes: Sizes) -> None:
    """``check_draws`` for every training that would run."""
    for decision in plan.having(Action.RUN):
        check_draws(decision.step, sizes)


def _table(step: Any, sizes: Sizes, *, certain: bool) -> DrawTable[ExecutorStep[Any]] | None:
    known = {source: count for source in step.data.sources if (count := sizes.tokens(source)) is not None}
    counted = {source: count for source, count in known.items() if not (certain and source in sizes.guessed)}
    if not counted.keys() >= step.data.counted:
        return None
    return draw_table(
        step.data,
        step.batch,
        block=step.block,
        seq_len=step.seq_len,
        first=step.first_step,
        end=step.end_step,
        tokens=counted,
        lengths=step.lengths() if isinstance(step, GoesOn) else None,
    )


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
