"""What a run begins with, where that is another run's checkpoint."""

from __future__ import annotations

from enum import Enum

from marin import Checkpoint, ExecutorStep, since, value

# As many update norms as the clip looks at; Adam's second moment at .95 is made of the last 60.
REPLAYED = 128


@value("fork_optimizer")
class OptimizerState(Enum):
    """What a run does with the optimizer state of the checkpoint that it begins with.

    KEPT: every array of it that this run's optimizer has, too: where a guard (clipping, skipping, the moving average)
    is switched on or off, the rest is kept and that guard begins anew. What was kept, fresh and left out is in
    warm_start.json, and in the log. REBUILT: made anew, moments and the guards' histories, from the ``replayed``
    batches before the first step, at a learning rate of 0, so that no weight moves.
    """

    _value_: str
    KEPT = "kept"
    FRESH = "fresh"
    REBUILT = "rebuilt"


@value("warm_start")
class WarmStart:
    """Begin with the weights of another architecture; what it lacks (QK-Norm) and the moving average are fresh.

    clip_history: checkpoint whose history of update norms the clip begins with, where the other one has none, or a
    bad one. replayed: batches that OptimizerState.REBUILT reads.
    """

    checkpoint: ExecutorStep[Checkpoint]
    optimizer_state: OptimizerState = since(2, default=OptimizerState.FRESH)
    clip_history: ExecutorStep[Checkpoint] | None = since(2, default=None)
    replayed: int = since(2, default=REPLAYED)


@value("fork")
class Fork:
    """Go on from a checkpoint of the same model; clip_history, replayed: see WarmStart."""

    checkpoint: ExecutorStep[Checkpoint]
    optimizer_state: OptimizerState = OptimizerState.KEPT
    clip_history: ExecutorStep[Checkpoint] | None = since(2, default=None)
    replayed: int = since(2, default=REPLAYED)
