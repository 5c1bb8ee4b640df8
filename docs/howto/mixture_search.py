"""Exp 13: which shares of web text, code and papers?

Question: which mixture of three sources predicts code and papers best, if no source may be read more than four times?
Arms: the natural mixture, by tokens; the optimum of a fit over small proxies; the best proxy. New seeds.
Decision: the comparison, by bits per byte of code and papers.
"""

from typing import Any

from marin import BatchSchedule, Experiment, Mix, Scale, Stages, executor_main
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.evaluate import Evaluate
from operators.mixture_search import MixtureSearch
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer

STEPS = {Scale.REHEARSAL: 40, Scale.FULL: 12_000}
PROXIES = {Scale.REHEARSAL: 8, Scale.FULL: 64}


def build(scale: Scale) -> Experiment:
    texts = {name: TextFiles(path=f"/data/{name}", label=name) for name in ("web", "code", "papers")}
    tokenizer = TrainTokenizer(documents=tuple(texts.values()), vocabulary=512, label="own")
    web, code, papers = (Tokenize(documents=text, tokenizer=tokenizer, label=name) for name, text in texts.items())

    def proxy(mixture: Mix[Any], seed: int) -> Train:
        return Train(
            model=Llama(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=32),
            vocabulary=512,
            optimizer=Adam(peak_lr=1e-2),
            schedule=Schedule(warmup=4),
            data=Stages({0: mixture}),
            batch=BatchSchedule({0: 16}),
            seq_len=32,
            seed=seed,
            block=64,
            end_step=STEPS[scale],
            max_epochs=100,
        )

    def score(run: Train) -> Evaluate:
        return Evaluate(label=run.label, checkpoint=run, tokenizer=tokenizer, domains=texts, window=32, stride=24)

    search = MixtureSearch(
        sources={web: 6_000_000, code: 3_000_000, papers: 1_000_000},
        recipe=proxy,
        score=score,
        objective={"bpb/code": 1, "bpb/papers": 1},
        proxies=PROXIES[scale],
        max_epochs=4,
        target_tokens=10_000_000,
    )
    results = {"search": search.report, "verdict": search.verdict}
    return Experiment(issue=13, repository="", question=__doc__, results=results)


if __name__ == "__main__":
    executor_main(build)
