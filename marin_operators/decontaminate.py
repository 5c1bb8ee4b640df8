"""Decontaminate: documents that hold an evaluation item go."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Documents, ExecutorStep, Items, Size
from marin.errors import BadField
from marin.text.overlap_rule import Overlap

if TYPE_CHECKING:
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, Sieved
    from marin.evaluation.items import Item
    from marin.text.overlap import OverlapIndex

type Work = tuple[Directory, str, Directory, tuple[tuple[Item, ...], ...], Overlap]

# At most so many items are named per removed document; the number of all is always given.
NAMED = 20


class Decontaminate(ExecutorStep[Documents], op="decontaminate", version=1):
    """The documents that hold no item of the evaluations, in any prompt format.

    A document of many problems goes as a whole if it holds one item. The sidecar says which items
    (and of which evaluation, by position in ``against``) hit each removed document. Items that are
    too short to be found are named in the log and in ``unindexed.txt``: never silently missed.
    Raises OverRemoval if more than max_removed of the documents go.
    """

    documents: ExecutorStep[Documents]
    against: tuple[ExecutorStep[Items], ...]
    rule: Overlap = Overlap()
    max_removed: float = 0.5

    def check(self) -> None:
        if not self.against:
            raise BadField("Decontaminate.against is empty; give the items of at least one evaluation")
        if not 0 <= self.max_removed <= 1:
            raise BadField(f"Decontaminate.max_removed is {self.max_removed}; wanted a fraction from 0 to 1")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.documents)  # at most

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import shard_names
        from marin.data.dropped import check_removed, total
        from marin.evaluation.items import read_items

        suites = tuple(tuple(read_items(ctx[step].directory)) for step in self.against)
        unindexed = [
            f"{number}\t{item}\n" for number, index in enumerate(indexes(suites, self.rule)) for item in index.unindexed
        ]
        ctx.out.write_text("unindexed.txt", "".join(unindexed))
        if unindexed:
            ctx.log(f"{len(unindexed)} items are too short to be found in any text; see {ctx.out.url}/unindexed.txt")
        inputs = ctx[self.documents].directory
        names = shard_names(inputs)
        work: list[Work] = [(inputs, name, ctx.out, suites, self.rule) for name in names]
        sieved = total(ctx.map(decontaminate_shard, work))
        check_removed(self.name, self.documents.name, sieved, self.max_removed, ctx.out)
        return Documents(documents=sieved.documents, bytes=sieved.bytes, shards=len(names), dropped=sieved.dropped)


def decontaminate_shard(work: Work) -> Sieved:
    """Look through one shard."""
    from marin.data.dropped import Dropped, sieve

    inputs, name, out, suites, rule = work
    suite_indexes = indexes(suites, rule)

    def judge(document: Document) -> Document | Dropped:
        hits = [
            {
                "against": number,
                "item": index.items[hit.item].id,
                "part": hit.part,
                "hits": hit.hits,
                "coverage": hit.coverage,
            }
            for number, index in enumerate(suite_indexes)
            for hit in index.find(document.text)
        ]
        if not hits:
            return document
        items = len({(hit["against"], hit["item"]) for hit in hits})
        return Dropped(document.id, "contaminated", {"items": items, "hits": hits[:NAMED]})

    return sieve(inputs, name, out, judge)


# One process handles many shards of one step, so the last index is worth keeping.
@lru_cache(maxsize=2)
def indexes(suites: tuple[tuple[Item, ...], ...], rule: Overlap) -> tuple[OverlapIndex, ...]:
    from marin.text.overlap import OverlapIndex

    return tuple(OverlapIndex(items, rule) for items in suites)
