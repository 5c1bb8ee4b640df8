"""TrainTokenizer: train a byte-level BPE tokenizer on given documents."""

from __future__ import annotations

from collections.abc import Iterator

from marin import Context, Documents, ExecutorStep, Tokenizer
from marin.errors import BadField


class TrainTokenizer(ExecutorStep[Tokenizer], op="train-tokenizer"):
    """A byte-level BPE tokenizer trained on all the documents, with <|bos|>, <|eos|> and <|pad|> as ids 0, 1, 2.

    vocabulary: the most entries, with special tokens and the 256 bytes.
    """

    documents: tuple[ExecutorStep[Documents], ...]
    vocabulary: int

    def check(self) -> None:
        if not self.documents:
            raise BadField("TrainTokenizer.documents is empty; give at least one step that makes documents")
        if not 259 < self.vocabulary <= 1_000_000:
            raise BadField(f"TrainTokenizer.vocabulary is {self.vocabulary}, wanted 260 … 1,000,000")

    def run(self, ctx: Context) -> Tokenizer:
        from marin.data.documents import read_documents
        from marin.data.tokenizer import train_bpe

        total = sum(ctx[step].documents for step in self.documents)

        def texts() -> Iterator[str]:
            done = 0
            for step in self.documents:
                for document in read_documents(ctx[step].directory):
                    yield document.text
                    done += 1
                ctx.progress(min(done, total), total, "documents")

        entries, digest = train_bpe(ctx.out, texts(), self.vocabulary)
        return Tokenizer(vocabulary=entries, digest=digest)
