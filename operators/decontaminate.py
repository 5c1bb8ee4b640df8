"""Decontaminate: remove the documents that hold an evaluation item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

type Work = tuple[Directory, str, tuple[tuple[Item, ...], ...], Overlap]

# Items named for each removed document, at most; the sidecar always gives the full number.
NAMED = 20
PASSAGES = 3  # of an evaluation, in the summary


class Decontaminate(ExecutorStep[Documents], op="decontaminate", version=3):
    """The documents that hold no item of the evaluations, in any prompt format, disguised or edited.

    A document of many problems goes as a whole if it holds one item. The sidecar names the items that hit each removed
    document, and their evaluation by its position in ``against``. For each hit the sidecar gives the field, the share,
    the characters, the form of the text and the way it was copied; for each document also a passage.
    ``contamination.json`` sums up by evaluation, with the control. The log counts the items that are too short to be
    found, and ``unindexed.txt`` lists them.
    Before each shard the search must find items that are planted for it.
    Raises ControlMissed if the search misses a planted item, OverRemoval if more than max_removed of the documents go.
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
        import json

        from marin.data.documents import shard_names
        from marin.data.dropped import Sieved, read_dropped, remaining
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
        work: list[Work] = [(inputs, name, suites, self.rule) for name in names]
        written = ctx.write_shards(decontaminate_shard, work, Sieved)
        summary = summarize(read_dropped(ctx.out), suites, indexes(suites, self.rule))
        for step, row in zip(self.against, summary, strict=True):
            row["against"] = step.label or step.name
        seen = sum(shard.seen for shard in written)
        ctx.out.write_text("contamination.json", json.dumps({"documents": seen, "evaluations": summary}, indent=1))
        return remaining(self.name, self.documents.name, written, self.max_removed, ctx.out, ctx.log)


def decontaminate_shard(work: Work, out: Directory) -> Sieved:
    """Search one shard for the items, and write the documents that hold none."""
    from marin.data.dropped import Dropped, sieve
    from marin.text.control import check_control
    from marin.text.places import words_of
    from marin.text.suite_search import cut

    inputs, name, suites, rule = work
    suite_indexes = indexes(suites, rule)
    for index in suite_indexes:
        check_control(index)

    def judge(document: Document) -> Document | Dropped:
        words = words_of(document.text)
        found = [(number, hit) for number, index in enumerate(suite_indexes) for hit in index.find(words)]
        if not found:
            return document
        hits = [
            {
                "against": number,
                "item": suite_indexes[number].items[hit.item].id,
                "part": hit.part,
                "hits": hit.hits,
                "coverage": hit.coverage,
                "span": [hit.start, hit.end],
                "form": hit.form,
                "way": hit.way,
            }
            for number, hit in found
        ]
        items = len({(hit["against"], hit["item"]) for hit in hits})
        passage = cut(document.text, found[0][1])  # of the first hit
        return Dropped(document.id, "contaminated", {"items": items, "hits": hits[:NAMED], "passage": passage})

    return sieve(inputs, name, out, judge)


def summarize(
    dropped: Iterable[Dropped], suites: tuple[tuple[Item, ...], ...], suite_indexes: tuple[OverlapIndex, ...]
) -> list[dict[str, Any]]:
    """Return a summary for each evaluation.

    It counts the items, the items too short to be found, the documents that held an item, and the hits by form and way.
    ``control`` says how many planted items there were and how many the search found. ``found`` counts the items in any
    document, among the NAMED of each. A few passages follow, unlike ones first.
    """
    from collections import Counter

    from marin.text.control import check_control

    documents = [0] * len(suites)
    items: list[set[str]] = [set() for _ in suites]
    forms, ways = ([Counter[str]() for _ in suites] for _ in range(2))
    unlike: list[dict[tuple[str, str], dict[str, Any]]] = [{} for _ in suites]
    alike: list[list[dict[str, Any]]] = [[] for _ in suites]
    for drop in dropped:
        hits: list[dict[str, Any]] = drop.detail["hits"]
        for number in {int(hit["against"]) for hit in hits}:
            documents[number] += 1
            of_it = [hit for hit in hits if hit["against"] == number]
            forms[number].update({str(hit["form"]) for hit in of_it})
            ways[number].update({str(hit["way"]) for hit in of_it})
            items[number].update(str(hit["item"]) for hit in of_it)
        first = hits[0]
        shown = {name: first[name] for name in ("item", "part", "coverage", "form", "way")}
        shown |= {"document": drop.id, "passage": drop.detail["passage"]}
        number, kind = int(first["against"]), (str(first["form"]), str(first["way"]))
        if unlike[number].setdefault(kind, shown) is not shown and len(alike[number]) < PASSAGES:
            alike[number].append(shown)
    return [
        {
            "items": len(suites[number]),
            "unindexed": len(suite_indexes[number].unindexed),
            "control": check_control(suite_indexes[number])._asdict(),
            "documents": documents[number],
            "found": len(items[number]),
            "forms": dict(sorted(forms[number].items())),
            "ways": dict(sorted(ways[number].items())),
            "passages": [*unlike[number].values(), *alike[number]][:PASSAGES],
        }
        for number in range(len(suites))
    ]


# One process handles many shards of one step, so the last index is worth keeping.
@lru_cache(maxsize=2)
def indexes(suites: tuple[tuple[Item, ...], ...], rule: Overlap) -> tuple[OverlapIndex, ...]:
    from marin.text.overlap import OverlapIndex

    return tuple(OverlapIndex(items, rule) for items in suites)
