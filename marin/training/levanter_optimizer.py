"""Build Levanter's Adam and Muon from marin's recipe and schedule."""

# pyright: basic
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import optax
from levanter.optim.clip_update_norm import ClipUpdateNormConfig
from levanter.optim.config import AdamConfig
from levanter.optim.model_averaging import EmaModelAveragingConfig
from levanter.optim.muon import MuonConfig
from levanter.optim.skipstep import SkipStepConfig
from levanter.optim.util import CoefficientType, log_norm_passthrough

from marin.training.optimizer import Adam, Muon, Optimizer
from marin.training.schedule import Schedule, Shape

GRADIENT_NORM = "grad_norm"
UPDATE_NORM = "update_norm"


@dataclass(frozen=True)
class _ScheduledAdam(AdamConfig):
    """Levanter's Adam with the learning rate of marin's schedule."""

    schedule: Schedule = field(default_factory=Schedule)

    def lr_scheduler(self, num_train_steps: int, override_lr: float | None = None) -> Any:
        return traced_learning_rate(self.schedule, self.learning_rate)


@dataclass(frozen=True)
class _SteadyMuon(MuonConfig):
    """Levanter's Muon, always at its peak rates: a later transformation scales the updates by the schedule."""

    def lr_scheduler(self, num_train_steps: int, override_lr: float | None = None) -> Any:
        return optax.constant_schedule(self.lr if override_lr is None else override_lr)


def traced_learning_rate(schedule: Schedule, peak: float) -> Any:
    """Return ``schedule.learning_rate`` as a function that JAX can trace. float32."""
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


def build_optimizer(recipe: Optimizer, schedule: Schedule) -> optax.GradientTransformation:
    """Return the optax transformation of a recipe. It logs the norms of gradients and of applied updates."""
    made = _adam(recipe, schedule) if isinstance(recipe, Adam) else _muon(recipe, schedule)
    return optax.chain(log_norm_passthrough(GRADIENT_NORM), made, log_norm_passthrough(UPDATE_NORM))


def _adam(recipe: Adam, schedule: Schedule) -> optax.GradientTransformation:
    clip, skip = _guards(recipe)
    adam = _ScheduledAdam(
        schedule=schedule,
        learning_rate=recipe.peak_lr,
        weight_decay=recipe.weight_decay,
        beta1=recipe.beta1,
        beta2=recipe.beta2,
        epsilon=recipe.eps,
        max_grad_norm=recipe.max_grad_norm,
        nesterov=recipe.nesterov,
        clip_update_norm=clip,
        skip_bad_steps=skip or False,
        adamc_weight_decay=recipe.adamc,
    )
    return adam.build(0)  # Levanter would use the number of steps for the schedule's length only


def _muon(recipe: Muon, schedule: Schedule) -> optax.GradientTransformation:
    """Return Levanter's Muon with the guards of Levanter's Adam, which Muon lacks.

    The clip comes before the learning rate; the skip wraps everything.
    """
    clip, skip = _guards(recipe)
    muon = _SteadyMuon(
        lr=recipe.peak_lr,
        adam_lr=recipe.adam_lr,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        backend_steps=recipe.iterations,
        coefficient_type=cast(CoefficientType, recipe.polynomial.value),
        weight_decay=recipe.weight_decay,
        beta1=recipe.beta1,
        beta2=recipe.beta2,
        epsilon=recipe.eps,
        max_grad_norm=recipe.max_grad_norm or 0.0,  # 0 is none
    ).build(0)

    def scaled(learning_rate: Any) -> optax.GradientTransformation:
        clipped = [] if clip is None else [clip.build()]
        made = optax.chain(muon, *clipped, optax.scale(learning_rate / recipe.peak_lr))
        return made if skip is None else skip.wrap(made)

    return optax.inject_hyperparams(scaled)(learning_rate=traced_learning_rate(schedule, recipe.peak_lr))


def _guards(recipe: Optimizer) -> tuple[ClipUpdateNormConfig | None, SkipStepConfig | None]:
    clip, skip = recipe.clip_update_norm, recipe.skip_bad_steps
    return (
        clip and ClipUpdateNormConfig(rolling_interval_length=clip.window, sigma_factor=clip.sigma),
        skip and SkipStepConfig(rolling_interval_length=skip.window, sigma_factor=skip.sigma),
    )


def averaging(recipe: Optimizer) -> EmaModelAveragingConfig | None:
    return None if recipe.ema is None else EmaModelAveragingConfig(beta=recipe.ema)


def with_count(optimizer_state: Any, step: int) -> Any:
    """Return the state of ``build_optimizer`` with its schedule at ``step``; Adam's moments and their count stay."""
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
    """Return the learning rate of the last update."""
    return optimizer_state[1].hyperparams["learning_rate"]
