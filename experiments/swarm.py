"""Small trainings on mixtures of the 32B's sources, and their evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments.pipeline import Pipeline
from infra.hardware import tpu
from marin import BatchSchedule, Documents, ExecutorStep, Items, Mix, Resources, Scale, Stages
from marin.training.model import Llama, ModelShape
from marin.training.optimizer import Adam
from marin.training.schedule import Decay, Schedule
from operators.datasets import catalogue, held_out, paloma
from operators.evaluate import Evaluate
from operators.train import Train


@dataclass(frozen=True, kw_only=True)
class Size:
    """held: tokens of each source. natural: weights. target: tokens. steps: of a proxy. peak_lr: by Marin's ladder,
    .33 · √batch / hidden, at full scale."""

    held: dict[str, float]
    natural: dict[str, float]
    target: float
    proxies: int
    seeds: int
    steps: int
    batch: int
    peak_lr: float
    max_epochs: float  # of a proxy
    model: ModelShape
    objective: tuple[str, ...]
    resources: Resources


ALL = dict(catalogue.PRETRAIN)
# A rehearsal has one of the seven Nemotron-CC buckets: fewer sources need fewer proxies.
FEW = {"nemotron_cc/hq_actual": 120_000.0, "starcoderdata": 120_000.0, "proofpile_2": 40_000.0}
SIZES = {
    Scale.FULL: Size(
        held={name: catalogue.corpus(name).tokens or 0.0 for name in ALL}, natural=ALL, target=6.4e12, max_epochs=4,
        proxies=64, seeds=3, steps=11_444, batch=64, peak_lr=5e-3, resources=tpu("v5e-8"),
        model=Llama(hidden=512, intermediate=2048, layers=6, heads=4, kv_heads=4, seq_len=4096),
        objective=("bpb/c4_en", "bpb/dolma_100_programing_languages", "gsm/olmes/bpb"),
    ),
    Scale.REHEARSAL: Size(
        held=FEW, natural=FEW, target=200_000, max_epochs=20,
        proxies=8, seeds=2, steps=60, batch=16, peak_lr=1e-2, resources=Resources(cpus=1),  # two runs side by side
        model=Llama(hidden=64, intermediate=192, layers=2, heads=4, kv_heads=2, seq_len=128),
        objective=("bpb/web", "bpb/code", "bpb/math"),
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Swarm:
    """items: that training text does not hold, and that full-scale proxies are asked."""

    scale: Scale
    items: ExecutorStep[Items]

    @property
    def size(self) -> Size:
        return SIZES[self.scale]

    @property
    def data(self) -> Pipeline:
        return Pipeline(scale=self.scale, decontaminate_against=(self.items,))

    def proxy(self, mix: Mix[Any], seed: int) -> Train:
        size = self.size
        return Train(
            model=size.model,
            vocabulary=self.data.vocabulary,
            optimizer=Adam(peak_lr=size.peak_lr),
            schedule=Schedule(warmup=size.steps // 10, decay=Decay(size.steps * 4 // 5, size.steps)),
            data=Stages({0: mix}),
            batch=BatchSchedule({0: size.batch}),
            seq_len=size.model.seq_len,
            seed=seed,
            block=size.batch * 16,
            end_step=size.steps,
            max_epochs=size.max_epochs,
            resources=size.resources,
        )

    def score(self, run: Train) -> Evaluate:
        window = self.size.model.seq_len
        return Evaluate(
            label=run.label,
            checkpoint=run,
            tokenizer=self.data.tokenizer,
            domains=self.domains(),
            tasks={"gsm": self.items} if "gsm/olmes/bpb" in self.size.objective else {},
            window=window,
            stride=window * 3 // 4,
            resources=self.size.resources,
        )

    def domains(self) -> dict[str, ExecutorStep[Documents]]:
        names = [name.removeprefix("bpb/") for name in self.size.objective if name.startswith("bpb/")]
        if self.scale is Scale.REHEARSAL:
            return held_out.domains(self.scale, names)
        texts = paloma.documents(self.scale)
        return {name: texts[name] for name in names}
