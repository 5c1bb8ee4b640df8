"""The text of the experiments, a small model trained on the text, and its score on held-out text."""

from functools import partial

from marin import BatchSchedule, Documents, ExecutorStep, Scale, Stages, mixture
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Decay, Schedule
from operators.evaluate import Evaluate
from operators.split import Part, Split
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer

from my_project.drop_short import DropShort

FOLDER = "../text"  # from this file
TEXT = {Scale.REHEARSAL: FOLDER, Scale.FULL: FOLDER}  # .txt, .md, .jsonl, .jsonl.gz, .jsonl.zst or .parquet files
STEPS = {Scale.REHEARSAL: 100, Scale.FULL: 10_000}  # optimizer steps of 16 sequences
SEQ_LEN = 128  # tokens
VOCABULARY = 2048


class OwnText:
    """The steps that the experiments share, at one scale."""

    def __init__(self, scale: Scale) -> None:
        text = TextFiles(path=TEXT[scale], beside=__file__, label="own")
        documents = DropShort(documents=text, words=20, label="own")
        # Split cuts long documents, such as books, at paragraphs, so that it can hold out a tenth of the text.
        split = partial(Split, documents=documents, holdout=0.1, piece=20_000)
        self.training = split(part=Part.TRAIN, label="training")
        self.held_out = split(part=Part.HELD_OUT, label="held out")
        self.tokenizer = TrainTokenizer(documents=(self.training,), vocabulary=VOCABULARY, label="own")
        self.steps = STEPS[scale]

    def train(self, name: str, documents: ExecutorStep[Documents], *, lr: float = 5e-3, seed: int = 0) -> Train:
        """Train a small Llama on these documents alone. lr: learning rate after warmup, before it decays to zero."""
        tokens = Tokenize(documents=documents, tokenizer=self.tokenizer, label=documents.label)
        return Train(
            label=name,
            model=Llama(hidden=128, intermediate=384, layers=2, heads=4, kv_heads=2, seq_len=SEQ_LEN),
            vocabulary=VOCABULARY,
            optimizer=Adam(peak_lr=lr),
            schedule=Schedule(warmup=self.steps // 10, decay=Decay(self.steps // 2, self.steps)),
            data=Stages({0: mixture({tokens: 1.0})}),
            batch=BatchSchedule({0: 16}),
            seq_len=SEQ_LEN,
            seed=seed,
            block=32,
            end_step=self.steps,
        )

    def score(self, run: Train) -> Evaluate:
        """Score how well the run predicts the held-out text."""
        return Evaluate(label=run.label, checkpoint=run, tokenizer=self.tokenizer, domains={"own": self.held_out})
