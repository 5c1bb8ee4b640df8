"""Watch: held-out text that a training looks at while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from marin import Context, Documents, ExecutorStep, Tokenizer, value
from marin.errors import BadField

if TYPE_CHECKING:
    from marin.training.spec import Watched


@value("watch", kw_only=True)
class Watch:
    """Score held-out text with the weights of the moment, and with their moving average, into metrics.jsonl.

    domains: held-out documents by name. tokenizer: the one that made the training's tokens. every: optimizer steps
    between two looks; the last step is always looked at. bytes_per_document, bytes_per_domain: the first documents,
    cut to so much. window: tokens that the model sees at a time, None for the training's sequence length.
    """

    domains: Mapping[str, ExecutorStep[Documents]]
    tokenizer: ExecutorStep[Tokenizer]
    every: int = 100
    bytes_per_document: int = 4_000
    bytes_per_domain: int = 20_000
    window: int | None = None

    def __post_init__(self) -> None:
        if not self.domains:
            raise BadField("Watch has nothing to score: give domains")
        for name in ("every", "bytes_per_document", "bytes_per_domain"):
            if getattr(self, name) < 1:
                raise BadField(f"Watch.{name} is {getattr(self, name)}; wanted at least 1")

    def must_fit(self, training: str, seq_len: int) -> None:
        """Raises BadField for windows that are longer than what the training trains on."""
        if self.window is not None and not 2 <= self.window <= seq_len:
            raise BadField(
                f"{training}: watch.window is {self.window} tokens, it trains on sequences of {seq_len}; wanted 2 to "
                f"{seq_len}, or None for a whole sequence"
            )

    def lay_out(self, ctx: Context, seq_len: int, before: int | None, *, separate: bool) -> Watched:
        """Write the held-out windows, which the training process reads, into the work in progress.

        before: the token id that stands before each text. separate: whether attention stops at the end of a document.
        """
        from marin.data.documents import read_documents
        from marin.evaluation.encoder import OffsetEncoder
        from marin.evaluation.excerpt import excerpt
        from marin.training.held_out import lay_out, write_held_out
        from marin.training.spec import Watched

        documents = {
            name: excerpt(read_documents(ctx[step].directory), self.bytes_per_document, self.bytes_per_domain)
            for name, step in self.domains.items()
        }
        texts = {name: [document.text for document in held] for name, held in documents.items()}
        encoder = OffsetEncoder(ctx[self.tokenizer].directory, before)
        write_held_out(ctx.state, lay_out(texts, encoder, self.window or seq_len))
        separator = encoder.eos if separate else None
        return Watched(every=self.every, directory=ctx.state.url, separator=separator)
