"""Begin a run with another run's checkpoint: Fork and WarmStart."""

from __future__ import annotations

from enum import Enum

from marin import Checkpoint, ExecutorStep, since, value

# The number of update norms that the clip looks at. Adam's second moment at .95 is made of the last 60.
REPLAYED = 128


@value("fork_optimizer")
class OptimizerState(Enum):
    """The treatment of the optimizer state of the checkpoint that a run begins with.

    KEPT: keep every array that this run's optimizer has too. If a guard (clipping, skipping, the moving average) is
    switched on or off, this guard starts fresh and the rest is kept. warm_start.json and the log list the arrays that
    were kept, started fresh or left out. REBUILT: rebuild the moments and the guards' histories from the ``replayed``
    batches before the first step, at a learning rate of 0, so that no weight moves.
    """

    _value_: str
    KEPT = "kept"
    FRESH = "fresh"
    REBUILT = "rebuilt"


@value("warm_start")
class WarmStart:
    """Begin with the weights of another architecture. Parts that it lacks (QK-Norm) and the moving average are fresh.

    clip_history: another checkpoint whose history of update norms the clip begins with, if ``checkpoint`` has no
    history or a bad one. replayed: batches that OptimizerState.REBUILT reads.
    """

    checkpoint: ExecutorStep[Checkpoint]
    optimizer_state: OptimizerState = since(2, default=OptimizerState.FRESH)
    clip_history: ExecutorStep[Checkpoint] | None = since(2, default=None)
    replayed: int = since(2, default=REPLAYED)


@value("fork")
class Fork:
    """Continue from a checkpoint of the same model. clip_history, replayed: see WarmStart."""

    checkpoint: ExecutorStep[Checkpoint]
    optimizer_state: OptimizerState = OptimizerState.KEPT
    clip_history: ExecutorStep[Checkpoint] | None = since(2, default=None)
    replayed: int = since(2, default=REPLAYED)
