"""Check when a training is built that it agrees with the checkpoint that it begins with."""

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
    """The properties of a training that the checks read."""

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
    """Check that a run reads on where the run before it stopped. Raises BadField if their earlier data differ."""
    first = run.first_step
    for name, written in (("data", "Stages"), ("batch", "BatchSchedule")):
        theirs, ours = (
            {at: held for at, held in getattr(each, name).at.items() if at < first} for each in (before, run)
        )
        if theirs != ours:
            raise BadField(
                f"{run.called()}: continues from step {first:,} of {before.called()}, but its {name} differs before "
                "that step, so it would leave out text or read it twice. Keep the earlier steps and change "
                f"{name} from step {first:,} on: {name}={written}({{**before.{name}.at, {first}: …}})"
            )
    if run.block != before.block:
        raise BadField(
            f"{run.called()}: block is {run.block}, but {before.block} in {before.called()}, from which it continues; "
            "wanted the same block, because with another one it would leave out text or read it twice"
        )


def must_have_histories(run: Run, start: WarmStart | Fork, training: Run | None) -> None:
    """Check that the histories with which the clip and the moments begin exist.

    training: the training of start.clip_history, if it is a step. Raises BadField.
    """
    if start.optimizer_state is OptimizerState.REBUILT and not 0 < start.replayed <= run.first_step:
        raise BadField(
            f"{run.called()}: OptimizerState.REBUILT with replayed={start.replayed}; wanted 1 to {run.first_step}, the "
            "number of batches before its first step"
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
        raise BadField(f"{run.called()}: clip_history: {there}; wanted a clip in both, with the same window")


def must_suit_published(run: Run, start: WarmStart | Fork, model: PretrainedModel | FolderModel) -> None:
    """Check that a training can begin with a published model. Raises BadField."""
    if start.optimizer_state is not OptimizerState.FRESH:
        raise BadField(
            f"{run.called()}: {model.name} has weights and no optimizer state; begin with "
            "optimizer_state=OptimizerState.FRESH"
        )
    if run.first_step:
        raise BadField(
            f"{run.called()}: begins at step {run.first_step:,}, but {model.name} does not know its steps; wanted "
            "first_step=0, so that the schedule counts from here"
        )
    if isinstance(start, Fork) and model.shape is not None and not run.model.takes_weights_of(model.shape):
        raise BadField(f"{run.called()}: its model differs from {model.name}; give model={model.name}.shape")
    if model.vocabulary is not None and model.vocabulary != run.vocabulary:
        raise BadField(
            f"{run.called()}: vocabulary is {run.vocabulary:,}, but the embedding of {model.name} has "
            f"{model.vocabulary:,} rows; wanted the same number"
        )
    for source in run.data.sources:
        tokenizer = getattr(source, "tokenizer", None)
        if tokenizer is not None and not is_its_tokenizer(model, tokenizer):
            raise BadField(
                f"{run.called()}: {source.name} is made by {tokenizer.name}, which is not the tokenizer of "
                f"{model.name}; tokenize with its own (the model's .tokenizer)"
            )


def must_suit_run(run: Run, start: WarmStart | Fork, training: Run) -> None:
    """Check that a run can begin with the checkpoint of another training. training: the training of start.checkpoint.

    Raises BadField.
    """
    theirs = training.model
    if isinstance(start, WarmStart):
        theirs = replace(theirs, architecture=run.model.architecture)
    if not run.model.takes_weights_of(theirs):
        remedy = "use WarmStart" if isinstance(start, Fork) else "a warm start needs the same sizes"
        raise BadField(f"{run.called()}: its model differs from the model of {training.called()}; {remedy}")
    if training.vocabulary != run.vocabulary:
        raise BadField(f"{run.called()}: vocabulary is {run.vocabulary}, but its start has {training.vocabulary}")
    if training.lora is not None and start.optimizer_state is OptimizerState.KEPT:
        raise BadField(
            f"{run.called()}: {training.called()} trains adapters (LoRA), and its output has no optimizer state; begin "
            "with OptimizerState.FRESH or OptimizerState.REBUILT"
        )
