"""Exp 6: how fast does a small Llama learn our text?"""

from infra.hardware import tpu
from marin import BatchSchedule, Experiment, Resources, Scale, Stages, executor_main, mixture
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer

MACHINES = {Scale.REHEARSAL: Resources(), Scale.FULL: tpu("v4-2048")}  # or tpu("v5p-512", slices=4)
BATCH = {Scale.REHEARSAL: 4, Scale.FULL: 4096}  # sequences; each of the 1,024 chips takes four
HIDDEN = {Scale.REHEARSAL: 32, Scale.FULL: 1024}  # each chip holds an equal part


def build(scale: Scale) -> Experiment:
    text = TextFiles(path="/data/text", label="own")
    tokenizer = TrainTokenizer(documents=(text,), vocabulary=512, label="own")
    tokens = Tokenize(documents=text, tokenizer=tokenizer, label="own")
    run = Train(
        label="run",
        model=Llama(hidden=HIDDEN[scale], intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=32),
        vocabulary=512,
        optimizer=Adam(peak_lr=1e-3),
        schedule=Schedule(warmup=2),
        data=Stages({0: mixture({tokens: 1.0})}),
        batch=BatchSchedule({0: BATCH[scale]}),
        seq_len=32,
        seed=0,
        block=16,
        end_step={Scale.REHEARSAL: 8, Scale.FULL: 10_000}[scale],
        max_epochs=1_000_000,  # the text is only a few words long
        resources=MACHINES[scale],
    )
    return Experiment(issue=6, repository="", question=__doc__, results={"run": run})


if __name__ == "__main__":
    executor_main(build)
