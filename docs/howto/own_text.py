"""Exp 1: does a quality filter help on my own text?

Question: is held-out text predicted better by a model whose training text was filtered?
Arms: all of the text; what the rules for prose keep of it.
Decision: bits per byte of the held-out tenth.
"""

from pathlib import Path

from marin import BatchSchedule, Documents, ExecutorStep, Experiment, Scale, Shuffle, Stages, executor_main, mixture
from marin.text.presets import PROSE
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Decay, Schedule
from marin_operators.compare import Compare
from marin_operators.evaluate import Evaluate
from marin_operators.filter import Filter
from marin_operators.split import Part, Split
from marin_operators.text_files import TextFiles
from marin_operators.tokenize import Tokenize
from marin_operators.train import Train
from marin_operators.train_tokenizer import TrainTokenizer

FOLDER = Path(__file__).parent / "text"  # of .txt, .md, .jsonl, .jsonl.gz, .jsonl.zst or .parquet files
SEQ_LEN = 128  # tokens
VOCABULARY = 2048
STEPS = {Scale.REHEARSAL: 100, Scale.FULL: 10_000}  # optimizer steps of 16 sequences

text = TextFiles(path=str(FOLDER), label="own")
training = Split(documents=text, part=Part.TRAIN, holdout=0.1, label="training")
held_out = Split(documents=text, part=Part.HELD_OUT, holdout=0.1, label="held out")
filtered = Filter(documents=training, quality=PROSE, max_removed=0.9, label="own")
tokenizer = TrainTokenizer(documents=(training,), vocabulary=VOCABULARY, label="own")


def train(name: str, documents: ExecutorStep[Documents], scale: Scale, *, lr: float = 5e-3, seed: int = 0) -> Train:
    """A small Llama of these documents alone. lr: the learning rate after warmup, before it decays to zero."""
    steps = STEPS[scale]
    return Train(
        label=name,
        model=Llama(hidden=128, intermediate=384, layers=2, heads=4, kv_heads=2, seq_len=SEQ_LEN),
        vocabulary=VOCABULARY,
        optimizer=Adam(peak_lr=lr),
        schedule=Schedule(warmup=steps // 10, decay=Decay(steps // 2, steps)),
        data=Stages({0: mixture({Tokenize(documents=documents, tokenizer=tokenizer, label=documents.label): 1.0})}),
        batch=BatchSchedule({0: 16}),
        seq_len=SEQ_LEN,
        shuffle=Shuffle.FEISTEL,
        seed=seed,
        block=32,
        end_step=steps,
    )


def score(run: Train) -> Evaluate:
    """How well the run predicts the held-out text."""
    return Evaluate(label=run.label, checkpoint=run, tokenizer=tokenizer, domains={"own": held_out})


def build(scale: Scale) -> Experiment:
    arms = {"all": score(train("all", training, scale)), "filtered": score(train("filtered", filtered, scale))}
    verdict = Compare(arms=arms, baseline="all", label="filter")
    return Experiment(issue=1, question=__doc__, results={**arms, "comparison": verdict})


if __name__ == "__main__":
    executor_main(build)
