"""Make a run's first weights and optimizer state: from scratch, from another run, or from its own last checkpoint."""

# pyright: basic
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import haliax
import jax
import jax.numpy as jnp
from levanter.checkpoint import load_checkpoint
from levanter.trainer_state import TrainerState, saveable_training_mask

from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.adapters import (
    adapters_of,
    converted,
    own_weights_of,
    trainable,
    with_adapters,
    with_merged_adapters,
)
from marin.training.finite import non_finite_arrays, write_arrays
from marin.training.levanter_model import READING, array_shapes, build_model
from marin.training.levanter_optimizer import with_count
from marin.training.model import ModelShape, Recompute
from marin.training.settings import changes, machine, settings
from marin.training.spec import StartMode, TrainingSpec
from marin.training.transfer import CLIP_HISTORY, Carried, Shapes, below, stored_shapes, transfer_report

WEIGHTS, AVERAGED, OPTIMIZER = "model", "model_averaging/model", "opt_state"


class InitialState:
    """The maker of the state that a run begins or resumes with."""

    def __init__(self, spec: TrainingSpec, trainer: Any) -> None:
        self._spec, self._trainer = spec, trainer
        # Keys are arguments of compiled programs, never constants: runs that differ in their seed share the programs.
        model_key, training_key = jax.random.split(jax.random.PRNGKey(spec.seed))
        self._keys = (model_key, training_key)
        self._build, self._fresh = _makers(trainer, spec.model, spec.vocabulary, spec.recompute)

    def begin(self) -> tuple[TrainerState, dict[str, Any] | None]:
        """Return the state after ``first_step`` steps, and the report on the parts taken from another checkpoint.

        Raises UnreadableCheckpoint if the other checkpoint is unreadable or does not fit.
        """
        spec = self._spec
        if spec.start is None:
            return self._at_first_step(self._load(self._fresh, None, self._keys)), None
        source = Directory(spec.start.checkpoint)
        checkpoint.verify(source)
        facts = checkpoint.read_facts(source)
        if facts.vocabulary != spec.vocabulary:
            raise UnreadableCheckpoint(
                f"{source.url} has a vocabulary of {facts.vocabulary}, this run's tokens have {spec.vocabulary}; "
                "start from a model that was trained with the same tokenizer"
            )
        mode, stored = spec.start.mode, stored_shapes(source)
        same = mode in (StartMode.ALL, StartMode.WEIGHTS)
        if facts.origin is not None and same and not spec.model.takes_weights_of(facts.model):
            raise UnreadableCheckpoint(
                f"{facts.origin.source} is {facts.model}, and this run's model is {spec.model}; give the model's shape"
            )
        report = transfer_report(below(WEIGHTS, stored), self._wanted_shapes(), source.url)
        report["changed"] = changes(facts, settings(spec) | machine())
        if same:
            self._refuse_partial(report, source)
        if mode in (StartMode.ALL, StartMode.WARM_ALL) and facts.step != spec.first_step:
            raise UnreadableCheckpoint(
                f"{source.url} is at step {facts.step}, this run begins at step {spec.first_step}; "
                "begin from that step, or without the optimizer state"
            )
        if mode is StartMode.ALL and stored == self._stored_as():
            state = self._load(self._fresh, source, self._keys)
        else:
            state = self._assembled(source, facts, stored, report)
        if spec.start.clip_history is not None:
            state, report["clip_history"] = self._with_clip_history(state, Directory(spec.start.clip_history))
        return state, report

    def resume(self, source: Directory) -> TrainerState:
        """Return the state in one of the run's own checkpoints.

        Raises UnreadableCheckpoint, also for a checkpoint with NaN or infinite numbers.
        """
        checkpoint.verify(source)
        if self._spec.lora is None:
            return self._load(self._fresh, source, self._keys)
        assert self._spec.start is not None
        checkpoint.verify(Directory(self._spec.start.checkpoint))
        state = self._adapted()
        saved = self._read(state.saveable_state, source)
        if found := non_finite_arrays(saved):
            raise UnreadableCheckpoint(f"{source.url} holds {write_arrays(found)}")
        return eqx.combine(saved, state)

    def merged(self, source: Directory) -> Any:
        """Return the float32 weights with the adapters of one of the run's own checkpoints merged in.

        Raises UnreadableCheckpoint.
        """
        checkpoint.verify(source)
        model = self._with_adapters(self._frozen_weights())
        adapters = self._read(adapters_of(model), source, subpath=WEIGHTS)
        mapping = self._trainer.parameter_axis_mapping
        merge = haliax.named_jit(
            with_merged_adapters, axis_resources=mapping, out_axis_resources=mapping, donate_args=(True, False)
        )
        return merge(own_weights_of(model), adapters)

    def _frozen_weights(self) -> Any:
        """Return the start weights of a run with adapters, which none of the run's own checkpoints holds."""
        assert self._spec.start is not None
        source = Directory(self._spec.start.checkpoint)
        # Read the weights straight to their final place: a compiled program would hold them twice.
        model = self._read(eqx.filter_eval_shape(self._build, self._keys[0]), source, subpath=WEIGHTS)
        if found := non_finite_arrays(model):
            raise UnreadableCheckpoint(
                f"{source.url} holds {write_arrays(found)}; nothing can be trained from there: begin from an earlier "
                "checkpoint"
            )
        return model

    def _with_adapters(self, model: Any) -> Any:
        """Return the model with fresh adapters. The model's own buffers are given up."""
        lora = self._spec.lora
        assert lora is not None
        mapping = self._trainer.parameter_axis_mapping
        added = haliax.named_jit(
            lambda model, key: with_adapters(model, lora, key),
            axis_resources=mapping,
            out_axis_resources=mapping,
            donate_args=(True, False),
        )
        return added(model, self._keys[0])

    def _adapted(self) -> TrainerState:
        """Return the state before the first step, with an optimizer for the adapters alone.

        The other weights are in the type of the computation.
        """
        frozen = converted(self._frozen_weights(), self._trainer.mp.compute_dtype)
        model = self._with_adapters(frozen)
        state = self._trainer.initial_state(self._keys[1], model=model, is_trainable=trainable(model))
        return self._at_first_step(state)

    def _assembled(
        self, source: Directory, facts: checkpoint.Facts, stored: Shapes, report: dict[str, Any]
    ) -> TrainerState:
        """Return a state with the parts that the mode takes from another run's checkpoint, the rest fresh.

        Adds ``optimizer_state`` to the report.
        """
        assert self._spec.start is not None
        mode = self._spec.start.mode
        if self._spec.lora is not None:
            return self._adapted()
        model = self._load(self._build, source, self._keys[:1], subpath=WEIGHTS, partial=True)
        state = self._trainer.initial_state(self._keys[1], model=model)
        if mode in (StartMode.ALL, StartMode.WARM_ALL):
            kept, report["optimizer_state"] = self._carried_over(state.opt_state, source, stored)
            state = dataclasses.replace(state, opt_state=kept)
        if state.model_averaging is not None:
            if mode in (StartMode.ALL, StartMode.WEIGHTS) and facts.averaged:
                average = self._load(self._build, source, self._keys[:1], subpath=AVERAGED)
            else:
                # A copy, because the training step gives up the buffers of both model and average.
                average = jax.tree.map(jnp.copy, state.model_averaging.model)
            state = dataclasses.replace(
                state, model_averaging=dataclasses.replace(state.model_averaging, model=average)
            )
        return self._at_first_step(state)

    def _with_clip_history(self, state: TrainerState, source: Directory) -> tuple[TrainerState, dict[str, Any]]:
        checkpoint.verify(source)
        seeded, report = self._carried_over(state.opt_state, source, stored_shapes(source), CLIP_HISTORY)
        step = checkpoint.read_facts(source).step
        return dataclasses.replace(state, opt_state=seeded), {"step": step, "arrays": sorted(report["kept"])}

    def _load(
        self,
        make: Callable[..., Any],
        source: Directory | None,
        arguments: Sequence[Any],
        *,
        subpath: str | None = None,
        partial: bool = False,
    ) -> Any:
        """Return the result of ``make``, with every array that ``source`` holds taken from ``source``."""
        shape = eqx.filter_eval_shape(make, *arguments)
        saved = saveable_training_mask(shape) if isinstance(shape, TrainerState) else True
        mapping = self._trainer.parameter_axis_mapping
        complete = haliax.named_jit(_completed, axis_resources=mapping, out_axis_resources=mapping)
        loaded = eqx.filter(shape, lambda _: False)
        if source is not None:
            loaded = self._read(eqx.filter(shape, saved), source, subpath=subpath, partial=partial)
        made = complete(make, loaded, *arguments)
        if source is not None and (found := non_finite_arrays(made)):
            raise UnreadableCheckpoint(
                f"{source.url} holds {write_arrays([f'{subpath}/{path}' if subpath else path for path in found])}; "
                "nothing can be trained from there: begin from an earlier checkpoint"
            )
        return made

    def _read(self, wanted: Any, source: Directory, *, subpath: str | None = None, partial: bool = False) -> Any:
        """Return the checkpoint's arrays for the wanted arrays or shapes. Raises UnreadableCheckpoint."""
        try:
            return load_checkpoint(
                wanted,
                source.url,
                subpath=subpath,
                axis_mapping=self._trainer.parameter_axis_mapping,
                mesh=self._trainer.device_mesh,
                allow_partial=partial,
                read_config=READING,
            )
        except (FileNotFoundError, ValueError) as error:
            raise UnreadableCheckpoint(f"{source.url} does not fit this run: {error}") from error

    def _wanted_shapes(self) -> Shapes:
        return array_shapes(eqx.filter_eval_shape(self._build, self._keys[0]))

    def _stored_as(self) -> Shapes:
        """Return the shapes of all arrays in a checkpoint of this run."""
        shape = eqx.filter_eval_shape(self._fresh, *self._keys)
        return array_shapes(eqx.filter(shape, saveable_training_mask(shape)))

    def _carried_over(
        self, fresh: Any, source: Directory, stored: Shapes, only: str = ""
    ) -> tuple[Any, dict[str, Any]]:
        """Return the optimizer state with every fitting array of the checkpoint, and the report on the arrays.

        only: carry over the history of one guard, not all arrays.
        """
        leaves, structure = jax.tree.flatten(fresh, is_leaf=haliax.is_named_array)
        shapes = {f"{OPTIMIZER}/{path}": shape for path, shape in array_shapes(fresh).items()}
        there = {path: at for path, at in stored.items() if path.startswith(OPTIMIZER)}
        carried = Carried(wanted=shapes, stored=there, only=only)
        if only and not carried.source:
            raise UnreadableCheckpoint(
                f"{source.url} has no history of update norms that fits this run's clip: its clip was off, or had "
                "another window; take an earlier checkpoint, or leave clip_history out"
            )
        if not only and not any("/mu/" in path for path in carried.source):
            raise UnreadableCheckpoint(
                f"{source.url}: nothing of its optimizer state fits this run's optimizer; begin with "
                "OptimizerState.FRESH"
            )
        exemplars = {
            carried.source[path]: leaf for path, leaf in zip(shapes, leaves, strict=True) if path in carried.source
        }
        loaded = load_checkpoint(
            exemplars,
            source.url,
            axis_mapping=self._trainer.parameter_axis_mapping,
            mesh=self._trainer.device_mesh,
            read_config=READING,
        )
        if found := non_finite_arrays(loaded):
            raise UnreadableCheckpoint(
                f"{source.url} holds {write_arrays(found)}; begin from an earlier checkpoint, or with "
                "OptimizerState.FRESH"
            )
        merged = [
            loaded[carried.source[path]] if path in carried.source else leaf
            for path, leaf in zip(shapes, leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, merged), carried.report()

    def _at_first_step(self, state: TrainerState) -> TrainerState:
        step = self._spec.first_step
        return dataclasses.replace(state, step=jnp.array(step), opt_state=with_count(state.opt_state, step))

    def _refuse_partial(self, report: dict[str, Any], source: Directory) -> None:
        if report["fresh"] or report["dropped"]:
            raise UnreadableCheckpoint(
                f"{source.url} holds another architecture: it lacks {sorted(report['fresh'])}, and this model has no "
                f"use for {sorted(report['dropped'])}; a fork needs the same model, use WarmStart for another"
            )


@functools.lru_cache(maxsize=4)
def _makers(
    trainer: Any, shape: ModelShape, vocabulary: int, recompute: Recompute
) -> tuple[Callable[[Any], Any], Callable[[Any, Any], TrainerState]]:
    """Return the functions that make fresh weights from a key, and a fresh state from two keys.

    Runs in one process that get the same functions share the compiled programs.
    """

    def build(key: Any) -> Any:
        return trainer.mp.cast_to_param(build_model(shape, vocabulary, key, recompute))

    def fresh(model_key: Any, training_key: Any) -> TrainerState:
        return TrainerState.init(
            trainer.optimizer,
            build(model_key),
            key=training_key,
            is_trainable=True,
            mp=trainer.mp,
            model_averaging=trainer.config.model_averaging,
        )

    return build, fresh


def _completed(make: Callable[..., Any], loaded: Any, *arguments: Any) -> Any:
    """Return the result of ``make``, with every array that is loaded in place of the made one."""
    there = eqx.filter(loaded, lambda leaf: not isinstance(leaf, jax.ShapeDtypeStruct))
    return eqx.combine(there, make(*arguments))
