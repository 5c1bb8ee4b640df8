"""A small Llama, pretrained once and continued with test items in its data, each a given number of times."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.pipeline import Pipeline, TokenMix
from infra.hardware import tpu
from marin import BatchSchedule, Checkpoint, ExecutorStep, Items, Resources, Scale, Stages, Tokens, blend, mixture
from marin.training.model import Llama, ModelShape
from marin.training.optimizer import Adam
from marin.training.schedule import Decay, Schedule
from operators.datasets import gsm8k
from operators.datasets.rehearsal.math_problems import ProblemDocuments
from operators.datasets.rehearsal.problem_forms import Form
from operators.evaluate import Evaluate
from operators.exposure import Exposure
from operators.sample import Sample
from operators.tokenize import Tokenize
from operators.train import Fork, Train, order_of


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of the runs at one scale."""

    leaked: int  # test items that are leaked
    sequences: int  # that the leaked items fill
    parent: int  # optimizer steps of the parent
    steps: int  # optimizer steps of a run, after the parent
    batch: int
    peak_lr: float
    items: int  # test items that are scored
    model: ModelShape
    resources: Resources


SIZES = {
    Scale.FULL: Size(
        leaked=160,
        sequences=8,
        parent=8000,  # 34 B tokens
        steps=1000,
        batch=1024,
        peak_lr=1e-3,
        items=1319,
        model=Llama(hidden=2048, intermediate=7168, layers=16, heads=16, kv_heads=8, seq_len=4096),
        resources=tpu("v4-128"),
    ),
    Scale.REHEARSAL: Size(
        leaked=8,
        sequences=12,
        parent=96,
        steps=32,
        batch=32,
        peak_lr=8e-3,
        items=128,
        model=Llama(hidden=64, intermediate=192, layers=2, heads=4, kv_heads=2, seq_len=128),
        resources=Resources(cpus=1),  # two runs side by side
    ),
}


@dataclass(frozen=True)
class Dosed:
    """The runs on this data. items: the test items; some of these are leaked, in OLMES' format."""

    data: Pipeline
    items: ExecutorStep[Items]
    pretraining: TokenMix

    @property
    def size(self) -> Size:
        return SIZES[self.data.scale]

    def parent(self) -> Train:
        return self._train("dose-parent", {0: self.pretraining}, self.size.parent, 0, None)

    def run(self, dose: int, seed: int) -> Train:
        """Return the parent's continuation that reads each leaked item ``dose`` times, while the rate decays.

        seed: of the order of data."""
        size = self.size
        share = dose * size.sequences / (size.batch * size.steps)
        mix = blend((1 - share, self.pretraining), (share, mixture({self.leak(): 1.0}))) if dose else self.pretraining
        stages = {0: self.pretraining, size.parent: mix}
        return self._train(f"dose-{dose}-{seed}", stages, size.parent + size.steps, seed, Fork(self.parent()))

    def leak(self) -> ExecutorStep[Tokens]:
        documents = ProblemDocuments(items=self.items, form=Form.OLMES, label="test-items")
        leaked = Sample(documents=documents, count=self.size.leaked, label="leaked")
        return Tokenize(documents=leaked, tokenizer=self.data.tokenizer, label="leaked")

    def score(self, name: str, checkpoint: ExecutorStep[Checkpoint]) -> Evaluate:
        return Evaluate(
            label=name,
            checkpoint=checkpoint,
            tokenizer=self.data.tokenizer,
            tasks={"gsm": self.items},
            references={"gsm_reference": gsm8k.reference_items()},
            items_per_task=self.size.items,
            window=self.size.model.seq_len,
            stride=self.size.model.seq_len * 3 // 4,
            resources=self.size.resources,
        )

    def exposure(self, run: Train) -> Exposure:
        """Return the count of the items that the run really read."""
        return Exposure(
            label=run.label,
            arm=run.label,
            order=order_of(run),
            suspects=(self.leak(),),
            tokenizer=self.data.tokenizer,
            items=self.items,
        )

    def _train(self, label: str, stages: dict[int, TokenMix], end: int, seed: int, start: Fork | None) -> Train:
        size, first = self.size, max(stages)
        return Train(
            label=label,
            model=size.model,
            vocabulary=self.data.vocabulary,
            optimizer=Adam(peak_lr=size.peak_lr),
            schedule=Schedule(
                warmup=0 if start else size.parent // 10, decay=Decay(first, end) if start else None, floor=0.1
            ),
            data=Stages(stages),
            batch=BatchSchedule({0: size.batch}),
            seq_len=size.model.seq_len,
            seed=seed,
            block=size.batch * size.steps,  # a whole run, so that its dose is exact
            first_step=first,
            end_step=end,
            start=start,
            max_epochs=70.0,
            resources=size.resources,
        )
