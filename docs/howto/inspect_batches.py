"""Exp 9: does a small Llama read the batches that we intend?"""

from dataclasses import replace

from marin import BatchSchedule, Experiment, Scale, Stages, executor_main, mixture
from marin.data.order_spec import order_of
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.inspect import Inspect
from operators.split import Part, Split
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer


def build(scale: Scale) -> Experiment:
    text = TextFiles(path="/data/text", label="own")
    kept, held_out = (Split(documents=text, part=part, holdout=0.05, label=part.value) for part in Part)
    tokenizer = TrainTokenizer(documents=(kept,), vocabulary=512, label="own")
    run = Train(
        label="small",
        model=Llama(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=128),
        vocabulary=512,
        optimizer=Adam(peak_lr=1e-3),
        schedule=Schedule(warmup=2),
        data=Stages({0: mixture({Tokenize(documents=kept, tokenizer=tokenizer, label="own"): 1.0})}),
        batch=BatchSchedule({0: 8}),
        seq_len=128,
        seed=0,
        block=16,
        end_step={Scale.REHEARSAL: 4, Scale.FULL: 10_000}[scale],
        max_epochs=100,
    )
    looked = Inspect(order=order_of(run), tokenizer=tokenizer, held_out={"held out": held_out}, label="small")
    gated = replace(run, gates=(looked.passed,))
    return Experiment(issue=9, repository="", question=__doc__, results={"batches": looked, "run": gated})


if __name__ == "__main__":
    executor_main(build)
