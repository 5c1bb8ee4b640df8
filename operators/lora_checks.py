"""Check a training of adapters (LoRA) when it is built."""

from __future__ import annotations

from marin.errors import BadField
from marin.training.lora import LoRA, matrices
from marin.training.optimizer import Muon
from operators.start import Fork, OptimizerState, WarmStart
from operators.start_checks import Run

FORK = "start=Fork(…, optimizer_state=OptimizerState.FRESH)"


def must_adapt(run: Run, lora: LoRA, start: WarmStart | Fork | None) -> None:
    """Check the start, the optimizer and the modules of a run with adapters. Raises BadField."""
    called, optimizer = run.called(), run.optimizer
    if not isinstance(start, Fork):
        found = "this run begins with none" if start is None else "a WarmStart may leave some of them fresh"
        raise BadField(f"{called}: lora adapts the weights of another checkpoint, and {found}; begin with {FORK}")
    if start.optimizer_state is not OptimizerState.FRESH:
        raise BadField(
            f"{called}: optimizer_state is {start.optimizer_state.value!r}, a state of all weights, but lora trains "
            f"adapters only; begin with {FORK}"
        )
    if start.clip_history is not None:
        raise BadField(f"{called}: clip_history holds updates of all weights, but lora updates adapters; leave it out")
    if isinstance(optimizer, Muon):
        raise BadField(
            f"{called}: lora cannot be trained with Muon, because Levanter's Muon also looks for weights in frozen "
            "matrices; take Adam or NAdamW"
        )
    if optimizer.ema is not None:
        raise BadField(
            f"{called}: optimizer.ema is {optimizer.ema}, but lora keeps no average of merged weights; give ema=None"
        )
    there = matrices(run.model)
    if unknown := [name for name in lora.modules if name not in there]:
        raise BadField(
            f"{called}: lora.modules names {', '.join(unknown)}, which no layer of {run.model.architecture.value} has; "
            f"it has {', '.join(there)}"
        )


def only_at_its_end(called: str, asked: str) -> BadField:
    """Return the error for a checkpoint in the middle of a run. asked: the field that asks for the checkpoint."""
    return BadField(
        f"{called}: {asked}, but a run with lora merges its adapters only at its end; take the run itself, or make one "
        "with an earlier end_step"
    )
