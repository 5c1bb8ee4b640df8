"""Optimizer state that is made anew from data: moments and histories, while the weights stand still."""

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
    """The run that reads the batches before the first step again: spec.start.rebuild of them. No gate holds it up."""
    assert spec.start is not None
    return dataclasses.replace(
        spec,
        first_step=spec.first_step - spec.start.rebuild,
        end_step=spec.first_step,
        max_epochs=float("inf"),
        allow_starved=tuple(source.name for source in spec.sources),
    )


def with_rebuilt_optimizer(spec: TrainingSpec, trainer: Any, state: TrainerState, batches: Iterable[Any]) -> Any:
    """The state with the moments and histories that these batches leave at a learning rate of 0; its weights stay.

    state: with a fresh optimizer. Its moving average is not touched.
    """
    still = build_optimizer(spec.optimizer, STILL)
    moving = dataclasses.replace(state, optimizer=still, opt_state=with_count(state.opt_state, 1), model_averaging=None)
    for batch in batches:
        moving = trainer.train_step(moving, batch).state
    # The steps have given up the buffers of the state that they began with.
    return dataclasses.replace(
        moving,
        step=jnp.array(spec.first_step),
        optimizer=state.optimizer,
        opt_state=with_count(moving.opt_state, spec.first_step),
        model_averaging=state.model_averaging,
    )
