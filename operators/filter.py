"""Filter: keep documents that pass quality rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Documents, ExecutorStep, Size
from marin.errors import BadField
from marin.text.published import Published
from marin.text.quality import Quality

if TYPE_CHECKING:
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, Sieved


class Filter(ExecutorStep[Documents], op="filter", version=1):
    """The documents that the rules keep, without the lines that the line rules remove.

    quality: a preset of marin.text.presets (WEB, PROSE, CODE, SHORT), your own rules, or published filters that decide
    as datatrove does (marin.text.published).
    Raises OverRemoval if more than max_removed of the documents go.
    """

    documents: ExecutorStep[Documents]
    quality: Quality | Published
    max_removed: float = 0.5

    def check(self) -> None:
        if isinstance(self.quality, Quality) and not (self.quality.rules or self.quality.lines):
            raise BadField("Filter.quality has no rule; give a preset, or leave the step out")
        if not 0 <= self.max_removed <= 1:
            raise BadField(f"Filter.max_removed is {self.max_removed}; wanted a fraction from 0 to 1")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.documents)  # at most

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import shard_names
        from marin.data.dropped import Sieved, remaining

        inputs = ctx[self.documents].directory
        names = shard_names(inputs)
        written = ctx.write_shards(filter_shard, [(inputs, name, self.quality) for name in names], Sieved)
        return remaining(self.name, self.documents.name, written, self.max_removed, ctx.out, ctx.log)


def filter_shard(work: tuple[Directory, str, Quality | Published], out: Directory) -> Sieved:
    """Write the documents of one shard that the rules keep."""
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, sieve

    inputs, name, quality = work

    def judge(document: Document) -> Document | Dropped:
        verdict = quality.judge(document.text)
        if verdict.reason is not None:
            return Dropped(document.id, verdict.reason)
        return Document(verdict.text, document.source, document.metadata)

    return sieve(inputs, name, out, judge)
