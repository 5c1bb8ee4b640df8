"""Notes on trainings before anything runs: the draws of each from its sources, their gates, and the changes to a
training that another one continues."""

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

# Fields that differ between any two trainings of one run: first and last step, and the data.
OWN = frozenset({"first_step", "end_step", "start", "data"})
NAMED = 3  # trainings
CHANGES = 4  # of one training
REORDERED = {
    "seed": "the shuffle is new",
    "seq_len": "the cut into sequences is new",
    "shuffle": "the shuffle is new",
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
        """Return tokens of a sequence by first step: of the trainings that it continues, then its own."""
        ...


def draws_of(step: ExecutorStep[Any], sizes: Sizes) -> DrawTable[ExecutorStep[Any]] | None:
    """Return the draws of a training. None for another step, or if shares are not known yet.

    Raises StarvedSource for a source that is shorter than a sequence.
    """
    return _table(step, sizes, certain=False) if isinstance(step, DrawsBatches) else None


def check_draws(step: ExecutorStep[Any], sizes: Sizes) -> None:
    """Apply the run's own gates, as far as they are certain now. A guess from bytes of text refuses nothing.

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
    """Apply ``check_draws`` to every training that would run."""
    for decision in plan.having(Action.RUN):
        check_draws(decision.step, sizes)


def _table(step: Any, sizes: Sizes, *, certain: bool) -> DrawTable[ExecutorStep[Any]] | None:
    known = {source: count for source in step.data.sources if (count := sizes.tokens(source)) is not None}
    counted = {source: count for source, count in known.items() if not (certain and source in sizes.guessed)}
    if step.data.reports or not counted.keys() >= step.data.counted:
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
    """Return a sentence for each change in the middle of a run. Trainings with the same change share a sentence."""
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
    """Return ``optimizer.max_grad_norm: 1.0 → 0.2`` for every changed field, without the fields in OWN."""
    then, now = ({k: v for k, v in describe_fields(each).items() if k not in OWN} for each in (before, step))
    return [f"{place}: {_plain(old)} → {_plain(new)}" for place, old, new in leaf_changes("", then, now)]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())  # pyright: ignore
    return "none" if value is None else str(value)
