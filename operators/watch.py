"""Watch: score held-out text and continue prompts while a training runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from marin import Context, Documents, ExecutorStep, Tokenizer, since, value
from marin.errors import BadField, InputError

if TYPE_CHECKING:
    from marin.evaluation.encoder import Encoder
    from marin.training.spec import Prompts, Watched


@value("watch", kw_only=True)
class Watch:
    """Score held-out text with the current weights and with their moving average, into metrics.jsonl.

    With prompts, also continue each prompt with the current weights, greedily and at temperature 1, into samples.jsonl.

    domains: held-out documents by name. tokenizer: the tokenizer of the training's tokens. every: optimizer steps
    between two scorings; the last step is always scored. bytes_per_document, bytes_per_domain: limits on the text; the
    first documents count. window: tokens that the model sees at a time, None for the training's sequence length.
    prompts: texts to continue, each after the token that stands before every text in training. tokens_per_prompt: the
    most tokens that the model writes after each prompt.
    """

    domains: Mapping[str, ExecutorStep[Documents]] = field(default_factory=dict[str, ExecutorStep[Documents]])
    tokenizer: ExecutorStep[Tokenizer]
    every: int = 100
    bytes_per_document: int = 4_000
    bytes_per_domain: int = 20_000
    window: int | None = None
    prompts: tuple[str, ...] = since(2, default=())
    tokens_per_prompt: int = since(2, default=64)

    def __post_init__(self) -> None:
        if not self.domains and not self.prompts:
            raise BadField("Watch has nothing to score and nothing to continue; give domains, prompts or both")
        if twice := [prompt for prompt in self.prompts if self.prompts.count(prompt) > 1]:
            raise BadField(f"Watch.prompts has {twice[0]!r} twice; give it once")
        for name in ("every", "bytes_per_document", "bytes_per_domain", "tokens_per_prompt"):
            if getattr(self, name) < 1:
                raise BadField(f"Watch.{name} is {getattr(self, name)}; wanted at least 1")

    def must_fit(self, training: str, seq_len: int) -> None:
        """Check that windows and continuations are no longer than the training's sequences. Raises BadField."""
        if self.prompts and self.tokens_per_prompt >= seq_len:
            raise BadField(
                f"{training}: watch.tokens_per_prompt is {self.tokens_per_prompt}, and the training's sequences of "
                f"{seq_len} tokens must hold the prompt too; wanted at most {seq_len - 1}"
            )
        if self.window is not None and not 2 <= self.window <= seq_len:
            raise BadField(
                f"{training}: watch.window is {self.window} tokens, and the training's sequences have {seq_len}; "
                f"wanted 2 to {seq_len}, or None for a whole sequence"
            )

    def lay_out(self, ctx: Context, seq_len: int, before: int | None, *, separate: bool) -> Watched:
        """Write the held-out windows, which the training process reads, into the work in progress.

        before: the token id that stands before each text. separate: whether attention stops at the end of a document.
        Raises InputError for a prompt that does not fit.
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
        tokenizer = ctx[self.tokenizer].directory
        encoder = OffsetEncoder(tokenizer, before)
        if texts:
            write_held_out(ctx.state, lay_out(texts, encoder, self.window or seq_len))
        return Watched(
            every=self.every,
            directory=ctx.state.url if texts else None,
            separator=encoder.eos if separate else None,
            prompts=self._encoded(encoder, tokenizer.url, seq_len) if self.prompts else None,
        )

    def _encoded(self, encoder: Encoder, tokenizer: str, seq_len: int) -> Prompts:
        from marin.training.spec import Prompts

        tokens = tuple((encoder.start, *each.ids.tolist()) for each in encoder.encode(self.prompts))
        for prompt, ids in zip(self.prompts, tokens, strict=True):
            if len(ids) + self.tokens_per_prompt > seq_len:
                raise InputError(
                    f"the prompt {prompt[:40]!r} of Watch has {len(ids)} tokens with the token before it, and "
                    f"{self.tokens_per_prompt} more do not fit into sequences of {seq_len}; shorten the prompt, or "
                    "lower tokens_per_prompt"
                )
        return Prompts(texts=self.prompts, tokens=tokens, most=self.tokens_per_prompt, tokenizer=tokenizer)
