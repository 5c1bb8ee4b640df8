"""The output of a run with adapters: a checkpoint of the model that they are merged into, as any other reads it."""

# pyright: basic
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.initial_state import InitialState
from marin.training.saving import Emit, Saving
from marin.training.spec import TrainingSpec


@dataclass(frozen=True)
class _Weights:
    """All that is saved of a model that is not trained on."""

    saveable_state: dict[str, Any]


def save_merged(spec: TrainingSpec, initial: InitialState, emit: Emit) -> None:
    """Merge the adapters of the run's last checkpoint, unless that has been done. A function of that and of the start.

    emit is told "checkpoint" once it is complete.
    """
    state = Directory(spec.state)
    last = checkpoint.step_directory(state / checkpoint.RESUMABLE, spec.end_step)
    saving = Saving(state / checkpoint.MERGED, (), emit)
    saving.remove_half_written()
    if spec.end_step in saving.complete_steps():
        return
    model = initial.merged(last)
    logs = {name: last.read_text(name) for name in (checkpoint.METRICS, checkpoint.SAMPLES) if last.exists(name)}
    saving.begin(_Weights({"model": model}), checkpoint.read_facts(last), logs)
    saving.finish()
