"""What a training of adapters (LoRA) cannot do, checked when it is built."""

from __future__ import annotations

from marin.errors import BadField
from marin.training.lora import LoRA, matrices
from marin.training.optimizer import Muon
from operators.start import Fork, OptimizerState, WarmStart
from operators.start_checks import Run

FORK = "start=Fork(…, optimizer_state=OptimizerState.FRESH)"


def must_adapt(run: Run, lora: LoRA, start: WarmStart | Fork | None) -> None:
    """Raises BadField for what a run with adapters cannot begin with, optimize with, or adapt."""
    called, optimizer = run.called(), run.optimizer
    if not isinstance(start, Fork):
        found = "this run begins with none" if start is None else "a WarmStart may leave some of them fresh"
        raise BadField(f"{called}: lora adapts the weights of another checkpoint, and {found}; begin with {FORK}")
    if start.optimizer_state is not OptimizerState.FRESH:
        raise BadField(
            f"{called}: optimizer_state is {start.optimizer_state.value!r}, which is of all weights, and lora trains "
            f"adapters only; begin with {FORK}"
        )
    if start.clip_history is not None:
        raise BadField(f"{called}: clip_history is of updates of all weights, and lora updates adapters; leave it out")
    if isinstance(optimizer, Muon):
        raise BadField(
            f"{called}: lora cannot be trained with Muon: Levanter's looks for weights in frozen matrices, too; take "
            "Adam or NAdamW"
        )
    if optimizer.ema is not None:
        raise BadField(
            f"{called}: optimizer.ema is {optimizer.ema}, and lora keeps no average of merged weights; give ema=None"
        )
    there = matrices(run.model)
    if unknown := [name for name in lora.modules if name not in there]:
        raise BadField(
            f"{called}: lora.modules names {', '.join(unknown)}, which no layer of {run.model.architecture.value} has; "
            f"it has {', '.join(there)}"
        )


def only_at_its_end(called: str, asked: str) -> BadField:
    """Return the error for a checkpoint on the way. asked: by what."""
    return BadField(
        f"{called}: {asked}, but a run with lora merges its adapters at its end only; take the run itself, or make one "
        "with an earlier end_step"
    )
