"""Write the output of a run with adapters: a plain checkpoint of the model with the adapters merged in."""

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
    """The saved part of a model that is not trained further: its weights."""

    saveable_state: dict[str, Any]


def save_merged(spec: TrainingSpec, initial: InitialState, emit: Emit) -> None:
    """Merge the adapters of the run's last checkpoint, unless a complete merged checkpoint is there.

    The result depends on the last checkpoint and the start only. emit receives "checkpoint" once the merged checkpoint
    is complete.
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
