"""One training run around Levanter's Trainer: our state, our batches, our checkpoints and metrics.

Runs in a process of its own (marin.training.main): Levanter keeps a global tracker and threads.
"""

# pyright: basic
from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jmp
import levanter.tracker
from levanter.checkpoint import save_checkpoint
from levanter.tracker.tracker import NoopConfig, Tracker
from levanter.tracker.tracker_fns import defer_tracker_for_jit
from levanter.trainer import DEFAULT_JAX_CONFIG, Trainer, TrainerConfig

from marin.data.mixture import BatchSchedule, Mixture, Shuffle, Stages
from marin.data.order_spec import OrderSpec
from marin.data.token_store import TokenStore
from marin.errors import NonFiniteLoss, UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.batches import Batches
from marin.training.bucket_address import find_buckets
from marin.training.finite import non_finite_arrays, write_arrays
from marin.training.initial_state import InitialState
from marin.training.levanter_optimizer import GRADIENT_NORM, UPDATE_NORM, averaging, build_optimizer, rate_used
from marin.training.metrics import MetricsLog, non_finite
from marin.training.model import Precision
from marin.training.spec import TrainingSpec, to_json
from marin.training.tracking import tracking
from marin.training.transfer import describe

POLICIES = {Precision.FLOAT32: "f32", Precision.BFLOAT16: "params=float32,compute=bfloat16,output=float32"}
WARM_START = "warm_start.json"
# The last checkpoint may turn out to be unreadable; the one before it is then the way back.
RECENT = 2

Emit = Callable[..., None]


def train(spec: TrainingSpec, emit: Emit) -> None:
    """Train from the last checkpoint in ``spec.state``, or from the start, to ``end_step``.

    emit(event, **facts) is told "begin", "note", "step", "checkpoint" and "end"; "checkpoint" also for those in
    ``keep_steps`` that an earlier process left, once they are found to be good. Raises NonFiniteLoss,
    UnreadableCheckpoint, and what the token stores raise.
    """
    started = time.monotonic()
    find_buckets()
    trainer = _trainer(spec)
    with trainer:
        run = _Run(spec, trainer, emit)
        state, log = run.prepare()
        emit("begin", step=int(state.step), seconds=time.monotonic() - started)
        with tracking(spec.tracked, to_json(spec), lambda text: emit("note", text=text)) as track:
            run.steps(state, log, track)
    emit("end", step=spec.end_step)


class _Trainer(Trainer):
    """Levanter's Trainer, with what the optimizer logs returned from the compiled step.

    Left alone, those values leave it by host callbacks, which are slow and keep the compiled program
    out of JAX's cache.
    """

    def _train_step(self, state: Any, batch: Any, batch_kwargs: Any, _no_hooks: bool = False) -> Any:
        with defer_tracker_for_jit() as logged:
            result = super()._train_step(state, batch, batch_kwargs, _no_hooks=_no_hooks)
        arrays = {name: held for name, held in logged.items() if isinstance(held, jax.Array)}
        return dataclasses.replace(result, loss_metrics={**result.loss_metrics, **arrays})


class _Captured(Tracker):
    """Holds the values of the current step, for our own metrics."""

    name = "captured"

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def log(self, metrics: Any, *, step: int | None, commit: bool | None = None) -> None:
        self.values.update(metrics)

    def log_hyperparameters(self, hparams: Any) -> None: ...
    def log_summary(self, metrics: Any) -> None: ...
    def log_artifact(self, artifact_path: Any, *, name: str | None = None, type: str | None = None) -> None: ...
    def finish(self) -> None: ...


CAPTURED = _Captured()


def _trainer(spec: TrainingSpec) -> Trainer:
    # Warns of every static field of a model when it reads a checkpoint.
    logging.getLogger("levanter.tensorstore_serialization").setLevel(logging.ERROR)
    for name, setting in DEFAULT_JAX_CONFIG.items():
        jax.config.update(name, setting)
    if spec.compiled is not None:
        jax.config.update("jax_compilation_cache_dir", spec.compiled)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    config = TrainerConfig(
        id="run",
        seed=spec.seed,
        mp=jmp.get_policy(POLICIES[spec.precision]),
        model_averaging=averaging(spec.optimizer),
        tracker=NoopConfig(),
        num_train_steps=spec.end_step,
        load_checkpoint=False,
        log_jaxprs=False,
        log_xla_hlo=False,
        crash_on_nan=False,  # we say which step and what to do
        crash_on_inf=False,
    )
    config.distributed.initialize()
    levanter.tracker.set_global_tracker(CAPTURED)

    def loss(model: Any, *inputs: Any, key: Any = None, **_: Any) -> Any:
        (example,) = inputs
        return model.compute_next_token_loss(example, key=key, logsumexp_weight=spec.optimizer.z_loss)

    return _Trainer(config, build_optimizer(spec.optimizer, spec.schedule), loss, add_default_hooks=False)


class _Run:
    def __init__(self, spec: TrainingSpec, trainer: Trainer, emit: Emit) -> None:
        self._spec, self._trainer, self._emit = spec, trainer, emit
        self._state_directory = Directory(spec.state)
        self._checkpoints = self._state_directory / "checkpoints"
        self._leads = jax.process_index() == 0
        self._batches, self._schedule = _batches(spec, trainer)

    def prepare(self) -> tuple[Any, MetricsLog]:
        """State and metrics to go on from: of the newest good checkpoint, else of the start.

        A good one has all its files, every array that this run needs, and only finite numbers in them. Raises
        UnreadableCheckpoint if there are checkpoints and none is good.
        """
        for step in checkpoint.half_written_steps(self._checkpoints):
            self._emit("note", text=f"the checkpoint of step {step} was never completed; it is removed, not resumed")
            if self._leads:
                checkpoint.remove(checkpoint.step_directory(self._checkpoints, step))
        initial = InitialState(self._spec, self._trainer)
        steps = checkpoint.complete_steps(self._checkpoints)
        bad: dict[int, str] = {}
        for step in reversed(steps):
            source = checkpoint.step_directory(self._checkpoints, step)
            try:
                state = initial.resume(source)
            except UnreadableCheckpoint as error:
                bad[step] = str(error)
                self._emit("note", text=f"CANNOT RESUME from step {step}: {error}")
                continue
            if bad:
                self._emit("note", text=f"going on from step {step} instead; what came after it is trained again")
            self._remove(bad)
            self._announce_kept(initial, [held for held in steps if held <= step])
            lines = source.read_text(checkpoint.METRICS).splitlines()
            return state, MetricsLog(self._state_directory, checkpoint.METRICS, lines)
        if bad:
            raise UnreadableCheckpoint(
                f"none of the checkpoints in {self._checkpoints.url} is good, and the run will not start over by "
                "itself: rebuild the step (--rebuild) to train it from the beginning\n"
                + "\n".join(f"  step {step}: {why}" for step, why in sorted(bad.items()))
            )
        state, report = initial.begin()
        for line in () if report is None else describe(report):
            self._emit("note", text=line)
        if report is not None and self._leads:
            self._state_directory.write_text(WARM_START, json.dumps(report, indent=1))
        return state, MetricsLog(self._state_directory, checkpoint.METRICS, ())

    def _announce_kept(self, initial: InitialState, steps: Sequence[int]) -> None:
        """Say that milestones are there: who was to publish them may have died before it did."""
        for step in sorted(set(steps) & set(self._spec.keep_steps)):
            source = checkpoint.step_directory(self._checkpoints, step)
            try:
                checkpoint.verify(source)
                if not checkpoint.read_facts(source).finite:
                    initial.resume(source)  # reads every number
            except UnreadableCheckpoint as error:
                self._emit("note", text=f"THE MILESTONE of step {step} is lost: its checkpoint is removed: {error}")
                self._remove([step])
                continue
            self._emit("checkpoint", step=step)

    def _remove(self, steps: Iterable[int]) -> None:
        for step in steps if self._leads else ():
            checkpoint.remove(checkpoint.step_directory(self._checkpoints, step))

    def steps(self, state: Any, log: MetricsLog, track: Callable[[dict[str, Any]], None]) -> None:
        spec = self._spec
        first = int(state.step)
        before = time.monotonic()
        for info in self._trainer.training_steps(state, self._batches.from_step(first)):
            step = info.step
            now = time.monotonic()
            row = self._row(info, seconds=now - before)
            log.add(row)
            track(row)
            before = now
            # Of the update too: what it did to the weights would show in the loss only one step later.
            if wrong := non_finite(row):
                what = ", ".join(f"{name} is {held}" for name, held in wrong.items())
                raise self._diverged(step, what, row["learning_rate"])
            self._emit("step", step=step + 1, loss=info.loss)
            done = step + 1
            if done % spec.checkpoint_every == 0 or done == spec.end_step or done in spec.keep_steps:
                self._save(info, log)

    def _diverged(self, step: int, what: str, rate: float) -> NonFiniteLoss:
        good = checkpoint.complete_steps(self._checkpoints)
        begin = f"The last good checkpoint is of step {good[-1]}" if good else "No checkpoint was saved before it"
        fork = f"fork from step {good[-1]} or earlier" if good else "begin again"
        return NonFiniteLoss(
            f"step {step}: {what}, at a learning rate of {rate:g}. Nothing of this step was saved. {begin}. Run again "
            "as it is, it ends here again: lower the learning rate or max_grad_norm, or leave out the data that "
            f"metrics.jsonl shows just before it, and {fork}"
        )

    def _row(self, info: Any, seconds: float) -> dict[str, Any]:
        values = CAPTURED.values
        step = info.step
        row: dict[str, Any] = {
            "step": step,
            "loss": info.loss,
            "learning_rate": float(rate_used(info.state.opt_state)),
            "grad_norm": float(values[GRADIENT_NORM]),
            "update_norm": float(values[UPDATE_NORM]),
        }
        for name, logged in (("clipped", "optim/clip_update/did_clip"), ("skipped", "optim/skipped_step")):
            if logged in values:
                row[name] = bool(values[logged])
        return row | {
            "tokens": self._schedule.tokens(self._spec.seq_len, 0, step + 1),
            "sources": self._batches.source_counts(step),
            "seconds": round(seconds, 4),
            "tokens_per_second": round(self._schedule.batch(step) * self._spec.seq_len / seconds, 1),
        }

    def _save(self, info: Any, log: MetricsLog) -> None:
        spec, step = self._spec, info.step + 1
        if found := non_finite_arrays(info.state.saveable_state):
            what = f"the update left {write_arrays(found)}"
            raise self._diverged(info.step, what, float(rate_used(info.state.opt_state)))
        target = checkpoint.step_directory(self._checkpoints, step)
        # Waits for the write, so the state that is saved cannot change under it.
        save_checkpoint(info.state.saveable_state, step, target.url, is_temporary=False)
        if self._leads:
            target.write_text(checkpoint.METRICS, log.text())
            facts = checkpoint.Facts(
                step=step,
                tokens=self._schedule.tokens(spec.seq_len, 0, step),
                loss=info.loss,
                model=spec.model,
                vocabulary=spec.vocabulary,
                averaged=spec.optimizer.ema is not None,
                finite=True,
                optimizer=spec.optimizer,
                schedule=spec.schedule,
            )
            checkpoint.complete(target, facts)
            for old in checkpoint.complete_steps(self._checkpoints)[:-RECENT]:
                if old not in spec.keep_steps:
                    checkpoint.remove(checkpoint.step_directory(self._checkpoints, old))
        self._emit("checkpoint", step=step)


def _batches(spec: TrainingSpec, trainer: Trainer) -> tuple[Batches, BatchSchedule]:
    stores = {source.name: TokenStore.open(Directory(source.store)) for source in spec.sources}
    schedule = BatchSchedule(spec.batch)
    order = OrderSpec(
        stages=Stages({step: Mixture(shares) for step, shares in spec.stages.items()}),
        batch=schedule,
        shuffle=Shuffle(spec.shuffle),
        seed=spec.seed,
        block=spec.block,
        seq_len=spec.seq_len,
        first=spec.first_step,
        end=spec.end_step,
        max_epochs=spec.max_epochs,
        allow_starved=spec.allow_starved,
    ).order(stores)
    in_order = [stores[name] for name in order.sources]
    eos = in_order[0].meta.eos if spec.separate_documents else None
    return Batches(order, in_order, schedule, seq_len=spec.seq_len, eos=eos, trainer=trainer), schedule
