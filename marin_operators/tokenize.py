"""Tokenize: the token store of a document set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from marin import Context, Documents, ExecutorStep, Size, Tokenizer, Tokens

BYTES_PER_ID = 4  # 2 with a vocabulary of at most 65,536


class Tokenize(ExecutorStep[Tokens], op="tokenize"):
    """Token store of a document set, one tokenizer; every document ends with the tokenizer's eos."""

    documents: ExecutorStep[Documents]
    tokenizer: ExecutorStep[Tokenizer]

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        documents = inputs.get(self.documents)
        if documents is None or documents.tokens is None:
            return None
        return Size(bytes=BYTES_PER_ID * documents.tokens, tokens=documents.tokens)

    def run(self, ctx: Context) -> Tokens:
        from marin.data.documents import read_documents
        from marin.data.token_store import write_token_store
        from marin.data.tokenizer import check_digest, load_tokenizer

        documents, made = ctx[self.documents], ctx[self.tokenizer]
        tokenizer = load_tokenizer(made.directory)
        check_digest(tokenizer, made.digest, made.directory)

        def texts() -> Iterator[str]:
            for done, document in enumerate(read_documents(documents.directory)):
                if done % 1024 == 0:
                    ctx.progress(min(done, documents.documents), documents.documents, "documents")
                yield document.text

        meta = write_token_store(
            ctx.out,
            tokenizer.encode(texts()),
            vocabulary=tokenizer.vocabulary,
            tokenizer=tokenizer.digest,
            eos=tokenizer.eos,
        )
        return Tokens(
            tokens=meta.tokens, documents=meta.documents, vocabulary=meta.vocabulary, tokenizer=meta.tokenizer
        )
