"""Marin 32B before its cooldown: Llama to step 80,000, then Qwen3 (QK-Norm) to 160,000.

Issues 1295 and 1395. Optimizer steps are counted over the whole run, as the retrospective does.
https://marin.readthedocs.io/en/latest/reports/marin-32b-retro/
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.hardware import tpu
from marin.data.artifacts import Tokens
from marin.data.mixture import BatchSchedule, Mixture, Shuffle, Stages
from marin.steps.resources import Resources
from marin.steps.scale import Scale
from marin.steps.step import ExecutorStep
from marin.training.model import Architecture, ModelShape, Precision, Recompute
from marin.training.optimizer import Adam
from marin.training.schedule import Rewarmup, Schedule
from operators.train import Milestone, Train, WarmStart

PLANNED = 1_000_000  # optimizer steps that warmup and hold were laid out for; never reached
QK_NORM_FROM = 80_000
BATCH = BatchSchedule({0: 8192, 18_500: 7680, 21_010: 8192})


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

    def optimizer(self, *, adamc: bool = False) -> Adam:
        """The recipe's table is Adam's defaults. adamc: in the cooldown's decay."""
        return Adam(peak_lr=self.peak_lr, adamc=adamc)

    def model(self, architecture: Architecture) -> ModelShape:
        return ModelShape(
            architecture=architecture,
            hidden=self.hidden,
            intermediate=self.intermediate,
            layers=self.layers,
            heads=self.heads,
            kv_heads=self.kv_heads,
            seq_len=self.seq_len,
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


def pretrained(size: Size, mix: Mixture[ExecutorStep[Tokens]], vocabulary: int, until: int) -> Milestone:
    """The checkpoint that the cooldowns start from. until: published optimizer step."""
    switch, end = size.step(QK_NORM_FROM), size.step(until)
    batch = BATCH.scaled(steps=size.steps, batch=size.batch)
    warmup = size.step(PLANNED // 100)

    def phase(label: str, architecture: Architecture, first: int, end: int, start: WarmStart | None) -> Train:
        again = (Rewarmup(at=switch, steps=max(1, size.step(1000))),) if start else ()
        return Train(
            label=label,
            model=size.model(architecture),
            vocabulary=vocabulary,
            optimizer=size.optimizer(),
            schedule=Schedule(warmup=warmup, rewarmups=again),
            data=Stages({0: mix}),
            batch=batch,
            seq_len=size.seq_len,
            shuffle=Shuffle.LINEAR,  # as it was; Feistel came with Mantis
            seed=0,
            block=size.block,
            first_step=first,
            end_step=end,
            start=start,
            precision=size.precision,
            recompute=size.recompute,
            checkpoint_every=size.checkpoint_every,
            resources=size.resources,
        )

    llama = phase("32b-llama", Architecture.LLAMA, 0, switch, None)
    qwen = phase("32b-qwen3", Architecture.QWEN3, switch, end, WarmStart(llama.at(switch)))
    return qwen.at(end)
