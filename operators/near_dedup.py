"""NearDedup: remove documents that nearly repeat an earlier document, or that an earlier document contains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from marin import Context, Documents, ExecutorStep, Size
from marin.errors import BadField
from marin.text.near_rule import NearDuplicates

SUMMARY = "near_dedup.json"


class NearDedup(ExecutorStep[Documents], op="near-dedup", version=2):
    """Each text once: of near copies, the first in order stays.

    The sidecar names for each removed document the document that it copies, and their similarity; near_dedup.json sums
    up. against: preferred sources, the most preferred first. The step also removes copies of their documents, and
    leaves these sources as they are.

    Four tasks for each shard of text and one for each bucket; finished tasks stay when the step is killed. Memory of a
    task: .3 GB and 2 bytes for each byte of its shard, or 1.2 GB for a bucket. Memory of the step itself: 8 bytes for
    each removed document. Work in progress: 1.2 bytes for each byte of text.
    Raises OverRemoval if more than max_removed of the documents go.
    """

    documents: ExecutorStep[Documents]
    rule: NearDuplicates = NearDuplicates()
    max_removed: float = 0.5
    against: tuple[ExecutorStep[Documents], ...] = ()

    def check(self) -> None:
        if not 0 <= self.max_removed <= 1:
            raise BadField(f"NearDedup.max_removed is {self.max_removed}; wanted a fraction from 0 to 1")
        if self.documents in self.against:
            raise BadField(
                f"NearDedup.against holds {self.documents.name} itself, so nothing would stay; take it out of against"
            )

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.documents)  # at most

    def run(self, ctx: Context) -> Documents:
        from marin.data import near_copies
        from marin.data.documents import shard_names
        from marin.data.dropped import Sieved, remaining

        sources = [ctx[step] for step in (*self.against, self.documents)]
        texts = [(source.directory, name) for source in sources for name in shard_names(source.directory)]
        own = range(len(texts) - len(shard_names(sources[-1].directory)), len(texts))
        keys = sum(source.documents * self.rule.bands + source.bytes // 5 // self.rule.one_in for source in sources)
        work = near_copies.Work(
            state=ctx.state,
            rule=self.rule,
            shards=len(texts),
            own=own.start,
            buckets=keys // near_copies.BUCKET_KEYS + 1,
        )
        ctx.map(near_copies.sign_shard, [(work, at, *text) for at, text in enumerate(texts)])
        ctx.progress(1, 5, "passes", "signed")
        crowded = sum(ctx.map(near_copies.propose, [(work, bucket) for bucket in range(work.buckets)]))
        ctx.progress(2, 5, "passes", "pairs proposed")
        ctx.map(near_copies.narrow_shard, [(work, at) for at in own])
        ctx.progress(3, 5, "passes", "pairs narrowed down")
        compared = sum(ctx.map(near_copies.compare_shard, [(work, at) for at in own]))
        ctx.progress(4, 5, "passes", "pairs compared")
        near_copies.decide(work)
        written = ctx.write_shards(near_copies.sieve_shard, [(work, at, *texts[at]) for at in own], Sieved)
        removed = sum(shard.seen - shard.documents for shard in written)
        summary = {"compared_pairs": compared, "crowded_keys": crowded, "removed": removed}
        ctx.out.write_text(SUMMARY, json.dumps(summary, indent=1, sort_keys=True) + "\n")
        ctx.log(f"{compared:,} pairs compared; for {crowded:,} crowded keys, only with the first documents of the key")
        return remaining(self.name, self.documents.name, written, self.max_removed, ctx.out, ctx.log)
