"""DropShort: an operator of our own."""

from marin import Context, Documents, ExecutorStep
from marin.errors import BadField


class DropShort(ExecutorStep[Documents], op="drop-short", version=1):
    """The documents with at least ``words`` words."""

    documents: ExecutorStep[Documents]
    words: int = 50

    def check(self) -> None:
        if self.words < 1:
            raise BadField(f"DropShort.words is {self.words}; wanted at least 1")

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import read_documents, write_documents  # here: plans need no Arrow

        given = read_documents(ctx[self.documents].directory)
        kept = (document for document in given if len(document.text.split()) >= self.words)
        count, size, shards = write_documents(ctx.out, kept)
        return Documents(documents=count, bytes=size, shards=shards)
