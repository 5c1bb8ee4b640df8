"""Exp 7: how does a small Llama score held-out text, and what does it write, while it trains?"""

from marin import BatchSchedule, Experiment, Scale, Stages, executor_main, mixture
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer
from operators.watch import Watch


def build(scale: Scale) -> Experiment:
    text = TextFiles(path="/data/text", label="own")
    held_out_code = TextFiles(path="/data/code", label="code")
    held_out_web = TextFiles(path="/data/web", label="web")
    tokenizer = TrainTokenizer(documents=(text,), vocabulary=512, label="own")
    watch = Watch(
        domains={"code": held_out_code, "web": held_out_web},
        prompts=("the one and", "one after"),
        tokens_per_prompt=16,
        tokenizer=tokenizer,
        every=100,
    )
    run = Train(
        label="watched",
        model=Llama(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=32),
        vocabulary=512,
        optimizer=Adam(peak_lr=1e-3),
        schedule=Schedule(warmup=2),
        data=Stages({0: mixture({Tokenize(documents=text, tokenizer=tokenizer, label="own"): 1.0})}),
        batch=BatchSchedule({0: 4}),
        seq_len=32,
        seed=0,
        block=16,
        end_step={Scale.REHEARSAL: 4, Scale.FULL: 10_000}[scale],
        max_epochs=100,
        watch=watch,
    )
    return Experiment(issue=7, repository="", question=__doc__, results={"run": run})


if __name__ == "__main__":
    executor_main(build)
