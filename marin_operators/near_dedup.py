"""NearDedup: documents that are almost an earlier one go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from marin import Context, Documents, ExecutorStep, Size
from marin.errors import BadField
from marin.text.near_rule import NearDuplicates

if TYPE_CHECKING:
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, Sieved


class NearDedup(ExecutorStep[Documents], op="near-dedup", version=1):
    """Each text once, almost-copies counted as copies, the first by order kept.

    The sidecar says of which document each removed one is a copy, and how similar they are.
    One process: 8 bytes per word and about 3 KB per document in memory.
    Raises OverRemoval if more than max_removed of the documents go.
    """

    documents: ExecutorStep[Documents]
    rule: NearDuplicates = NearDuplicates()
    max_removed: float = 0.5

    def check(self) -> None:
        if not 0 <= self.max_removed <= 1:
            raise BadField(f"NearDedup.max_removed is {self.max_removed}; wanted a fraction from 0 to 1")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.documents)  # at most

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import read_documents, read_shard, shard_names
        from marin.data.dropped import Dropped, check_removed, total, write_sieved
        from marin.text.near import near_duplicates

        inputs = ctx[self.documents].directory
        names = shard_names(inputs)
        ids: list[str] = []

        def texts() -> Iterator[str]:
            for document in read_documents(inputs):
                ids.append(document.id)
                yield document.text

        copies = near_duplicates(texts(), self.rule)

        def verdicts(name: str) -> Iterator[Document | Dropped]:
            for document in read_shard(inputs, name):
                copy = next(copies)
                if copy is None:
                    yield document
                else:
                    evidence = {
                        "of": ids[copy.of],
                        "jaccard": round(copy.jaccard, 4),
                        "containment": round(copy.containment, 4),
                    }
                    yield Dropped(document.id, "near_duplicate", evidence)

        parts: list[Sieved] = []
        for index, name in enumerate(names):
            parts.append(write_sieved(ctx.out, index, len(names), verdicts(name)))
            ctx.progress(index + 1, len(names), "shards")
        sieved = total(parts)
        check_removed(self.name, self.documents.name, sieved, self.max_removed, ctx.out)
        return Documents(documents=sieved.documents, bytes=sieved.bytes, shards=len(names), dropped=sieved.dropped)
