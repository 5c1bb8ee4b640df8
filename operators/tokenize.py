"""Tokenize: the token store of a document set."""

from __future__ import annotations

from collections.abc import Iterator

from marin import Context, Documents, ExecutorStep, Tokenizer, Tokens


class Tokenize(ExecutorStep[Tokens], op="tokenize"):
    """Token store of a document set, one tokenizer; every document ends with the tokenizer's eos."""

    documents: ExecutorStep[Documents]
    tokenizer: ExecutorStep[Tokenizer]

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
