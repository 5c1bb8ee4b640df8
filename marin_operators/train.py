"""Train: a language model on staged mixtures, from scratch, from another architecture, or as a fork."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from marin import (
    FOREVER,
    BatchSchedule,
    Checkpoint,
    Context,
    Directory,
    ExecutorStep,
    Lifetime,
    Shuffle,
    Size,
    Stages,
    Tokens,
    Work,
    execution,
    since,
    value,
)
from marin.data.mixture import active_within, source_name
from marin.data.order_spec import OrderSpec
from marin.errors import BadField, InputError, UnreadableCheckpoint
from marin.training.model import ModelShape, Precision, Recompute
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from marin_operators.tokenize import Tokenize
from marin_operators.train_tokenizer import TrainTokenizer


@value("fork_optimizer")
class OptimizerState(Enum):
    """What a run does with the optimizer state of the checkpoint that it begins with.

    KEPT: every array of it that this run's optimizer has, too: where a guard (clipping, skipping, the moving average)
    is switched on or off, the rest is kept and that guard begins anew. What was kept, fresh and left out is in
    warm_start.json, and in the log.
    """

    _value_: str
    KEPT = "kept"
    FRESH = "fresh"


@value("warm_start")
class WarmStart:
    """Begin with the weights of another architecture; what it lacks (QK-Norm) and the moving average are fresh."""

    checkpoint: ExecutorStep[Checkpoint]
    optimizer_state: OptimizerState = since(2, default=OptimizerState.FRESH)


@value("fork")
class Fork:
    """Go on from a checkpoint of the same model, with its optimizer state or a fresh one."""

    checkpoint: ExecutorStep[Checkpoint]
    optimizer_state: OptimizerState = OptimizerState.KEPT


class Train(ExecutorStep[Checkpoint], op="train"):
    """The last checkpoint of a run over the optimizer steps first_step … end_step, with metrics.jsonl.

    vocabulary: rows of the embedding, at least the tokenizer's. data: stages of token stores, by step
    of the whole run, so that a fork names its parent's stages too. block: sequences among which a
    mixture is exact. max_epochs, allow_starved: the gates of marin.data.order. separate_documents:
    whether attention stops at document boundaries. checkpoint_every: steps between resumable
    checkpoints. recompute: what the backward pass computes again.

    Output: the final checkpoint (marin.training.checkpoint); below ``kept/`` the checkpoints that milestones
    asked for; warm_start.json if it began from another run's: what was taken from that, what is fresh or left
    out, and what changed in the recipe.
    """

    model: ModelShape
    vocabulary: int
    optimizer: Adam
    schedule: Schedule
    data: Stages[ExecutorStep[Tokens]]
    batch: BatchSchedule
    seq_len: int
    shuffle: Shuffle
    seed: int
    block: int
    end_step: int
    first_step: int = 0
    start: WarmStart | Fork | None = None
    precision: Precision = Precision.FLOAT32
    separate_documents: bool = True
    max_epochs: float = 4.0
    allow_starved: tuple[str, ...] = ()
    checkpoint_every: int = execution(default=1000)
    recompute: Recompute = execution(default=Recompute.NOTHING)

    def check(self) -> None:
        if self.end_step <= self.first_step:
            verb = "train" if self.start is None else "anneal"
            raise BadField(
                f"{self.called()}: cannot {verb} from step {self.first_step} to {self.end_step}: end must come later"
            )
        if self.seq_len > self.model.seq_len:
            raise BadField(
                f"{self.called()}: seq_len is {self.seq_len}, the model was shaped for {self.model.seq_len}; "
                "shorten the one or lengthen the other"
            )
        if self.vocabulary < 2 or self.checkpoint_every < 1:
            raise BadField(
                f"{self.called()}: vocabulary {self.vocabulary} and checkpoint_every {self.checkpoint_every}; "
                "wanted at least 2 and 1"
            )
        if self.start is None and self.first_step:
            raise BadField(
                f"{self.called()}: begins at step {self.first_step} with nothing to begin from; "
                "give start=WarmStart(…) or start=Fork(…), or first_step=0"
            )
        if self.start is None and self.schedule.warmup >= self.end_step:
            raise BadField(
                f"{self.called()}: the warmup takes {self.schedule.warmup:,} steps and the run ends at step "
                f"{self.end_step:,}, before it reaches its peak rate; shorten the one or lengthen the other"
            )
        self._check_batches()
        self._check_vocabulary()
        if self.start is not None:
            self._check_start(self.start)

    def at(self, step: int, *, lifetime: Lifetime = FOREVER) -> Milestone:
        """The checkpoint after ``step`` optimizer steps, there as soon as the run has reached it."""
        label = f"{self.label}@{step}" if self.label else ""
        return Milestone(training=self, step=step, label=label, lifetime=lifetime)

    def called(self) -> str:
        return f"Train {self.label!r}" if self.label else "Train"

    def tokens_trained(self) -> int:
        """Tokens of this run's own steps."""
        return self.batch.tokens(self.seq_len, self.first_step, self.end_step)

    def flops(self) -> float:
        """Floating-point operations of this run's own steps: see ModelShape.flops_per_token."""
        return self.tokens_trained() * self.model.flops_per_token(self.vocabulary, self.seq_len)

    def work(self) -> Work:
        return Work(steps=self.end_step - self.first_step, tokens=self.tokens_trained(), flops=self.flops())

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size:
        """Of the checkpoint: float32 weights, Adam's two moments, and the moving average if there is one."""
        copies = 3 if self.optimizer.ema is None else 4
        return Size(bytes=4 * copies * self.model.parameters(self.vocabulary))

    def run(self, ctx: Context) -> Checkpoint:
        import tempfile
        from pathlib import Path

        from marin.training import checkpoint
        from marin.training.process import Listeners, run_training

        spec = self._spec(ctx)
        saved = ctx.state / "checkpoints"
        published: set[int] = set()

        def on_step(done: int, loss: float) -> None:
            ctx.progress(done, self.end_step, "steps", note=f"loss {loss:.3f}")

        def on_printed(line: str) -> None:
            ctx.log(f"trainer: {line}")

        def on_checkpoint(done: int) -> None:
            if done in ctx.milestones and done not in published:
                source = checkpoint.step_directory(saved, done)
                ctx.publish(self.at(done), artifact_of(source), source)
                published.add(done)

        with tempfile.TemporaryDirectory(prefix="marin-training-") as scratch:
            timings = run_training(
                spec,
                (ctx.state.path if ctx.state.is_local else Path(scratch)) / "training.log",
                Listeners(step=on_step, checkpoint=on_checkpoint, note=ctx.log, printed=on_printed),
                accelerator=self.resources.accelerator is not None,
            )
        ctx.log(
            f"imported in {timings.imported:.1f} s, began at step {timings.began_at} {timings.prepared:.1f} s later"
        )
        checkpoint.copy(checkpoint.step_directory(saved, self.end_step), ctx.out)
        for done in checkpoint.complete_steps(saved):
            if done in spec.keep_steps:
                checkpoint.copy(
                    checkpoint.step_directory(saved, done), checkpoint.step_directory(ctx.out / "kept", done)
                )
        if self.start is not None:
            ctx.out.write_text("warm_start.json", ctx.state.read_text("warm_start.json"))
        return artifact_of(ctx.out)

    def _check_batches(self) -> None:
        """Every chip takes equally many sequences of a batch."""
        accelerator = self.resources.accelerator
        if accelerator is None:
            return
        for step, size in active_within(self.batch.at, self.first_step, self.end_step).items():
            if rest := size % accelerator.chips:
                legal = [near for near in (size - rest, size - rest + accelerator.chips) if near]
                raise BadField(
                    f"{self.called()}: a batch of {size:,} sequences, from step {step:,} on, cannot be shared by the "
                    f"{accelerator.chips:,} chips of {accelerator}. Nearest that can: "
                    f"{' and '.join(f'{near:,}' for near in legal)}; or make those steps a run of its own on other "
                    "chips, which begins with Fork(…)"
                )

    def _check_vocabulary(self) -> None:
        """As far as the tokenizer is known before it is made; the tokens are checked when the run begins."""
        for tokens in self.data.sources:
            tokenizer = tokens.tokenizer if isinstance(tokens, Tokenize) else None
            if isinstance(tokenizer, TrainTokenizer) and tokenizer.vocabulary > self.vocabulary:
                raise BadField(
                    f"{self.called()}: vocabulary is {self.vocabulary:,}, the tokenizer of {tokens.name} may have "
                    f"{tokenizer.vocabulary:,} entries; wanted at least as many"
                )

    def _check_start(self, start: WarmStart | Fork) -> None:
        source = start.checkpoint
        training = source.training if isinstance(source, Milestone) else source
        if not isinstance(training, Train):
            return
        theirs, ours = training.model, self.model
        if isinstance(start, WarmStart):
            theirs = replace(theirs, architecture=ours.architecture)
        if replace(theirs, seq_len=ours.seq_len, rope_theta=ours.rope_theta, rope=ours.rope) != ours:
            remedy = "use WarmStart" if isinstance(start, Fork) else "a warm start needs the same sizes"
            raise BadField(f"{self.called()}: its model is not that of {training.called()}; {remedy}")
        if training.vocabulary != self.vocabulary:
            raise BadField(
                f"{self.called()}: vocabulary {self.vocabulary}, but it begins from one of {training.vocabulary}"
            )
        reached = source.step if isinstance(source, Milestone) else training.end_step
        if start.optimizer_state is OptimizerState.KEPT and reached != self.first_step:
            verb = "forks" if isinstance(start, Fork) else "starts"
            raise BadField(
                f"{self.called()}: begins at step {self.first_step}, but {verb} from step {reached} with the "
                "optimizer state; begin at that step or with OptimizerState.FRESH"
            )

    def _spec(self, ctx: Context) -> Any:
        from marin.training.process import compiled_folder
        from marin.training.spec import Source, Start, StartMode, TrainingSpec
        from marin.training.tracking import Tracked

        for tokens in self.data.sources:
            if ctx[tokens].vocabulary > self.vocabulary:
                raise InputError(
                    f"{self.name}: {tokens.name} has token ids up to {ctx[tokens].vocabulary - 1}, the model has a "
                    f"vocabulary of {self.vocabulary}; raise it"
                )
        start = None
        if self.start is not None:
            modes = {
                Fork: {OptimizerState.KEPT: StartMode.ALL, OptimizerState.FRESH: StartMode.WEIGHTS},
                WarmStart: {OptimizerState.KEPT: StartMode.WARM_ALL, OptimizerState.FRESH: StartMode.WARM},
            }
            mode = modes[type(self.start)][self.start.optimizer_state]
            start = Start(mode=mode, checkpoint=ctx[self.start.checkpoint].directory.url)
        return TrainingSpec(
            model=self.model,
            vocabulary=self.vocabulary,
            optimizer=self.optimizer,
            schedule=self.schedule,
            precision=self.precision,
            recompute=self.recompute,
            sources=tuple(Source(name=source_name(t), store=ctx[t].directory.url) for t in self.data.sources),
            stages={
                step: {source_name(tokens): share for tokens, share in mixture.weights.items()}
                for step, mixture in self.data.at.items()
            },
            batch=dict(self.batch.at),
            shuffle=self.shuffle.value,
            seed=self.seed,
            block=self.block,
            seq_len=self.seq_len,
            separate_documents=self.separate_documents,
            max_epochs=self.max_epochs,
            allow_starved=self.allow_starved,
            first_step=self.first_step,
            end_step=self.end_step,
            start=start,
            state=ctx.state.url,
            checkpoint_every=self.checkpoint_every,
            keep_steps=tuple(ctx.milestones),
            compiled=str(compiled_folder() / "programs"),
            tracked=Tracked(tracker=ctx.tracker, name=self.label, identity=self.identity) if ctx.tracker else None,
        )


class Milestone(ExecutorStep[Checkpoint], op="milestone"):
    """The checkpoint of a run after ``step`` optimizer steps; committed while the run goes on."""

    training: Train
    step: int

    def check(self) -> None:
        run = self.training
        if not run.first_step < self.step <= run.end_step:
            raise BadField(
                f"{run.called()}.at({self.step}): the run makes the steps {run.first_step} to {run.end_step}; "
                f"ask for a step from {run.first_step + 1} to {run.end_step}"
            )

    @property
    def producer(self) -> Train:
        return self.training

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size:
        return self.training.expected_size(inputs)

    def run(self, ctx: Context) -> Checkpoint:
        from marin.training import checkpoint

        kept = ctx[self.training].directory
        if self.step == self.training.end_step:
            checkpoint.copy(kept, ctx.out)
            return artifact_of(ctx.out)
        source = checkpoint.step_directory(kept / "kept", self.step)
        if not source.exists(checkpoint.MARKER):
            steps = [*checkpoint.complete_steps(kept / "kept"), self.training.end_step]
            raise UnreadableCheckpoint(
                f"{self.name}: the finished run {self.training.name} kept no checkpoint of step {self.step}; it has "
                f"{', '.join(map(str, steps))}. Ask for one of those, or rebuild the run with this milestone"
            )
        checkpoint.copy(source, ctx.out)
        return artifact_of(ctx.out)


def artifact_of(directory: Directory) -> Checkpoint:
    """The artifact that describes the checkpoint in a directory. Raises UnreadableCheckpoint."""
    from marin.training.checkpoint import read_facts

    facts = read_facts(directory)
    return Checkpoint(
        step=facts.step,
        tokens=facts.tokens,
        parameters=facts.parameters,
        architecture=facts.model.architecture.value,
        loss=facts.loss,
    )


def order_of(run: Train) -> OrderSpec[ExecutorStep[Tokens]]:
    """The order of a run's own data: what evidence about it must look at."""
    return OrderSpec(
        stages=run.data,
        batch=run.batch,
        shuffle=run.shuffle,
        seed=run.seed,
        block=run.block,
        seq_len=run.seq_len,
        first=run.first_step,
        end=run.end_step,
        max_epochs=run.max_epochs,
        allow_starved=run.allow_starved,
    )
