"""Exp 10: what loss will a run of 1e22 FLOPs reach?

Question: by small runs of rising FLOPs under one recipe, what are the bits per byte of held-out text at 1e22 FLOPs?
Arms: one recipe, six rungs, two seeds each (a rehearsal: five tiny rungs, one seed).
Decision: the prediction, if the backtest holds.
"""

from marin import Experiment, Scale, Stages, executor_main, mixture
from marin.training.optimizer import Adam
from operators.evaluate import Evaluate
from operators.ladder import Ladder
from operators.rungs import Rung, TokensPerParameter
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer

RULE = {
    Scale.FULL: TokensPerParameter(vocabulary=32_000, seq_len=4096, ratio=20),
    Scale.REHEARSAL: TokensPerParameter(
        vocabulary=512, seq_len=32, ratio=3, width_multiple=8, head_width=8, mlp=2, width_per_layer=64, steps=1_000
    ),
}
RUNGS = {Scale.FULL: (1e18, 3e18, 1e19, 3e19, 1e20, 3e20), Scale.REHEARSAL: (4.3e8, 2.2e9, 6.1e9, 1.3e10, 2.5e10)}
TARGET = {Scale.FULL: 1e22, Scale.REHEARSAL: 1e11}


def build(scale: Scale) -> Experiment:
    rule = RULE[scale]
    text = {name: TextFiles(path=f"/data/{name}", label=name) for name in ("text", "held_out")}
    tokenizer = TrainTokenizer(documents=(text["text"],), vocabulary=rule.vocabulary, label="own")
    tokens = Tokenize(documents=text["text"], tokenizer=tokenizer, label="own")

    def recipe(rung: Rung, seed: int) -> Train:
        return Train(
            model=rung.shape,
            vocabulary=rung.vocabulary,
            optimizer=Adam(peak_lr=rung.peak_lr, beta2=rung.beta2),
            schedule=rung.schedule(warmup=0.1, decay=0.2),
            data=Stages({0: mixture({tokens: 1.0})}),
            batch=rung.batches,
            seq_len=rung.seq_len,
            seed=seed,
            block=rung.batch,
            end_step=rung.steps,
            max_epochs=1_000,
        )

    def score(training: Train) -> Evaluate:
        return Evaluate(
            label=training.label,
            checkpoint=training,
            tokenizer=tokenizer,
            domains={"held_out": text["held_out"]},
            window=rule.seq_len,
            stride=rule.seq_len // 2,
        )

    ladder = Ladder(
        rungs=RUNGS[scale],
        rule=rule,
        recipe=recipe,
        score=score,
        primary="bpb/held_out",
        target=TARGET[scale],
        seeds=2 if scale is Scale.FULL else 1,
    )
    return Experiment(issue=10, repository="", question=__doc__, results={"ladder": ladder.report})


if __name__ == "__main__":
    executor_main(build)
