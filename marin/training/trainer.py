"""Levanter's Trainer as marin uses it: the loss, and the values that the optimizer logs."""

# pyright: basic
from __future__ import annotations

import dataclasses
import functools
import logging
from typing import Any

import haliax
import jax
import jax.numpy as jnp
import jmp
import levanter.tracker
from levanter.models.loss import next_token_loss_weight
from levanter.tracker.tracker import NoopConfig, Tracker
from levanter.tracker.tracker_fns import defer_tracker_for_jit
from levanter.trainer import DEFAULT_JAX_CONFIG, Trainer, TrainerConfig

from marin.training.adapters import frozen
from marin.training.chips import mesh_config
from marin.training.levanter_optimizer import averaging, build_optimizer
from marin.training.model import Precision
from marin.training.optimizer import Optimizer
from marin.training.processes import join
from marin.training.schedule import Schedule
from marin.training.spec import TrainingSpec

POLICIES = {Precision.FLOAT32: "f32", Precision.BFLOAT16: "params=float32,compute=bfloat16,output=float32"}


class _Trainer(Trainer):
    """Levanter's Trainer, whose compiled step returns the values that the optimizer logs.

    Levanter itself sends these values by host callbacks, which are slow and keep the compiled program out of JAX's
    cache.
    """

    def _train_step(self, state: Any, batch: Any, batch_kwargs: Any, _no_hooks: bool = False) -> Any:
        if self.config.microbatch_size is not None:
            batch_kwargs = {**batch_kwargs, "weight_per_sequence": _weight_per_sequence(*batch)}
        with defer_tracker_for_jit() as logged:
            result = super()._train_step(state, batch, batch_kwargs, _no_hooks=_no_hooks)
        arrays = {name: held for name, held in logged.items() if isinstance(held, jax.Array)}
        return dataclasses.replace(result, loss_metrics={**result.loss_metrics, **arrays})


def _sequences(example: Any) -> int:
    return example.tokens.resolve_axis("batch").size


def _weight_per_sequence(example: Any) -> Any:
    """Return the mean loss weight of a sequence in the batch, or 1 / sequences if no token has weight (loss 0)."""
    position = example.tokens.resolve_axis("position")
    weight = next_token_loss_weight(position, example.loss_weight).sum().scalar()
    return jnp.where(weight == 0, 1, weight) / _sequences(example)


class Captured(Tracker):
    """A tracker that holds the values of the current step, for marin's own metrics."""

    name = "captured"

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def log(self, metrics: Any, *, step: int | None, commit: bool | None = None) -> None:
        self.values.update(metrics)

    def log_hyperparameters(self, hparams: Any) -> None: ...
    def log_summary(self, metrics: Any) -> None: ...
    def log_artifact(self, artifact_path: Any, *, name: str | None = None, type: str | None = None) -> None: ...
    def finish(self) -> None: ...


def make_trainer(spec: TrainingSpec) -> Trainer:
    """Return the trainer of a run, whose tracker is a Captured.

    Runs in one process that differ only in seed, data and start share a trainer, and so the compiled step.
    """
    # This logger warns of every static field of a model when Levanter reads a checkpoint.
    logging.getLogger("levanter.tensorstore_serialization").setLevel(logging.ERROR)
    for name, setting in DEFAULT_JAX_CONFIG.items():
        jax.config.update(name, setting)
    join(spec.process)
    parts = (spec.optimizer, spec.schedule, spec.precision, spec.end_step, spec.tensor, spec.sequences_per_device)
    return _trainer(*parts, has_adapters=spec.lora is not None)


@functools.lru_cache(maxsize=4)
def _trainer(
    optimizer: Optimizer,
    schedule: Schedule,
    precision: Precision,
    end_step: int,
    tensor: int,
    sequences_per_device: int | None,
    *,
    has_adapters: bool,
) -> Trainer:
    config = TrainerConfig(
        id="run",
        mp=jmp.get_policy(POLICIES[precision]),
        model_averaging=averaging(optimizer),
        tracker=NoopConfig(),
        num_train_steps=end_step,
        load_checkpoint=False,
        log_jaxprs=False,
        log_xla_hlo=False,
        crash_on_nan=False,  # marin's own error names the step and the remedy
        crash_on_inf=False,
        mesh=mesh_config(tensor),
        per_device_parallelism=sequences_per_device or -1,
    )
    levanter.tracker.set_global_tracker(Captured())

    def loss(model: Any, *inputs: Any, key: Any = None, weight_per_sequence: Any = None, **_: Any) -> Any:
        (example,) = inputs
        model = frozen(model) if has_adapters else model
        loss_of = functools.partial(model.compute_next_token_loss, key=key, logsumexp_weight=optimizer.z_loss)
        if weight_per_sequence is None:
            return loss_of(example)
        # Levanter takes the mean over micro-batches. A mean of micro-batch means would count a token for more if few
        # other tokens in its micro-batch have a weight.
        return loss_of(example, reduction=haliax.sum) / (weight_per_sequence * _sequences(example))

    return _Trainer(config, build_optimizer(optimizer, schedule), loss, add_default_hooks=False)
