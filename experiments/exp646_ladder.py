"""Exp 646, a ladder: what loss will Kestrel reach, by small runs under its recipe?

Question: nine runs of rising FLOPs have Kestrel's data, optimizer, tokens a parameter, and its rate at its size. What
loss do they predict at Kestrel's FLOPs, and does the prediction of the largest rung from the others hold?
Arms: one recipe, nine rungs from 2.8e18 to 9.2e20 FLOPs, two seeds each (a rehearsal: one, to 3.1e11).
Start: scratch. End: 369 tokens a parameter, as Kestrel (a rehearsal: 0.8, because its text is short).
Decision: bits per byte of web text at 1.34e23 FLOPs, where experiment 600 measures Kestrel; INCONCLUSIVE unless the
backtest holds. GSM8K's accuracy follows in two steps.
Rungs have one decay in their last tenth instead of cycles, and batches for 33,000 to 65,000 steps. A rehearsal predicts
ten times its largest rung: its Kestrel has 0.2 tokens a parameter.
Issue: https://github.com/marin-community/marin/issues/646
"""

from dataclasses import replace

from experiments.marin_8b import COOLED, Marin8B
from experiments.pipeline import VOCABULARY, Pipeline
from infra.hardware import tpu
from marin import CPU, Experiment, Scale, Stages, executor_main
from marin.training.model import Architecture
from marin.training.schedule import Shape
from operators.datasets import gsm8k, mixtures
from operators.ladder import Ladder, LadderTask
from operators.rungs import Rung, TokensPerParameter
from operators.train import Train

FULL = TokensPerParameter(
    vocabulary=VOCABULARY[Scale.FULL], seq_len=4096, ratio=369, architecture=Architecture.LLAMA, kv_heads=8, mlp=3.5,
    width_per_layer=128, rate_factor=0.128,
)  # fmt: skip
REHEARSAL = TokensPerParameter(
    vocabulary=VOCABULARY[Scale.REHEARSAL], seq_len=128, ratio=0.8, architecture=Architecture.LLAMA, width_multiple=8,
    head_width=8, mlp=3, width_per_layer=64, steps=1_000_000, rate_factor=0.226, most_rate=0.02,
)  # fmt: skip
RUNGS = {
    Scale.FULL: (2.8e18, 7.4e18, 1.6e19, 3.1e19, 5.7e19, 9.6e19, 1.7e20, 4e20, 9.2e20),
    Scale.REHEARSAL: (6.7e9, 1.6e10, 3.2e10, 5.3e10, 8.5e10, 1.25e11, 1.8e11, 2.45e11, 3.2e11),
}


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(items,)))
    kestrel, mix, full = run.kestrel(), run.mix(mixtures.KESTREL), scale is Scale.FULL

    def recipe(rung: Rung, seed: int) -> Train:
        return replace(
            kestrel,
            model=replace(rung.shape, rope_theta=kestrel.model.rope_theta),
            optimizer=replace(kestrel.optimizer, peak_lr=rung.peak_lr),
            schedule=rung.schedule(warmup=0.02 if full else 0.1, decay=0.1, floor=COOLED, shape=Shape.INVERSE),
            data=Stages({0: mix}),
            batch=rung.batches,
            seed=seed,
            end_step=rung.steps,
            watch=None,
            keep_every=None,
            keep_at=(),
            resources=tpu("v4-128") if full else CPU,
        )

    ladder = Ladder(
        label="8b-ladder",
        rungs=RUNGS[scale],
        rule=FULL if full else REHEARSAL,
        recipe=recipe,
        seeds=2 if full else 1,
        score=lambda training: run.score(training.label, training, items),
        primary="bpb/web",
        target=kestrel.flops() if full else 3.2e12,
        tasks=(LadderTask(accuracy="gsm/olmes/accuracy", loss="gsm/olmes/bpb", guess=1 / 4),),
    )
    return Experiment(issue=646, question=__doc__, results={"ladder": ladder.report})


if __name__ == "__main__":
    executor_main(build)
