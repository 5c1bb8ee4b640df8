"""What the trainings of a plan draw of each source, and the gates of it, before anything runs."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from marin.data.draw_table import DrawTable, draw_table, must_be_drawable
from marin.data.mixture import BatchSchedule, Stages
from marin.errors import StarvedSource, TooManyEpochs
from marin.plan.cost.plan_cost import Sizes
from marin.plan.decision import Action
from marin.plan.forks import GoesOn
from marin.plan.plan import Plan
from marin.steps.step import ExecutorStep


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
