"""What a training that begins with another's checkpoint must agree with, checked when it is built."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from marin import BatchSchedule, Stages
from marin.errors import BadField
from marin.training.lora import LoRA
from marin.training.model import ModelShape
from marin.training.optimizer import Optimizer
from operators.pretrained_model import FolderModel, PretrainedModel, is_its_tokenizer
from operators.start import Fork, OptimizerState, WarmStart


class Run(Protocol):
    """What is looked at of a training."""

    @property
    def model(self) -> ModelShape: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def data(self) -> Stages[Any]: ...
    @property
    def batch(self) -> BatchSchedule: ...
    @property
    def block(self) -> int: ...
    @property
    def first_step(self) -> int: ...
    @property
    def optimizer(self) -> Optimizer: ...
    @property
    def lora(self) -> LoRA | None: ...
    def called(self) -> str: ...


def must_read_on(run: Run, before: Run) -> None:
    """It reads on where the run stood that it goes on from. Raises BadField where that drew other things before."""
    first = run.first_step
    for name, written in (("data", "Stages"), ("batch", "BatchSchedule")):
        theirs, ours = (
            {at: held for at, held in getattr(each, name).at.items() if at < first} for each in (before, run)
        )
        if theirs != ours:
            raise BadField(
                f"{run.called()}: goes on from step {first:,} of {before.called()}, but its {name} says other things "
                "about the steps until there, so that it would leave out text or read it twice; keep them and change "
                f"it from step {first:,} on: {name}={written}({{**before.{name}.at, {first}: …}})"
            )
    if run.block != before.block:
        raise BadField(
            f"{run.called()}: block is {run.block}, and {before.block} in {before.called()}, from which it goes on; "
            "wanted the same, or it would leave out text or read it twice"
        )


def must_have_histories(run: Run, start: WarmStart | Fork, training: Run | None) -> None:
    """What the clip and the moments are seeded with is there to be read. training: of start.clip_history, where it is
    one of ours. Raises BadField."""
    if start.optimizer_state is OptimizerState.REBUILT and not 0 < start.replayed <= run.first_step:
        raise BadField(
            f"{run.called()}: OptimizerState.REBUILT with replayed={start.replayed}; wanted 1 to {run.first_step}, as "
            "many batches as there are before its first step"
        )
    if (source := start.clip_history) is None:
        return
    if training is not None and training.lora is not None:
        raise BadField(
            f"{run.called()}: clip_history: {source.name} trains adapters (LoRA), and its output has no history of "
            "update norms; take another checkpoint, or leave clip_history out"
        )
    ours = run.optimizer.clip_update_norm
    theirs = training.optimizer.clip_update_norm if training is not None else ours
    if ours is None or theirs is None or ours.window != theirs.window:
        there = f"clip_update_norm is {theirs} in {source.name}, and {ours} here"
        raise BadField(f"{run.called()}: clip_history: {there}; wanted a clip in both, of one window")


def must_suit_published(run: Run, start: WarmStart | Fork, model: PretrainedModel | FolderModel) -> None:
    """Raises BadField where a training begins with a published model in a way that cannot work."""
    if start.optimizer_state is not OptimizerState.FRESH:
        raise BadField(
            f"{run.called()}: {model.name} has weights and no optimizer state; begin with "
            "optimizer_state=OptimizerState.FRESH"
        )
    if run.first_step:
        raise BadField(
            f"{run.called()}: begins at step {run.first_step:,}, and {model.name} does not know its steps; wanted "
            "first_step=0, so that the schedule counts from here"
        )
    if isinstance(start, Fork) and model.shape is not None and not run.model.takes_weights_of(model.shape):
        raise BadField(f"{run.called()}: its model is not that of {model.name}; give model={model.name}.shape")
    if model.vocabulary is not None and model.vocabulary != run.vocabulary:
        raise BadField(
            f"{run.called()}: vocabulary is {run.vocabulary:,}, and the embedding of {model.name} has "
            f"{model.vocabulary:,} rows; wanted the same"
        )
    for source in run.data.sources:
        tokenizer = getattr(source, "tokenizer", None)
        if tokenizer is not None and not is_its_tokenizer(model, tokenizer):
            raise BadField(
                f"{run.called()}: {source.name} is made by {tokenizer.name}, which is not the tokenizer of "
                f"{model.name}; tokenize with its own (the model's .tokenizer)"
            )


def must_suit_run(run: Run, start: WarmStart | Fork, training: Run) -> None:
    """training: of start.checkpoint. Raises BadField where the run cannot begin with what it leaves."""
    theirs = training.model
    if isinstance(start, WarmStart):
        theirs = replace(theirs, architecture=run.model.architecture)
    if not run.model.takes_weights_of(theirs):
        remedy = "use WarmStart" if isinstance(start, Fork) else "a warm start needs the same sizes"
        raise BadField(f"{run.called()}: its model is not that of {training.called()}; {remedy}")
    if training.vocabulary != run.vocabulary:
        raise BadField(f"{run.called()}: vocabulary {run.vocabulary}, but it begins from one of {training.vocabulary}")
    if training.lora is not None and start.optimizer_state is OptimizerState.KEPT:
        raise BadField(
            f"{run.called()}: {training.called()} trains adapters (LoRA), and its output has no optimizer state; begin "
            "with OptimizerState.FRESH or OptimizerState.REBUILT"
        )
