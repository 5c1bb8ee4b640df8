"""Train: train a language model on staged mixtures, from scratch, from another architecture, or as a fork."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from marin import (
    FOREVER,
    BatchSchedule,
    Checkpoint,
    Context,
    ExecutorStep,
    Lifetime,
    Report,
    Shuffle,
    Size,
    Stages,
    Tokens,
    Work,
    execution,
    since,
)
from marin.data.by_step import active_within
from marin.data.mixture import source_name
from marin.data.order_spec import order_of as order_of
from marin.data.searched import reader
from marin.errors import BadField, InputError, NonFiniteLoss, UnreadableCheckpoint
from marin.training.costs import Costs
from marin.training.lora import LoRA
from marin.training.model import ModelShape, Precision, Recompute
from marin.training.optimizer import Optimizer
from marin.training.schedule import Schedule
from operators.checkpoint_artifact import artifact_of
from operators.early_end import EarlyEnd, keep_last_good
from operators.lora_checks import must_adapt, only_at_its_end
from operators.machines import must_suit_machines
from operators.on_hosts import train_on
from operators.pretrained_model import FolderModel, PretrainedModel
from operators.start import Fork, OptimizerState, WarmStart
from operators.start_checks import must_have_histories, must_read_on, must_suit_published, must_suit_run
from operators.tokenize import must_begin_alike, token_before_texts
from operators.tokenize_chats import must_fit
from operators.watch import Watch


class Train(ExecutorStep[Checkpoint], op="train", uses_accelerator=True):
    """The last checkpoint of a run over the optimizer steps first_step … end_step, with metrics.jsonl.

    vocabulary: rows of the embedding, at least the tokenizer's. data: stages of token stores, by step of the whole run;
    a fork names its parent's stages too. block: sequences among which a mixture is exact. max_epochs, allow_starved:
    the gates of marin.data.order. separate_documents: whether attention stops at document boundaries. recompute: the
    values that the backward pass computes again. watch: held-out text and prompts to score during the run. gates:
    reports without which the run does not begin (``Inspect(…).passed``).

    A run that is cut short resumes from its last checkpoint. It writes one every ``checkpoint_every`` steps, and when
    ``checkpoint_minutes`` have passed without one; only the last two stay. keep_every: steps between checkpoints that
    stay for good, so that later runs can begin with ``run.at(step)``. keep_at: single steps to keep so. hang_minutes:
    a run that makes no step for so long is killed and resumes from its last checkpoint; None waits forever. Before its
    first steps a run has at least an hour.

    tensor: chips that share each group of attention heads and the inner dimension (tensor parallelism). Use it when a
    batch has fewer sequences than there are chips, or when activations do not fit on one chip. sequences_per_device:
    the sequences that a chip, or a group of ``tensor`` chips, works on at once (micro-batches); None for its share of
    the batch. lora: adapters to train instead of the weights of ``start``; the run merges them into the weights at the
    end. early_end: lets a run that diverges end early, and say so, instead of failing.

    Output: the final checkpoint (marin.training.checkpoint), with samples.jsonl if the watch has prompts. ``kept/``
    holds the checkpoints for milestones, keep_every and keep_at. A run that began from another run's checkpoint writes
    warm_start.json: the parts that it took, the fresh parts, the parts left out, and changed settings. A run that was
    cut short writes resumes.jsonl: the steps from which it resumed, and changes in machines, versions, code and
    settings.
    """

    model: ModelShape
    vocabulary: int
    optimizer: Optimizer
    schedule: Schedule
    data: Stages[ExecutorStep[Tokens]]
    batch: BatchSchedule
    seq_len: int
    seed: int
    block: int
    end_step: int
    shuffle: Shuffle = Shuffle.SPLITMIX
    first_step: int = 0
    start: WarmStart | Fork | None = None
    precision: Precision = Precision.FLOAT32
    separate_documents: bool = True
    max_epochs: float = 4.0
    allow_starved: tuple[str, ...] = ()
    watch: Watch | None = since(2, default=None)
    gates: tuple[ExecutorStep[Report], ...] = since(2, default=())
    lora: LoRA | None = since(3, default=None)
    early_end: EarlyEnd | None = since(4, default=None)
    checkpoint_every: int = execution(default=1000)
    checkpoint_minutes: float | None = execution(default=30.0)
    keep_every: int | None = execution(default=None)
    keep_at: tuple[int, ...] = execution(default=())
    recompute: Recompute = execution(default=Recompute.NOTHING)
    hang_minutes: float | None = execution(default=10.0)
    tensor: int = execution(default=1)
    sequences_per_device: int | None = execution(default=None)

    def check(self) -> None:
        if self.end_step <= self.first_step:
            verb = "train" if self.start is None else "anneal"
            raise BadField(
                f"{self.called()}: cannot {verb} from step {self.first_step} to {self.end_step}: end must come later"
            )
        if self.seq_len > self.model.seq_len:
            raise BadField(
                f"{self.called()}: seq_len is {self.seq_len}, but the model is built for {self.model.seq_len}; "
                "lower seq_len, or raise the model's"
            )
        for name, least in (("vocabulary", 2), ("seq_len", 2), ("block", 1)):
            if getattr(self, name) < least:
                raise BadField(f"{self.called()}: {name} is {getattr(self, name)}; wanted at least {least}")
        for name in ("max_epochs", "checkpoint_every", "checkpoint_minutes", "keep_every", "hang_minutes"):
            amount = getattr(self, name)
            if amount is not None and not amount > 0:
                raise BadField(f"{self.called()}: {name} is {amount}; wanted more than 0")
        if self.start is None and self.first_step:
            raise BadField(
                f"{self.called()}: begins at step {self.first_step} without a checkpoint; "
                "give start=WarmStart(…) or start=Fork(…), or first_step=0"
            )
        if self.start is None and self.schedule.warmup >= self.end_step:
            raise BadField(
                f"{self.called()}: the warmup takes {self.schedule.warmup:,} steps, but the run ends at step "
                f"{self.end_step:,}, before it reaches its peak rate; shorten the warmup or lengthen the run"
            )
        if self.watch is not None:
            self.watch.must_fit(self.called(), self.seq_len)
        self._check_batches()
        for tokens in self.data.sources:
            must_fit(tokens, self.called(), self.seq_len, self.vocabulary)
        must_begin_alike(self.data.sources, self.called())
        if self.lora is not None:
            must_adapt(self, self.lora, self.start)
            if kept := self.kept_steps():
                raise only_at_its_end(self.called(), f"keep_every and keep_at keep steps {', '.join(map(str, kept))}")
        if self.start is not None:
            self._check_start(self.start)
            history = self.start.clip_history
            must_have_histories(self, self.start, None if history is None else trained_by(history))

    def at(self, step: int, *, lifetime: Lifetime = FOREVER) -> Milestone:
        """Return the checkpoint after ``step`` optimizer steps; it is committed as soon as the run has reached them."""
        label = f"{self.label}@{step}" if self.label else ""
        return Milestone(training=self, step=step, label=label, lifetime=lifetime)

    def goes_on_from(self) -> Train | None:
        """Return the run whose count of optimizer steps this run continues; None if its own count begins at 0."""
        if self.start is None or not self.first_step:
            return None
        training = trained_by(source := self.start.checkpoint)
        return training if training is not None and _reached(source, training) == self.first_step else None

    def lengths(self) -> dict[int, int]:
        """Return tokens per sequence by first step, of this run and of the runs that it continues."""
        before = self.goes_on_from()
        return {0: self.seq_len} if before is None else {**before.lengths(), self.first_step: self.seq_len}

    def kept_steps(self) -> tuple[int, ...]:
        """Return the steps that ``keep_every`` and ``keep_at`` keep. The last checkpoint is always kept."""
        every = self.keep_every or self.end_step
        regular = range(every * (self.first_step // every + 1), self.end_step, every)
        return tuple(sorted({*regular, *(step for step in self.keep_at if self.first_step < step < self.end_step)}))

    def called(self) -> str:
        return f"Train {self.label!r}" if self.label else "Train"

    def tokens_trained(self) -> int:
        """Return the tokens of this run's own steps."""
        return self.batch.tokens(self.seq_len, self.first_step, self.end_step)

    def flops(self) -> float:
        """Return the floating-point operations of this run's own steps."""
        return self.tokens_trained() * self.costs.flops_per_token(self.seq_len)

    def work(self) -> Work:
        return Work(steps=self.end_step - self.first_step, tokens=self.tokens_trained(), flops=self.flops())

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size:
        """Return the size of the last checkpoint and the checkpoints that keep_every and keep_at keep."""
        return Size(bytes=self.checkpoint_bytes() * (1 + len(self.kept_steps())))

    def checkpoint_bytes(self) -> int:
        return self.costs.checkpoint_bytes

    @property
    def costs(self) -> Costs:
        return Costs(
            model=self.model,
            vocabulary=self.vocabulary,
            optimizer=self.optimizer,
            precision=self.precision,
            tensor=self.tensor,
            lora=self.lora,
        )

    def run(self, ctx: Context) -> Checkpoint:
        from marin.training import checkpoint
        from marin.training.process import Listeners
        from marin.training.spec import PROFILE

        if self.early_end is not None and (cut := self.early_end.when_cut(ctx, self.start)) is not None:
            return cut
        spec = self._spec(ctx)
        saved = ctx.state / (checkpoint.RESUMABLE if self.lora is None else checkpoint.MERGED)
        published: set[int] = set()
        kept: set[int] = set()

        def keep(done: int) -> None:
            if done not in kept:
                target = ctx.out if done == self.end_step else checkpoint.step_directory(ctx.out / "kept", done)
                checkpoint.copy(checkpoint.step_directory(saved, done), target)
                kept.add(done)

        def on_checkpoint(done: int) -> None:
            # Keep before publishing: a later link to the files would look like a write to a step that reads them.
            if done in spec.keep_steps or done == self.end_step:
                keep(done)
            if done in ctx.milestones and done not in published:
                source = checkpoint.step_directory(saved, done)
                ctx.publish(self.at(done), artifact_of(source), source)
                published.add(done)

        listeners = Listeners(
            step=lambda done, loss: ctx.progress(done, self.end_step, "steps", note=f"loss {loss:.3f}"),
            checkpoint=on_checkpoint,
            note=ctx.note,
            printed=lambda line: ctx.log(f"trainer: {line}"),
        )
        train_here = functools.partial(train_on, spec=spec, accelerator=ctx.accelerator is not None)
        try:
            timings = ctx.on_hosts(lambda host: train_here(host, listeners=listeners), train_here)
        except NonFiniteLoss as error:
            if self.early_end is None:
                raise
            return keep_last_good(ctx, saved, error)
        ctx.log(f"imported in {timings.imported:.1f} s, began at step {timings.began_at} in {timings.prepared:.1f} s")
        for done in checkpoint.complete_steps(saved):
            if done in spec.keep_steps or done == self.end_step:
                keep(done)
        for name in filter(ctx.state.exists, (PROFILE, "warm_start.json", "resumes.jsonl")):
            ctx.state.copy(name, ctx.out)
        return artifact_of(ctx.out)

    def _check_batches(self) -> None:
        """Check that the run holds at least one block, and fits all machines that it may run on."""
        sequences = self.batch.sequences_before(self.end_step)
        if self.block > sequences:
            raise BadField(
                f"{self.called()}: block is {self.block:,} sequences, but the whole run has only {sequences:,}, so a "
                "mixture would never be exact; lower block"
            )
        must_suit_machines(
            self.called(),
            self.costs,
            active_within(self.batch.at, self.first_step, self.end_step),
            self.resources.accelerators,
            self.sequences_per_device,
        )

    def _check_start(self, start: WarmStart | Fork) -> None:
        source = start.checkpoint
        if isinstance(source, PretrainedModel | FolderModel):
            must_suit_published(self, start, source)
        training = trained_by(source)
        if training is None:
            return
        must_suit_run(self, start, training)
        reached = _reached(source, training)
        if start.optimizer_state is OptimizerState.KEPT and reached != self.first_step:
            verb = "forks" if isinstance(start, Fork) else "starts"
            raise BadField(
                f"{self.called()}: begins at step {self.first_step}, but {verb} from step {reached} with the "
                "optimizer state; begin at that step or with OptimizerState.FRESH"
            )
        if (before := self.goes_on_from()) is not None:
            must_read_on(self, before)

    def _spec(self, ctx: Context) -> Any:
        from marin.training.spec import Source, Start, StartMode, TrainingSpec
        from marin.training.tracking import Tracked

        for tokens in self.data.sources:
            if ctx[tokens].vocabulary > self.vocabulary:
                raise InputError(
                    f"{self.name}: {tokens.name} has token ids up to {ctx[tokens].vocabulary - 1}, but the model has a "
                    f"vocabulary of {self.vocabulary}; raise vocabulary"
                )
        start = None
        if self.start is not None:
            kept, fresh = {
                Fork: (StartMode.ALL, StartMode.WEIGHTS),
                WarmStart: (StartMode.WARM_ALL, StartMode.WARM),
            }[type(self.start)]
            history, state = self.start.clip_history, self.start.optimizer_state
            start = Start(
                mode=kept if state is OptimizerState.KEPT else fresh,
                checkpoint=ctx[self.start.checkpoint].directory.url,
                clip_history=None if history is None else ctx[history].directory.url,
                rebuild=self.start.replayed if state is OptimizerState.REBUILT else 0,
            )
        before = token_before_texts(ctx, self.data.sources, self.start and self.start.checkpoint)
        chips = ctx.accelerator
        data = self.data.looked_up(reader(lambda report: ctx[report].directory))
        data = data.resolved({tokens: ctx[tokens].tokens for tokens in self.data.sources})
        return TrainingSpec(
            model=self.model,
            vocabulary=self.vocabulary,
            optimizer=self.optimizer,
            schedule=self.schedule,
            precision=self.precision,
            recompute=self.recompute,
            sources=tuple(Source(name=source_name(t), store=ctx[t].directory.url) for t in self.data.sources),
            stages={step: mixture.by_name() for step, mixture in data.known().items()},
            interpolations=data.interpolations,
            batch=dict(self.batch.at),
            shuffle=self.shuffle.value,
            seed=self.seed,
            block=self.block,
            seq_len=self.seq_len,
            separate_documents=self.separate_documents,
            max_epochs=self.max_epochs,
            allow_starved=self.allow_starved,
            lengths=self.lengths(),
            first_step=self.first_step,
            end_step=self.end_step,
            start=start,
            state=ctx.state.url,
            checkpoint_every=self.checkpoint_every,
            checkpoint_minutes=self.checkpoint_minutes,
            keep_steps=tuple(sorted({*ctx.milestones, *self.kept_steps()})),
            tracked=Tracked(tracker=ctx.tracker, name=self.label, identity=self.identity) if ctx.tracker else None,
            before=before,
            watch=self.watch and self.watch.lay_out(ctx, self.seq_len, before, separate=self.separate_documents),
            peak_flops=chips.chips * chips.peak_flops if chips is not None else 0.0,
            code=ctx.code,
            profile=ctx.profile,
            hang_minutes=self.hang_minutes,
            tensor=self.tensor if chips is not None else 1,
            sequences_per_device=self.sequences_per_device,
            lora=self.lora,
            save_start=self.early_end is not None,
        )


class Milestone(ExecutorStep[Checkpoint], op="milestone"):
    """The checkpoint of a run after ``step`` optimizer steps, committed while the run continues."""

    training: Train
    step: int

    def check(self) -> None:
        run = self.training
        if run.lora is not None:
            raise only_at_its_end(run.called(), f"at({self.step})")
        if not run.first_step < self.step <= run.end_step:
            raise BadField(
                f"{run.called()}.at({self.step}): the run makes the steps {run.first_step} to {run.end_step}; "
                f"ask for a step from {run.first_step + 1} to {run.end_step}"
            )

    @property
    def producer(self) -> Train:
        return self.training

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size:
        return Size(bytes=self.training.checkpoint_bytes())

    def run(self, ctx: Context) -> Checkpoint:
        from marin.training import checkpoint

        kept = ctx[self.training].directory
        source = kept if self.step == self.training.end_step else checkpoint.step_directory(kept / "kept", self.step)
        if not source.exists(checkpoint.MARKER):
            steps = [*checkpoint.complete_steps(kept / "kept"), self.training.end_step]
            raise UnreadableCheckpoint(
                f"{self.name}: the finished run {self.training.name} kept no checkpoint of step {self.step}; it has "
                f"{', '.join(map(str, steps))}. Ask for one of those, or rebuild the run with this milestone"
            )
        checkpoint.copy(source, ctx.out)
        return artifact_of(ctx.out)


def _reached(checkpoint: ExecutorStep[Checkpoint], training: Train) -> int:
    return checkpoint.step if isinstance(checkpoint, Milestone) else training.end_step


def trained_by(checkpoint: ExecutorStep[Checkpoint]) -> Train | None:
    """Return the run that made a checkpoint; None for a checkpoint from elsewhere."""
    training = checkpoint.training if isinstance(checkpoint, Milestone) else checkpoint
    return training if isinstance(training, Train) else None
