"""Exp 1237: fine-tune the 8B on chats, with and without pretraining data in the batch.

Question: what does Marin 8B forget when it is fine-tuned on chats alone? How much does a fifth of pretraining data give
back?
Arms: Deeper Starling; fine-tuned on nine sets of chats, weighted by their numbers of chats; the same with one sequence
in five from Phoenix's mixture instead.
Start: weights of Deeper Starling's end, a fresh optimizer. End: 10,228 steps, 5.36 B tokens.
Decision: bits per byte of every domain against the base model.
The retrospective has a rate of 1.7e-4 and 10,227 steps. The code has 1e-4 and 10,228, as here. The share of
pretraining data is ours: issue 702 asks for some, and no number is published.
Issue: https://github.com/marin-community/marin/issues/1237
"""

from dataclasses import replace

from experiments.marin_8b import DEEPER_END, Marin8B
from experiments.pipeline import Pipeline, TokenMix
from infra.hardware import tpu
from marin import CPU, BatchSchedule, ExecutorStep, Experiment, Scale, Stages, Tokens, blend, executor_main, mixture
from marin.training.schedule import Schedule
from operators.compare import Compare
from operators.datasets import gsm8k
from operators.datasets.chats import SETS, TEMPLATES
from operators.datasets.mixtures import PHOENIX, SFT
from operators.start import Fork, OptimizerState
from operators.tokenize_chats import TokenizeChats
from operators.train import Train

# Steps; steps of the warmup, after which the rate is constant; batch; tokens of a sequence, enough for a chat.
SIZES = {Scale.FULL: (10_228, 306, 128, 4096), Scale.REHEARSAL: (24, 2, 8, 384)}


def build(scale: Scale) -> Experiment:
    steps, warmup, batch, seq_len = SIZES[scale]
    items = gsm8k.test_items(scale)
    run = Marin8B(data := Pipeline(scale=scale, decontaminate_against=(items,)))
    base = run.deeper_starling()
    parent, recipe = run.at(base, DEEPER_END), base.optimizer
    chats: dict[str, ExecutorStep[Tokens]] = {
        name: TokenizeChats(
            chats=each.raw(scale),
            tokenizer=data.tokenizer,
            seq_len=seq_len,
            template=TEMPLATES[scale],
            max_dropped=0.2,
            label=name,
        )
        for name, each in SETS.items()
    }
    only_chats = mixture({chats[name]: share for name, share in SFT.weights.items()})

    def tuned(name: str, mix: TokenMix) -> Train:
        return replace(
            base,
            label=name,
            model=replace(base.model, seq_len=seq_len),
            seq_len=seq_len,
            start=Fork(parent, OptimizerState.FRESH),
            optimizer=replace(recipe, peak_lr=run.size.rate * 1e-4, weight_decay=0.0, z_loss=0.0, ema=None),
            schedule=Schedule(warmup=warmup),
            data=Stages({0: mix}),
            batch=BatchSchedule({0: batch}),
            seed=1,
            first_step=0,
            end_step=steps,
            allow_starved=("bespoke_stratos",) if scale is Scale.REHEARSAL else (),
            resources=tpu("v4-128") if scale is Scale.FULL else CPU,
        )

    arms = {
        "chats": tuned("8b-sft", only_chats),
        "chats-pretraining": tuned("8b-sft-mixed", blend((0.8, only_chats), (0.2, run.mix(PHOENIX)))),
    }
    scores = {name: run.score(f"8b-{name}", each, items) for name, each in {"base": parent, **arms}.items()}
    verdict = Compare(label="8b-sft", arms=scores, baseline="base", primary=("bpb/",))
    return Experiment(issue=1237, question=__doc__, results={**scores, "comparison": verdict})


if __name__ == "__main__":
    executor_main(build)
