"""ExactDedup: remove documents or paragraphs that repeat an earlier one exactly."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Documents, ExecutorStep, Size, since, value
from marin.errors import BadField

if TYPE_CHECKING:
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, Sieved

BUCKET_BYTES = 8 << 30  # bytes of text whose keys one task compares


@value("exact_dedup/unit")
class Unit(Enum):
    """The unit of comparison."""

    _value_: str
    DOCUMENT = "document"
    PARAGRAPH = "paragraph"


class ExactDedup(ExecutorStep[Documents], op="exact-dedup", version=1):
    """Each text once: the first in order stays.

    With Unit.PARAGRAPH the step removes repeated paragraphs of at least paragraph_words words, and every document that
    is left empty. against: preferred sources; the step also removes the texts that these contain.
    Three tasks for each shard of text. Memory of a task: 24 bytes for each text (or paragraph) in BUCKET_BYTES of text.
    Raises OverRemoval if more than max_removed of the documents go.
    """

    documents: ExecutorStep[Documents]
    unit: Unit = Unit.DOCUMENT
    paragraph_words: int = 20
    max_removed: float = 0.5
    against: tuple[ExecutorStep[Documents], ...] = since(2, default=())

    def check(self) -> None:
        if self.paragraph_words < 1:
            raise BadField(f"ExactDedup.paragraph_words is {self.paragraph_words}; wanted at least 1")
        if not 0 <= self.max_removed <= 1:
            raise BadField(f"ExactDedup.max_removed is {self.max_removed}; wanted a fraction from 0 to 1")
        if self.documents in self.against:
            raise BadField(
                f"ExactDedup.against holds {self.documents.name} itself, so nothing would stay; take it out of against"
            )

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.documents)  # at most

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import shard_names
        from marin.data.dropped import Sieved, remaining

        sources = [ctx[step] for step in (*self.against, self.documents)]
        buckets = sum(source.bytes for source in sources) // BUCKET_BYTES + 1
        at_least = self.paragraph_words if self.unit is Unit.PARAGRAPH else 0
        shards = [(source.directory, name) for source in sources for name in shard_names(source.directory)]
        keys, gone = ctx.state / "keys", ctx.state / "gone"
        ctx.map(_write_keys, [(*shard, at_least, buckets, keys / str(at)) for at, shard in enumerate(shards)])
        ctx.map(_write_repeats, [(keys, len(shards), bucket, gone / str(bucket)) for bucket in range(buckets)])
        own = [(*shard, at_least, buckets, gone, at) for at, shard in enumerate(shards)]
        names = shard_names(sources[-1].directory)
        written = ctx.write_shards(_sieve_shard, own[-len(names) :], Sieved)
        return remaining(self.name, self.documents.name, written, self.max_removed, ctx.out, ctx.log)


def _write_keys(work: tuple[Directory, str, int, int, Directory]) -> None:
    """Write the keys of one shard's texts. at_least: words of a paragraph; 0 for whole documents."""
    import numpy as np

    from marin.data import parts
    from marin.data.documents import read_shard
    from marin.text.exact import keys, long_paragraphs, whole

    inputs, name, at_least, buckets, out = work
    if out.exists(parts.DONE):
        return
    texts = (document.text for document in read_shard(inputs, name))
    compared = functools.partial(long_paragraphs, at_least=at_least) if at_least else whole
    found = keys(texts, compared, buckets)
    parts.write(out, "keys", np.concatenate(found))
    parts.finish(out, np.array([len(bucket) for bucket in found]))


def _write_repeats(work: tuple[Directory, int, int, Directory]) -> None:
    """Write the places of one bucket's repeats, by shard."""
    import numpy as np

    from marin.data import parts
    from marin.text.exact import KEY, repeats

    made, shards, bucket, out = work
    if out.exists(parts.DONE):
        return
    found = repeats([parts.read_part(made / str(at), "keys", KEY, bucket) for at in range(shards)])
    parts.write(out, "places", np.concatenate(found))
    parts.finish(out, np.array([len(shard) for shard in found]))


def _sieve_shard(work: tuple[Directory, str, int, int, Directory, int], out: Directory) -> Sieved:
    import numpy as np

    from marin.data import parts
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, sieve
    from marin.text.exact import without_repeats

    inputs, name, at_least, buckets, repeated, at = work
    kind = np.dtype(np.uint64)
    found = (parts.read_part(repeated / str(bucket), "places", kind, at) for bucket in range(buckets))
    gone = {place for places in found for place in places.tolist()}
    next_place = 0

    def judge(document: Document) -> Document | Dropped:
        nonlocal next_place
        if not at_least:
            place, next_place = next_place, next_place + 1
            return Dropped(document.id, "duplicate_document") if place in gone else document
        text, removed, next_place = without_repeats(document.text, gone, next_place, at_least)
        if removed and not text.strip():
            return Dropped(document.id, "only_duplicate_paragraphs", {"paragraphs": removed})
        return Document(text, document.source, document.metadata) if removed else document

    return sieve(inputs, name, out, judge)
