"""Run one training with Levanter's Trainer and marin's own state, batches, checkpoints and metrics.

A training has a process of its own (marin.training.main), because Levanter keeps a global tracker and threads.
"""

# pyright: basic
from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import jax
from levanter.trainer import Trainer

from marin.data.mixture import BatchSchedule, Interpolation, Mixture, Shuffle, Stages
from marin.data.order_spec import OrderSpec
from marin.data.token_store import TokenStore
from marin.errors import NonFiniteLoss, Preempted
from marin.store.files.directory import Directory
from marin.training import checkpoint, course
from marin.training.agreement import Agreement, Request
from marin.training.batches import Batches
from marin.training.bucket_address import find_buckets
from marin.training.costs import Costs
from marin.training.finite import non_finite_arrays, write_arrays
from marin.training.initial_state import InitialState
from marin.training.levanter_optimizer import GRADIENT_NORM, UPDATE_NORM, rate_used
from marin.training.merging import save_merged
from marin.training.metrics import MetricsLog, non_finite
from marin.training.processes import leave
from marin.training.profiling import Profile
from marin.training.rebuilding import replayed, with_rebuilt_optimizer
from marin.training.saving import COMMIT_SECONDS, Emit, Saving
from marin.training.settings import changes, machine, settings
from marin.training.spec import TrainingSpec, to_json
from marin.training.tracking import Track, tracking
from marin.training.trainer import make_trainer
from marin.training.transfer import describe
from marin.training.watching import Watching

WARM_START, RESUMES = "warm_start.json", "resumes.jsonl"


def train(spec: TrainingSpec, emit: Emit) -> None:
    """Train from the last checkpoint in ``spec.state``, or from the start, to ``end_step``.

    emit(event, **facts) receives "begin", "note", "step", "pause", "checkpoint" and "end". A checkpoint in
    ``keep_steps`` that an earlier process left is emitted too, once it is verified. A run with adapters emits
    "checkpoint" once, for the merged checkpoint. Raises NonFiniteLoss, UnreadableCheckpoint, StoreFull, Preempted, and
    the errors of the token stores.
    """
    started = time.monotonic()
    find_buckets()
    trainer = make_trainer(spec)
    with trainer:
        run = _Run(spec, trainer, emit)
        state, logs = run.prepare()
        emit("begin", step=int(state.step), seconds=time.monotonic() - started)
        with tracking(spec.tracked, to_json(spec), lambda text: emit("note", text=text)) as track:
            try:
                run.steps(state, logs, track)
                if spec.lora is not None:
                    del state  # its memory is needed
                    emit("pause", seconds=COMMIT_SECONDS)
                    save_merged(spec, InitialState(spec, trainer), emit)
            except (NonFiniteLoss, Preempted):  # raised by all processes after the same step
                leave(spec.process)
                raise
            leave(spec.process)  # before the tracker sends its last data: the others need not wait for that
    emit("end", step=spec.end_step)


def _notes_alone(emit: Emit) -> Emit:
    """Return an emit that passes on notes only, for checkpoints that no other run can begin with."""

    def tell(event: str, **facts: Any) -> None:
        if event == "note":
            emit(event, **facts)

    return tell


class _Run:
    def __init__(self, spec: TrainingSpec, trainer: Trainer, emit: Emit) -> None:
        self._spec, self._trainer, self._emit = spec, trainer, emit
        self._captured: Any = trainer.tracker
        self._state_directory = Directory(spec.state)
        self._costs = Costs(
            model=spec.model,
            vocabulary=spec.vocabulary,
            optimizer=spec.optimizer,
            precision=spec.precision,
            tensor=spec.tensor,
            lora=spec.lora,
        )
        listener = emit if spec.lora is None else _notes_alone(emit)
        self._saving = Saving(self._state_directory / checkpoint.RESUMABLE, spec.keep_steps, listener)
        self._leads = jax.process_index() == 0
        self._batches, self._schedule = _batches(spec, trainer)
        self._changes = course.changes(spec)
        self._settings = settings(spec) | machine()

    def prepare(self) -> tuple[Any, dict[str, MetricsLog]]:
        """Return state and logs (by name) of the newest good checkpoint, or of the start if there is no checkpoint.

        Raises UnreadableCheckpoint if there are checkpoints and none is good, and StoreFull if the disk has no room
        for a checkpoint.
        """
        initial = InitialState(self._spec, self._trainer)
        found = self._saving.resume(initial)
        if found is None:
            state, report = initial.begin()
            if self._spec.start is not None and self._spec.start.rebuild and report is not None:
                replay = replayed(self._spec)
                examples = _batches(replay, self._trainer)[0].examples(replay.first_step, replay.end_step)
                state = with_rebuilt_optimizer(self._spec, self._trainer, state, examples)
                report["rebuilt"] = {"first": replay.first_step, "steps": self._spec.start.rebuild}
            self._changes[self._spec.first_step] = course.begun_with(report)
            for line in () if report is None else describe(report):
                self._emit("note", text=line)
            if report is not None and self._leads:
                self._state_directory.write_text(WARM_START, json.dumps(report, indent=1))
            source = None
        else:
            state, source = found
            self._resumed(int(state.step))
        if self._spec.lora is not None:
            counts = f"{self._costs.trained:,} parameters beside {self._costs.frozen:,} that stay as they are"
            self._emit("note", text=f"LoRA ({self._spec.lora}) trains {counts}")
        self._saving.must_have_room(state, 0 if self._spec.lora is None else self._costs.checkpoint_bytes)
        writes = self._spec.watch is not None and self._spec.watch.prompts is not None
        live = self._state_directory if self._leads else None
        return state, {
            name: MetricsLog(live, name, source.read_text(name).splitlines() if source and source.exists(name) else ())
            for name in (checkpoint.METRICS, *([checkpoint.SAMPLES] if writes else []))
        }

    def _resumed(self, step: int) -> None:
        """Report settings that changed since the checkpoint: in the log, in the state and in the next row."""
        facts = checkpoint.read_facts(checkpoint.step_directory(self._state_directory / checkpoint.RESUMABLE, step))
        changed = changes(facts, self._settings)
        for text in (words := course.in_words(changed)):
            self._emit("note", text=f"changed since the checkpoint of step {step}: {text}")
        if words:
            self._changes[step] = [*self._changes.get(step, []), *words]
        if self._leads:
            directory = self._state_directory
            before = directory.read_text(RESUMES) if directory.exists(RESUMES) else ""
            directory.write_text(RESUMES, before + json.dumps({"step": step, "changed": changed}) + "\n")

    def steps(self, state: Any, logs: Mapping[str, MetricsLog], track: Track) -> None:
        spec, watching = self._spec, Watching(self._spec, self._trainer)
        agreement = Agreement(spec.checkpoint_minutes)
        first = int(state.step)
        if spec.save_start and not self._saving.complete_steps():
            texts = {name: log.text() for name, log in logs.items()}
            self._saving.begin(state, self._facts(first, None), texts)
        profile = Profile(spec, lambda text: self._emit("note", text=text), leads=self._leads)
        profile.before(first)
        before, paused = time.monotonic(), 0.0
        for info in self._trainer.training_steps(state, self._batches.ahead(first, spec.end_step)):
            step, done = info.step, info.step + 1
            row = self._row(info, seconds=time.monotonic() - before, paused=paused)
            if step == first:
                row["process"] = self._process()
            before = time.monotonic()
            profile.after(step)
            row |= watching.look(info.state, done)
            logs[checkpoint.METRICS].add(row)
            for line in watching.wrote:
                logs[checkpoint.SAMPLES].add(line)
            # The check covers the update too: its damage to the weights would show in the loss only one step later.
            if wrong := non_finite(row):
                what = ", ".join(f"{name} is {held}" for name, held in wrong.items())
                raise self._diverged(step, what, row["learning_rate"])
            track(row, watching.wrote)
            self._emit("step", step=done, loss=info.loss)
            self._saving.announce()
            wish = agreement.wish()
            if wish or done % spec.checkpoint_every == 0 or done == spec.end_step or done in spec.keep_steps:
                self._emit("pause", seconds=COMMIT_SECONDS)
                self._save(info, logs)
                agreement.saved()
            if wish is Request.STOP and done < spec.end_step:
                self._saving.finish()
                raise Preempted(
                    f"preempted (SIGTERM) after step {done} of {spec.end_step}, saved: the next run goes on there"
                )
            profile.before(done)
            paused = time.monotonic() - before
        self._saving.finish()

    def _diverged(self, step: int, what: str, rate: float) -> NonFiniteLoss:
        self._saving.finish()
        good = self._saving.complete_steps()
        begin = f"The last good checkpoint is of step {good[-1]}" if good else "No checkpoint was saved before it"
        fork = f"fork from step {good[-1]} or earlier" if good else "begin again"
        return NonFiniteLoss(
            f"step {step}: {what}, at a learning rate of {rate:g}. Nothing of this step was saved. {begin}. The same "
            "run would end here again: lower the learning rate or max_grad_norm, or leave out the data that "
            f"metrics.jsonl shows just before this step, and {fork}"
        )

    def _row(self, info: Any, seconds: float, paused: float) -> dict[str, Any]:
        """Return the row of a step. seconds: since the row before. paused: seconds of these for watching and saving."""
        values, spec = self._captured.values, self._spec
        step = info.step
        row: dict[str, Any] = {
            "step": step,
            "loss": info.loss,
            "learning_rate": float(rate_used(info.state.opt_state)),
            "phase": course.phase(spec.schedule, step),
            "grad_norm": float(values[GRADIENT_NORM]),
            "update_norm": float(values[UPDATE_NORM]),
        }
        for name, logged in (("clipped", "optim/clip_update/did_clip"), ("skipped", "optim/skipped_step")):
            if logged in values:
                row[name] = bool(values[logged])
        if row.get("clipped"):
            row["clipped_from"] = float(values["optim/clip_update/pre_clip_norm"])
        if step == spec.first_step:
            row["guards"] = course.guards(spec.optimizer)
            if spec.lora is not None:
                row |= {"trained_parameters": self._costs.trained, "frozen_parameters": self._costs.frozen}
        if changed := self._changes.get(step):
            row["changed"] = changed
        speed = self._schedule.batch(step) * spec.seq_len / seconds
        row |= {
            "tokens": self._schedule.tokens(spec.lengths or spec.seq_len, 0, step + 1),
            "sources": self._batches.source_counts(step),
            "seconds": round(seconds, 4),
            "paused_seconds": round(paused, 4),
            "loader_seconds": round(float(values["throughput/loading_time"]), 4),
            "tokens_per_second": float(f"{speed:.6g}"),
            "time": round(time.time(), 3),
        }
        if spec.peak_flops:
            row["mfu"] = float(f"{speed * self._costs.flops_per_token(spec.seq_len) / spec.peak_flops:.4g}")
        return row

    def _process(self) -> dict[str, Any]:
        """Return code, JAX version and devices of this process; after a resume they may differ."""
        devices = jax.devices()
        return {
            "code": self._spec.code,
            "jax": jax.__version__,
            "device": devices[0].device_kind,
            "devices": len(devices),
        }

    def _save(self, info: Any, logs: Mapping[str, MetricsLog]) -> None:
        if found := non_finite_arrays(info.state.saveable_state):
            what = f"the update left {write_arrays(found)}"
            raise self._diverged(info.step, what, float(rate_used(info.state.opt_state)))
        texts = {name: log.text() for name, log in logs.items()}
        self._saving.begin(info.state, self._facts(info.step + 1, info.loss), texts)

    def _facts(self, step: int, loss: float | None) -> checkpoint.Facts:
        spec = self._spec
        return checkpoint.Facts(
            step=step,
            tokens=self._schedule.tokens(spec.lengths or spec.seq_len, 0, step),
            loss=loss,
            model=spec.model,
            vocabulary=spec.vocabulary,
            averaged=spec.optimizer.ema is not None,
            finite=True,
            optimizer=spec.optimizer,
            schedule=spec.schedule,
            settings=self._settings,
            before=spec.before,
            lora=spec.lora,
        )


def _batches(spec: TrainingSpec, trainer: Trainer) -> tuple[Batches, BatchSchedule]:
    stores = {source.name: TokenStore.open(Directory(source.store)) for source in spec.sources}
    schedule = BatchSchedule(spec.batch)
    order = OrderSpec(
        stages=Stages(
            {
                step: Interpolation(Mixture(shares), over)
                if (over := spec.interpolations.get(step))
                else Mixture(shares)
                for step, shares in spec.stages.items()
            }
        ),
        batch=schedule,
        shuffle=Shuffle(spec.shuffle),
        seed=spec.seed,
        block=spec.block,
        seq_len=spec.seq_len,
        first=spec.first_step,
        end=spec.end_step,
        max_epochs=spec.max_epochs,
        allow_starved=spec.allow_starved,
        lengths=spec.lengths or None,
    ).order(stores)
    in_order = [stores[name] for name in order.sources]
    eos = in_order[0].meta.eos if spec.separate_documents else None
    return Batches(order, in_order, schedule, seq_len=spec.seq_len, eos=eos, trainer=trainer), schedule
