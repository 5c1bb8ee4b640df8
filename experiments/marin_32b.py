"""Marin 32B before its cooldown: Llama to step 80,000, then Qwen3 (QK-Norm) to 160,000.

Issues 1295 and 1395. Optimizer steps are counted over the whole run, as the retrospective does.
https://marin.readthedocs.io/en/latest/reports/marin-32b-retro/
"""

from dataclasses import dataclass, replace

from experiments.pipeline import Pipeline, TokenMix
from marin import CPU, BatchSchedule, Checkpoint, ExecutorStep, Items, Resources, Scale, Shuffle, Stages, Tokens
from marin.training.model import Architecture, Llama3Rope, ModelShape, Precision, Recompute
from marin.training.optimizer import Adam
from marin.training.schedule import Decay, Rewarmup, Schedule
from marin_datasets import gsm8k, held_out
from marin_infra.hardware import tpu
from marin_operators.evaluate import Evaluate
from marin_operators.exposure import Exposure
from marin_operators.train import Fork, Milestone, OptimizerState, Train, WarmStart, order_of

WARMUP = 10_000  # optimizer steps: a hundredth of the million that were planned, and never reached
REWARMUP = 1_000  # after the switch of architecture
QK_NORM_FROM = 80_000
FLOOR = 0.1  # of the peak rate: where re-warmups begin and the cooldown ends
BATCH = BatchSchedule({0: 8192, 18_500: 7680, 21_010: 8192})
UNCLIPPED = Adam(max_grad_norm=1.0, clip_update_norm=None)
# Before QK-Norm: the machines, which the batch must fit, and the guards, by the step from which each held. Where the
# sources differ: the configuration has a gradient norm of .2 throughout, the final retrospective 1.0 until 56,400; the
# clip of updates came at 72,233 and was off from "about 74k" until 80,000.
PHASES = {
    0: (tpu("v5p-512", slices=4), UNCLIPPED),
    18_500: (tpu("v5p-512", slices=3), UNCLIPPED),
    21_010: (tpu("v4-2048"), UNCLIPPED),
    56_400: (tpu("v4-2048"), Adam(clip_update_norm=None)),
    72_233: (tpu("v4-2048"), Adam()),
    74_000: (tpu("v4-2048"), Adam(clip_update_norm=None)),
}
# Held-out text that bits per byte are measured on.
DOMAINS = {Scale.FULL: ("web", "prose"), Scale.REHEARSAL: ("web", "code", "prose", "reference", "math")}


@dataclass(frozen=True, kw_only=True)
class Size:
    """The same run, large or small. steps, batch: divisors of the published counts."""

    steps: int
    batch: int
    seq_len: int
    block: int  # sequences among which the mixture is exact
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    peak_lr: float
    precision: Precision
    recompute: Recompute
    checkpoint_every: int
    resources: Resources

    def step(self, published: int) -> int:
        return published // self.steps

    def model(self, architecture: Architecture) -> ModelShape:
        return ModelShape(
            architecture=architecture,
            hidden=self.hidden,
            intermediate=self.intermediate,
            layers=self.layers,
            heads=self.heads,
            kv_heads=self.kv_heads,
            seq_len=self.seq_len,
            rope=Llama3Rope(),
        )


SIZES = {
    Scale.FULL: Size(
        steps=1,
        batch=1,
        seq_len=4096,
        block=2048,
        hidden=5120,
        intermediate=27648,
        layers=64,
        heads=40,
        kv_heads=8,
        peak_lr=7e-4,
        precision=Precision.BFLOAT16,
        recompute=Recompute.OFFLOAD,
        checkpoint_every=1000,
        resources=tpu("v4-2048"),
    ),
    Scale.REHEARSAL: Size(
        steps=1000,
        batch=256,
        seq_len=128,
        block=32,
        hidden=128,
        intermediate=384,
        layers=2,
        heads=4,
        kv_heads=2,
        peak_lr=5e-3,  # 1/40 of the width; 7e-4 ends .65 nats higher after 80 steps, 3e-3 and 8e-3 within .05
        precision=Precision.FLOAT32,
        recompute=Recompute.NOTHING,
        checkpoint_every=20,
        resources=Resources(cpus=1),  # two runs side by side fill two cores better than one after the other
    ),
}


@dataclass(frozen=True)
class Marin32B:
    """The run on this data, with steps as published: the scale's size says how many that are here."""

    data: Pipeline

    @property
    def size(self) -> Size:
        return SIZES[self.data.scale]

    def llama(self, mix: TokenMix) -> Train:
        """From scratch to the step at which QK-Norm came: a run for each phase, which goes on from the one before.

        A rehearsal is one phase: to start a trainer takes longer than the steps of most.
        """
        phases = PHASES if self.data.scale is Scale.FULL else {0: (self.size.resources, Adam())}
        run = None
        for (begin, (resources, recipe)), end in zip(phases.items(), [*list(phases)[1:], QK_NORM_FROM], strict=True):
            run = self.train(
                "32b-llama" if run is None else f"32b-llama-{begin}",
                steps=(begin, end),
                start=None if run is None else Fork(self.at(run, begin)),
                data={0: mix},
                architecture=Architecture.LLAMA,
                warmup=WARMUP,
                recipe=recipe,
                resources=resources,
            )
        assert run is not None
        return run

    def qwen3(self, mix: TokenMix, until: int) -> Train:
        """Qwen3, which is Llama with QK-Norm, from Llama's weights and optimizer; the learning rate is warmed up again.

        The clip's history, which Llama did not keep at the end, begins anew; the original took that of an older one.
        """
        switched = WarmStart(self.at(self.llama(mix), QK_NORM_FROM), OptimizerState.KEPT)
        return self.train("32b-qwen3", steps=(QK_NORM_FROM, until), start=switched, data={0: mix}, warmup=WARMUP)

    def pretrained(self, mix: TokenMix, until: int) -> Milestone:
        """The checkpoint that cooldowns start from."""
        return self.at(self.qwen3(mix, until), until)

    def at(self, run: Train, step: int) -> Milestone:
        """The run's checkpoint after so many steps, as published."""
        return run.at(self.size.step(step))

    def train(
        self,
        name: str,
        *,
        steps: tuple[int, int],
        data: dict[int, TokenMix],
        start: WarmStart | Fork | None = None,
        architecture: Architecture = Architecture.QWEN3,
        shuffle: Shuffle = Shuffle.LINEAR,  # as it was; Feistel came with Mantis
        warmup: int = 0,
        cooldown: bool = False,
        allow_starved: tuple[str, ...] = (),
        recipe: Adam = Adam(),  # noqa: B008  # a frozen value
        resources: Resources | None = None,
    ) -> Train:
        """steps: the first one, and the one before which it ends. data: mixtures by the step from which they are read.

        cooldown: the learning rate decays to a tenth of its peak, with AdamC's weight decay.
        """
        size, (first, end) = self.size, map(self.size.step, steps)
        again = (Rewarmup(at=first, steps=max(1, size.step(REWARMUP))),) if isinstance(start, WarmStart) else ()
        return Train(
            label=name,
            model=size.model(architecture),
            vocabulary=self.data.vocabulary,
            optimizer=replace(recipe, peak_lr=size.peak_lr, adamc=cooldown),
            schedule=Schedule(
                warmup=size.step(warmup),
                rewarmups=again,
                decay=Decay(first, end) if cooldown else None,
                floor=FLOOR,
            ),
            data=Stages({size.step(at): mix for at, mix in data.items()}),
            batch=BATCH.scaled(steps=size.steps, batch=size.batch),
            seq_len=size.seq_len,
            shuffle=shuffle,
            seed=0,
            block=size.block,
            first_step=first,
            end_step=end,
            start=start,
            allow_starved=allow_starved,
            precision=size.precision,
            recompute=size.recompute,
            checkpoint_every=size.checkpoint_every,
            resources=resources or size.resources,
        )

    def score(self, name: str, checkpoint: ExecutorStep[Checkpoint], items: ExecutorStep[Items]) -> Evaluate:
        """The evaluation that all checkpoints of the run get: bits per byte by domain, and the items in each format."""
        scale, window = self.data.scale, self.size.seq_len
        return Evaluate(
            label=name,
            checkpoint=checkpoint,
            tokenizer=self.data.tokenizer(),
            domains=held_out.domains(scale, DOMAINS[scale]),
            tasks={"gsm": items},
            references={"gsm_reference": gsm8k.reference_items()},
            window=window,
            stride=window * 3 // 4,
            resources=tpu("v4-8") if scale is Scale.FULL else CPU,
        )

    def exposure(self, arm: Train, items: ExecutorStep[Items], suspects: tuple[ExecutorStep[Tokens], ...]) -> Exposure:
        """Which of these items the arm really read, of these sources."""
        return Exposure(
            label=arm.label,
            arm=arm.label,
            order=order_of(arm),
            suspects=suspects,
            tokenizer=self.data.tokenizer(),
            items=items,
        )
