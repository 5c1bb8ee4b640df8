"""Sample: draw some documents of many at random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Documents, ExecutorStep, Size
from marin.errors import BadField
from operators.split import side

if TYPE_CHECKING:
    from marin.data.documents import Document


class Sample(ExecutorStep[Documents], op="sample", version=1):
    """A random sample of ``count`` documents, in the order of the input; all documents if the input holds fewer.

    The choice depends only on the texts and the seed, so a larger sample contains a smaller one.
    """

    documents: ExecutorStep[Documents]
    count: int
    seed: int = 0

    def check(self) -> None:
        if self.count < 1:
            raise BadField(f"Sample.count is {self.count}; wanted at least 1 document")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.documents)  # at most

    def run(self, ctx: Context) -> Documents:
        import heapq
        import itertools

        from marin.data.documents import read_shard, shard_names, write_documents

        inputs = ctx[self.documents].directory
        names = shard_names(inputs)
        found = ctx.map(
            _first_few, [(inputs, number, name, self.count, self.seed) for number, name in enumerate(names)]
        )
        chosen = sorted((shard, row) for _, shard, row in heapq.nsmallest(self.count, itertools.chain(*found)))

        def members() -> Iterator[Document]:
            for shard, group in itertools.groupby(chosen, key=lambda place: place[0]):
                rows = {row for _, row in group}
                yield from (each for row, each in enumerate(read_shard(inputs, names[shard])) if row in rows)

        documents, size, shards = write_documents(ctx.out, members())
        return Documents(documents=documents, bytes=size, shards=shards)


def _first_few(work: tuple[Directory, int, str, int, int]) -> list[tuple[float, int, int]]:
    """Return (random number, shard, row) of each document of one shard that may be chosen."""
    import heapq

    from marin.data.documents import read_shard

    inputs, shard, name, count, seed = work
    drawn = ((side(document.id, seed), shard, row) for row, document in enumerate(read_shard(inputs, name)))
    return heapq.nsmallest(count, drawn)
