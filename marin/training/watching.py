"""Watch a training between two steps: norms of the weights, losses on held-out text, samples.

All values belong to the weights after the step's update. Names of values in a row of metrics.jsonl::

    norm/model, norm/embeddings, norm/lm_head, norm/layer/0 …    Euclidean norms of weights
    norm/adapters                                                with LoRA instead: norm of all factors A and B
    ema_distance                                                 norm of (weights − average) / norm of weights
    held_out/loss/<domain>, held_out/bpb/<domain>                nats a token, bits a byte of each domain
    held_out/macro_loss, …/micro_loss, …/macro_bpb, …/micro_bpb  mean over domains; over all tokens or bytes
    held_out/log_z                                               root mean square of log Z; the z-loss keeps it near 0
    held_out_ema/…                                               the same for the averaged weights, without log_z
"""

# pyright: basic
from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
from levanter.layers.attention import AttentionMask
from levanter.models.lm_model import LmExample
from levanter.utils.jax_utils import leaf_key_paths

from marin.store.files.directory import Directory
from marin.training.batches import segments
from marin.training.held_out import read_held_out
from marin.training.spec import TrainingSpec
from marin.training.writing import Writing

NORMS_EVERY = 10  # optimizer steps
LAYERS = ("layer", "layers")  # the axis along which Levanter stacks layers


class Watching:
    """The watch over a run. A look is cheap: it copies only a few vectors to the host.

    wrote: lines of samples.jsonl of the last look.
    """

    def __init__(self, spec: TrainingSpec, trainer: Any) -> None:
        self._spec, self._trainer = spec, trainer
        self._layers = spec.model.layers
        self._norms = hax.named_jit(_norms, axis_resources=trainer.parameter_axis_mapping)
        self._watch, self.wrote = spec.watch, list[dict[str, Any]]()
        prompts = spec.watch.prompts if spec.watch is not None else None
        self._writing = Writing(spec, trainer, prompts) if prompts is not None else None
        if spec.watch is not None and spec.watch.directory is not None:
            self._held_out = read_held_out(Directory(spec.watch.directory), spec.vocabulary)
            self._separator = spec.watch.separator
            self._rows = min(spec.batch.values())  # as many rows as fit into memory in training
            self._nats = hax.named_jit(
                _nats, axis_resources=trainer.compute_axis_mapping, donate_args=(False, False, False, False)
            )
            self._examples = list(self._placed())

    def look(self, state: Any, done: int) -> dict[str, float]:
        """Return this step's values, and ``watch_seconds``; {} for most steps. state: after ``done`` steps."""
        ends = done == self._spec.end_step
        started = time.monotonic()
        row: dict[str, float] = {}
        self.wrote = []
        if done % NORMS_EVERY == 0 or ends:
            row |= self._weights(state)
        if self._watch is not None and (done % self._watch.every == 0 or ends):
            if self._watch.directory is not None:
                row |= self._predictions(state)
            if self._writing is not None:
                self.wrote = self._writing.lines(state.model, done)
        took = {"watch_seconds": round(time.monotonic() - started, 4)}
        return row | took if row or self.wrote else {}

    def _weights(self, state: Any) -> dict[str, float]:
        if self._spec.lora is not None:
            squares = np.asarray(self._norms(state.trainable_model, None), np.float64)
            return {"norm/adapters": _short(math.sqrt(squares[0]))}
        average = state.model_averaging.model if state.model_averaging is not None else None
        squares = np.asarray(self._norms(state.model, average), np.float64)
        model, embeddings, head, distance, *layers = np.sqrt(squares).tolist()
        named = {"model": model, "embeddings": embeddings}
        if not self._spec.model.tied_embeddings:
            named["lm_head"] = head
        named |= {f"layer/{number}": norm for number, norm in enumerate(layers)}
        row = {f"norm/{name}": _short(norm) for name, norm in named.items()}
        return row if average is None else row | {"ema_distance": _short(distance / model)}

    def _predictions(self, state: Any) -> dict[str, float]:
        found = self._scored("held_out", state.model, with_z=True)
        if state.model_averaging is not None:
            averaged = eqx.combine(state.model_averaging.model, state.model)
            found |= self._scored("held_out_ema", averaged, with_z=False)
        return found

    def _scored(self, name: str, model: Any, *, with_z: bool) -> dict[str, float]:
        parts = [
            np.asarray(self._nats(self._trainer.mp, model, each, with_z and not number), np.float64)
            for number, each in enumerate(self._examples)
        ]
        nats, z = np.sum([part[:-2] for part in parts], axis=0), parts[0][-2:]
        found = {f"{name}/{metric}": _short(each) for metric, each in self._held_out.metrics(nats).items()}
        return found | {f"{name}/log_z": _short(math.sqrt(z[0] / z[1]))} if with_z else found

    def _placed(self) -> Iterator[tuple[Any, Any]]:
        """Yield (example, one-hot domain of each row) of each batch of rows. The last batch's padding never counts."""
        held, names = self._held_out, self._held_out.domains
        length = held.tokens.shape[1]
        axes = (hax.Axis(self._trainer.config.batch_axis_name or "batch", self._rows), hax.Axis("position", length))
        for start in range(0, len(held.tokens), self._rows):
            rows = slice(start, start + self._rows)
            tokens, weights = np.zeros((self._rows, length), np.int32), np.zeros((self._rows, length), np.float32)
            domain = np.zeros((self._rows, len(names)), np.float32)
            there = len(held.tokens[rows])
            tokens[:there], weights[:there] = held.tokens[rows], held.scored[rows]
            domain[np.arange(there), held.domain[rows]] = 1
            mask = AttentionMask.causal()
            if self._separator is not None:
                mask = mask.with_segment_ids(self._on_devices(segments(tokens, self._separator), axes))
            example = LmExample(
                tokens=self._on_devices(tokens, axes),
                loss_weight=self._on_devices(weights, axes),
                attn_mask=mask,
            )
            yield example, self._on_devices(domain, (axes[0], hax.Axis("domain", len(names))))

    def _on_devices(self, held: np.ndarray, axes: tuple[Any, ...]) -> Any:
        mapping, mesh = self._trainer.compute_axis_mapping, self._trainer.device_mesh
        sharding = hax.partitioning.sharding_for_axis(axes, mapping, mesh)
        return hax.NamedArray(jax.make_array_from_callback(held.shape, sharding, lambda at: held[at]), axes)


def _short(value: float) -> float:
    """Return a value with seven digits, the precision of float32."""
    return float(f"{value:.7g}")


def _norms(model: Any, average: Any) -> Any:
    """Return the squared norms of the model, embeddings, head, difference from the average, then each layer."""
    paths = jax.tree.leaves(leaf_key_paths(model, is_leaf=hax.is_named_array))
    leaves = jax.tree.leaves(model, is_leaf=hax.is_named_array)
    embeddings, head, other, layers = jnp.zeros(()), jnp.zeros(()), jnp.zeros(()), jnp.zeros(())
    for path, leaf in zip(paths, leaves, strict=True):
        if not eqx.is_inexact_array(leaf.array if hax.is_named_array(leaf) else leaf):
            continue
        if hax.is_named_array(leaf) and any(axis.name in LAYERS for axis in leaf.axes):
            others = tuple(axis for axis in leaf.axes if axis.name not in LAYERS)
            layers += hax.sum(hax.square(leaf.astype(jnp.float32)), others).array
            continue
        square = jnp.sum(jnp.square((leaf.array if hax.is_named_array(leaf) else leaf).astype(jnp.float32)))
        if path.startswith("embeddings"):
            embeddings += square
        elif path.startswith("lm_head"):
            head += square
        else:
            other += square
    distance = jnp.zeros(())
    if average is not None:
        there = [leaf for leaf in jax.tree.leaves(model) if eqx.is_inexact_array(leaf)]
        for leaf, mean in zip(there, jax.tree.leaves(average), strict=True):
            distance += jnp.sum(jnp.square(leaf - mean))
    whole = embeddings + head + other + layers.sum()
    return jnp.concatenate([jnp.stack([whole, embeddings, head, distance]), jnp.atleast_1d(layers)])


def _nats(policy: Any, model: Any, batch: tuple[Any, Any], with_z: bool) -> Any:
    """Return the summed surprisal of each domain, then the sum of log² Z and its number of tokens (0, 0 without)."""
    example, domain = batch
    model = policy.cast_to_compute(eqx.nn.inference_mode(model, True))

    def loss(weight: float | None) -> Any:
        return model.compute_next_token_loss(example, reduction=None, reduction_axis=(), logsumexp_weight=weight).array

    plain = loss(None)
    nats = domain.array.astype(jnp.float32).T @ plain.sum(axis=1)
    z = jnp.stack([(loss(1.0) - plain).sum(), example.loss_weight.array.sum()]) if with_z else jnp.zeros(2)
    return jnp.concatenate([nats, z])
