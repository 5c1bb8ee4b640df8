"""From our recipe and schedule to Levanter's Adam."""

# pyright: basic
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
from levanter.optim.clip_update_norm import ClipUpdateNormConfig
from levanter.optim.config import AdamConfig
from levanter.optim.model_averaging import EmaModelAveragingConfig
from levanter.optim.skipstep import SkipStepConfig
from levanter.optim.util import log_norm_passthrough

from marin.training.optimizer import Adam
from marin.training.schedule import Schedule, Shape

GRADIENT_NORM = "grad_norm"
UPDATE_NORM = "update_norm"


@dataclass(frozen=True)
class _ScheduledAdam(AdamConfig):
    """Levanter's Adam with the learning rate from our schedule instead of its own."""

    schedule: Schedule = field(default_factory=Schedule)

    def lr_scheduler(self, num_train_steps: int, override_lr: float | None = None) -> Any:
        return traced_learning_rate(self.schedule, self.learning_rate)


def traced_learning_rate(schedule: Schedule, peak: float) -> Any:
    """``schedule.learning_rate`` as a function that JAX can trace. float32."""
    ramps = schedule.ramps()
    starts, ends = (jnp.asarray(np.array([ramp[i] for ramp in ramps], np.int32)) for i in (0, 1))
    first, last = (jnp.asarray(np.array([ramp[i] for ramp in ramps], np.float32)) for i in (2, 3))
    shapes = jnp.asarray(np.array([list(Shape).index(ramp.shape) for ramp in ramps], np.int32))

    def rate(step: Any) -> Any:
        at = jnp.searchsorted(starts, step, side="right") - 1
        a, b, start, end = first[at], last[at], starts[at], ends[at]
        step = jnp.clip(step, start, end)
        t = jnp.where(end > start, (step - start) / jnp.maximum(end - start, 1), 1)
        by_shape = {
            Shape.LINEAR: a + (b - a) * t,
            Shape.COSINE: b + (a - b) * (1 + jnp.cos(jnp.pi * t)) / 2,
            Shape.INVERSE: a / ((a / jnp.where(b > 0, b, 1) - 1) * t + 1),
            Shape.INVERSE_SQRT: jnp.maximum(b, a * jnp.sqrt(start / jnp.maximum(step, 1))),
        }
        return peak * jnp.select([shapes[at] == number for number in range(len(Shape))], [by_shape[s] for s in Shape])

    return rate


def build_optimizer(recipe: Adam, schedule: Schedule) -> optax.GradientTransformation:
    """An optax transformation that logs the norms of gradients and of applied updates."""
    clip, skip = recipe.clip_update_norm, recipe.skip_bad_steps
    adam = _ScheduledAdam(
        schedule=schedule,
        learning_rate=recipe.peak_lr,
        weight_decay=recipe.weight_decay,
        beta1=recipe.beta1,
        beta2=recipe.beta2,
        epsilon=recipe.eps,
        max_grad_norm=recipe.max_grad_norm,
        clip_update_norm=clip and ClipUpdateNormConfig(rolling_interval_length=clip.window, sigma_factor=clip.sigma),
        skip_bad_steps=(
            SkipStepConfig(rolling_interval_length=skip.window, sigma_factor=skip.sigma) if skip else False
        ),
        adamc_weight_decay=recipe.adamc,
    )
    # The schedule's length is all that Levanter would use the number of steps for.
    return optax.chain(log_norm_passthrough(GRADIENT_NORM), adam.build(0), log_norm_passthrough(UPDATE_NORM))


def averaging(recipe: Adam) -> EmaModelAveragingConfig | None:
    return None if recipe.ema is None else EmaModelAveragingConfig(beta=recipe.ema)


def with_count(optimizer_state: Any, step: int) -> Any:
    """The state of a fresh ``build_optimizer`` with its schedule at ``step``; Adam's own moments start anew."""
    before, scheduled, after = optimizer_state
    # optax counts twice: the schedule reads the count of its own state. Each is an array of its own,
    # because the training step gives up the buffers of both.
    schedules = {
        name: held._replace(count=jnp.array(step, held.count.dtype))
        for name, held in scheduled.hyperparams_states.items()
    }
    started = scheduled._replace(count=jnp.array(step, scheduled.count.dtype), hyperparams_states=schedules)
    return before, started, after


def rate_used(optimizer_state: Any) -> Any:
    """The learning rate of the last update."""
    return optimizer_state[1].hyperparams["learning_rate"]
