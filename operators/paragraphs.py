"""Paragraphs: make each paragraph a document of its own, to score short texts or the effect of a text's ending."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from marin import Context, Documents, ExecutorStep
from marin.errors import BadField

if TYPE_CHECKING:
    from marin.data.documents import Document


class Paragraphs(ExecutorStep[Documents], op="paragraphs"):
    """Each paragraph of at least ``least`` characters, stripped of space at its ends, and with ``ending`` after it.

    ``ending=" "`` shows the loss on texts that end in a space, as some texts of Paloma's c4_en do.
    """

    documents: ExecutorStep[Documents]
    ending: str = ""
    least: int = 80

    def check(self) -> None:
        if self.least < 1:
            raise BadField(f"Paragraphs.least is {self.least}; wanted at least 1 character")

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import Document, read_documents, write_documents

        def paragraphs() -> Iterator[Document]:
            for document in read_documents(ctx[self.documents].directory):
                for text in map(str.strip, document.text.split("\n\n")):
                    if len(text) >= self.least:
                        yield Document(text + self.ending, document.source, {"of": document.id})

        count, size, shards = write_documents(ctx.out, paragraphs())
        return Documents(documents=count, bytes=size, shards=shards)
