"""Rebuild an optimizer's state from data: moments and histories, while the weights stay fixed."""

# pyright: basic
from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
from levanter.trainer_state import TrainerState

from marin.training.levanter_optimizer import build_optimizer, with_count
from marin.training.schedule import Decay, Schedule
from marin.training.spec import TrainingSpec

STILL = Schedule(decay=Decay(0, 1))  # from step 1 on, a rate of 0


def replayed(spec: TrainingSpec) -> TrainingSpec:
    """Return the run that reads the last ``spec.start.rebuild`` batches before the first step again, without gates."""
    assert spec.start is not None
    return dataclasses.replace(
        spec,
        first_step=spec.first_step - spec.start.rebuild,
        end_step=spec.first_step,
        max_epochs=float("inf"),
        allow_starved=tuple(source.name for source in spec.sources),
    )


def with_rebuilt_optimizer(spec: TrainingSpec, trainer: Any, state: TrainerState, batches: Iterable[Any]) -> Any:
    """Return the state with moments and histories from these batches at a learning rate of 0. The weights stay.

    state: a state with a fresh optimizer. Its moving average stays too.
    """
    still = build_optimizer(spec.optimizer, STILL)
    moving = dataclasses.replace(state, optimizer=still, opt_state=with_count(state.opt_state, 1), model_averaging=None)
    for batch in batches:
        moving = trainer.train_step(moving, batch).state
    # The steps gave up the buffers of the first state.
    return dataclasses.replace(
        moving,
        step=jnp.array(spec.first_step),
        optimizer=state.optimizer,
        opt_state=with_count(moving.opt_state, spec.first_step),
        model_averaging=state.model_averaging,
    )
