"""Exp 8: does it pay to read papers five times, after a gradual change of the mixture?"""

from marin import (
    BatchSchedule,
    ByTokens,
    Experiment,
    Interpolation,
    Scale,
    Stages,
    blend,
    executor_main,
)
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer

STEPS = {Scale.REHEARSAL: 8, Scale.FULL: 12_000}


def build(scale: Scale) -> Experiment:
    texts = {name: TextFiles(path=f"/data/{name}", label=name) for name in ("web", "code", "papers")}
    tokenizer = TrainTokenizer(documents=tuple(texts.values()), vocabulary=512, label="own")
    web, code, papers = (Tokenize(documents=text, tokenizer=tokenizer, label=name) for name, text in texts.items())
    pretraining = ByTokens({web: 1, code: 1})
    high_quality = ByTokens({code: 1, papers: 5})
    cooldown = blend((0.7, pretraining), (0.3, high_quality))
    run = Train(
        label="run",
        model=Llama(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=32),
        vocabulary=512,
        optimizer=Adam(peak_lr=1e-3),
        schedule=Schedule(warmup=2),
        data=Stages({0: pretraining, STEPS[scale] // 2: Interpolation(cooldown, steps=STEPS[scale] // 4)}),
        batch=BatchSchedule({0: 16}),
        seq_len=32,
        seed=0,
        block=16,
        end_step=STEPS[scale],
        max_epochs=100,
    )
    return Experiment(issue=8, repository="", question=__doc__, results={"run": run})


if __name__ == "__main__":
    executor_main(build)
