"""Exp 9: is our new text worth including?

Question: does a cooldown with 30 % new text answer questions better than a cooldown without?
Arms: the usual mixture (the control), and the usual mixture with the new text; three seeds each.
Decision: the verdict, from bits per byte of the right answers.
"""

from marin import BatchSchedule, Experiment, Scale, Stages, blend, executor_main, mixture
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Decay, Schedule
from operators.datasets import gsm8k
from operators.decontaminate import Decontaminate
from operators.evaluate import Evaluate
from operators.microanneal import Microanneal
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer

STEPS = {Scale.REHEARSAL: 20, Scale.FULL: 20_000}
TOKENS = {Scale.REHEARSAL: 6 * 16 * 32, Scale.FULL: 6_000 * 16 * 32}


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    text = {name: TextFiles(path=f"/data/{name}", label=name) for name in ("web", "new")}
    clean = {name: Decontaminate(documents=text[name], against=(items,), label=name) for name in text}
    tokenizer = TrainTokenizer(documents=tuple(clean.values()), vocabulary=512, label="own")
    web, new = (Tokenize(documents=clean[name], tokenizer=tokenizer, label=name) for name in ("web", "new"))
    usual = mixture({web: 1.0})
    run = Train(
        label="run",
        model=Llama(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=32),
        vocabulary=512,
        optimizer=Adam(peak_lr=1e-3),
        schedule=Schedule(warmup=2, decay=Decay(STEPS[scale] * 4 // 5, STEPS[scale])),
        data=Stages({0: usual}),
        batch=BatchSchedule({0: 16}),
        seq_len=32,
        seed=0,
        block=16,
        end_step=STEPS[scale],
        max_epochs=100,
    )
    base = run.at(STEPS[scale] * 4 // 5)
    scores = Evaluate(checkpoint=base, tokenizer=tokenizer, tasks={"gsm": items}, window=32, stride=24, label="base")
    annealed = Microanneal(
        base=base,
        control=usual,
        candidates={"new": blend((0.7, usual), (0.3, mixture({new: 1.0})))},
        tokens=TOKENS[scale],
        evaluations=(scores,),
        primary=("gsm/olmes/bpb",),
        seeds=3,
        margin=0.01,
        max_epochs=100,
        shortest=0.05,
    )
    return Experiment(issue=9, repository="", question=__doc__, results={"base": scores, "verdict": annealed.verdict})


if __name__ == "__main__":
    executor_main(build)
