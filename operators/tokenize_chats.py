"""TokenizeChats: write chats as a token store in which the loss counts only the assistant's words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from marin import Context, ExecutorStep, RawFiles, Tokenizer, Tokens
from marin.errors import BadField, GarbledDocument, OverRemoval
from operators.tokenize import Tokenize


class TokenizeChats(ExecutorStep[Tokens], op="tokenize-chats"):
    """Token store of chats, for supervised fine-tuning: the model reads prompts and learns answers.

    chats: files of records (JSON lines, Parquet) with a list of messages ``{"role": …, "content": …}`` in ``field``.
    template: Jinja; "" for the tokenizer's. The loss counts the text between ``{% generation %}`` and
    ``{% endgeneration %}``. In a template without these tags, the loss counts the text that the template adds for each
    answer. seq_len: the training's sequence length. The step packs whole chats into sequences of this length and
    leaves out longer chats. max_dropped: the share of the chats that it may leave out.

    Mix the store with pretraining data as any other source:
    ``blend((0.8, mixture({chats: 1.0})), (0.2, pretraining))``.
    Raises GarbledDocument, naming the record, for a record that is no chat; OverRemoval if too many chats are too long.
    """

    chats: ExecutorStep[RawFiles]
    tokenizer: ExecutorStep[Tokenizer]
    seq_len: int
    template: str = ""
    field: str = "messages"
    max_dropped: float = 0.05

    def check(self) -> None:
        if self.seq_len < 2 or not 0 <= self.max_dropped < 1:
            raise BadField(
                f"TokenizeChats: seq_len is {self.seq_len} and max_dropped {self.max_dropped}; wanted seq_len of at "
                "least 2, and max_dropped of at least 0 and below 1"
            )

    def run(self, ctx: Context) -> Tokens:
        from marin.data.chat import Chat, ChatTemplate, packed, write_chats
        from marin.data.raw_records import is_readable, look_up, read_records
        from marin.data.tokenizer import check_digest, load_tokenizer

        raw, made = ctx[self.chats].directory, ctx[self.tokenizer]
        tokenizer = load_tokenizer(made.directory)
        check_digest(tokenizer, made.digest, made.directory)
        template = ChatTemplate(made.directory, self.template)
        names = [name for name in raw.names() if is_readable(name)]
        if not names:
            raise GarbledDocument(
                f"{raw.url}: no .parquet or JSON-lines file among {', '.join(raw.names()[:5]) or 'none'}"
            )
        kept = dropped = counted = 0

        def chats() -> Iterator[Chat]:
            nonlocal kept, dropped, counted
            for done, name in enumerate(names):
                ctx.progress(done, len(names), "files")
                for where, record in read_records(raw, name):
                    chat = template.encode(where, look_up(record, self.field))
                    if len(chat.ids) > self.seq_len:
                        dropped += 1
                        continue
                    kept, counted = kept + 1, counted + int(chat.mask.sum())
                    yield chat

        meta = write_chats(
            ctx.out,
            packed(chats(), self.seq_len, tokenizer.eos),
            vocabulary=tokenizer.vocabulary,
            tokenizer=tokenizer.digest,
            eos=tokenizer.eos,
        )
        ctx.log(f"{kept:,} chats; the loss counts {counted:,} of {meta.tokens:,} tokens; {dropped:,} chats too long")
        if dropped > self.max_dropped * (kept + dropped):
            raise OverRemoval(
                f"{self.name}: {dropped:,} of {kept + dropped:,} chats are longer than {self.seq_len:,} tokens, more "
                f"than max_dropped={self.max_dropped:g} allows; lengthen seq_len, or raise max_dropped"
            )
        return Tokens(
            tokens=meta.tokens, documents=meta.documents, vocabulary=meta.vocabulary, tokenizer=meta.tokenizer
        )


def must_fit(tokens: ExecutorStep[Any], training: str, seq_len: int, vocabulary: int) -> None:
    """Check the length and the vocabulary of a token store before it exists, as far as its step tells them.

    The run checks the tokens themselves when it begins. Raises BadField.
    """
    if isinstance(tokens, TokenizeChats) and tokens.seq_len != seq_len:
        raise BadField(
            f"{training}: seq_len is {seq_len}, but {tokens.name} packs its chats for {tokens.seq_len}; "
            "wanted the same length, because another one cuts chats in two"
        )
    tokenizer = tokens.tokenizer if isinstance(tokens, Tokenize | TokenizeChats) else None
    # A tokenizer that is still to be trained has the size asked for, a published tokenizer the declared one.
    if (most := getattr(tokenizer, "vocabulary", None) or 0) > vocabulary:
        raise BadField(
            f"{training}: vocabulary is {vocabulary:,}, but the tokenizer of {tokens.name} may have {most:,} entries; "
            "raise the vocabulary to at least as many"
        )
