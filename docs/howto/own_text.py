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
from operators.compare import Compare
from operators.evaluate import Evaluate
from operators.filter import Filter
from operators.split import Part, Split
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer

TEXT = Path(__file__).parent / "text"  # a folder of .txt, .md, .jsonl, .jsonl.gz, .jsonl.zst or .parquet files
VOCABULARY = 2048
SEQ_LEN = 128
STEPS = {Scale.REHEARSAL: 100, Scale.FULL: 10_000}  # optimizer steps of 16 sequences


def build(scale: Scale) -> Experiment:
    text = TextFiles(path=str(TEXT), label="own")
    training = Split(documents=text, part=Part.TRAIN, holdout=0.1, label="training")
    held_out = Split(documents=text, part=Part.HELD_OUT, holdout=0.1, label="held out")
    tokenizer = TrainTokenizer(documents=(training,), vocabulary=VOCABULARY, label="own")

    def arm(name: str, documents: ExecutorStep[Documents]) -> Evaluate:
        """Train on these documents, and score the held-out text."""
        tokens = Tokenize(documents=documents, tokenizer=tokenizer, label=name)
        run = Train(
            label=name,
            model=Llama(hidden=128, intermediate=384, layers=2, heads=4, kv_heads=2, seq_len=SEQ_LEN),
            vocabulary=VOCABULARY,
            optimizer=Adam(peak_lr=5e-3),
            schedule=Schedule(warmup=STEPS[scale] // 10, decay=Decay(STEPS[scale] // 2, STEPS[scale])),
            data=Stages({0: mixture({tokens: 1.0})}),
            batch=BatchSchedule({0: 16}),
            seq_len=SEQ_LEN,
            shuffle=Shuffle.FEISTEL,
            seed=0,
            block=32,
            end_step=STEPS[scale],
        )
        return Evaluate(label=name, checkpoint=run, tokenizer=tokenizer, domains={"own": held_out})

    filtered = Filter(documents=training, quality=PROSE, max_removed=0.9, label="own")
    arms = {"all": arm("all", training), "filtered": arm("filtered", filtered)}
    verdict = Compare(arms=arms, baseline="all", label="filter")
    return Experiment(issue=1, question=__doc__, results={**arms, "comparison": verdict})


if __name__ == "__main__":
    executor_main(build)
