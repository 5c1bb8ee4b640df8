"""ExactDedup: documents or paragraphs that came before go."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from marin import Context, Documents, ExecutorStep, Size, value
from marin.errors import BadField

if TYPE_CHECKING:
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, Sieved


@value("exact_dedup/unit")
class Unit(Enum):
    """What is compared."""

    _value_: str
    DOCUMENT = "document"
    PARAGRAPH = "paragraph"


class ExactDedup(ExecutorStep[Documents], op="exact-dedup", version=1):
    """Each text once, the first by order.

    With Unit.PARAGRAPH, paragraphs of at least paragraph_words words that came before are taken out,
    and documents of which nothing stays. One process: 16 bytes of hash per text, about 100 in memory.
    Raises OverRemoval if more than max_removed of the documents go.
    """

    documents: ExecutorStep[Documents]
    unit: Unit = Unit.DOCUMENT
    paragraph_words: int = 20
    max_removed: float = 0.5

    def check(self) -> None:
        if self.paragraph_words < 1:
            raise BadField(f"ExactDedup.paragraph_words is {self.paragraph_words}; wanted at least 1")
        if not 0 <= self.max_removed <= 1:
            raise BadField(f"ExactDedup.max_removed is {self.max_removed}; wanted a fraction from 0 to 1")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.documents)  # at most

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import Document, shard_names
        from marin.data.dropped import Dropped, check_removed, sieve, total
        from marin.text.exact import Seen, without_seen_paragraphs

        seen = Seen()

        def judge(document: Document) -> Document | Dropped:
            if self.unit is Unit.DOCUMENT:
                return Dropped(document.id, "duplicate_document") if seen.add(document.text) else document
            text, removed = without_seen_paragraphs(document.text, seen, self.paragraph_words)
            if removed and not text.strip():
                return Dropped(document.id, "only_duplicate_paragraphs", {"paragraphs": removed})
            return Document(text, document.source, document.metadata) if removed else document

        inputs = ctx[self.documents].directory
        names = shard_names(inputs)
        parts: list[Sieved] = []
        for name in names:
            parts.append(sieve(inputs, name, ctx.out, judge))
            ctx.progress(len(parts), len(names), "shards")
        sieved = total(parts)
        check_removed(self.name, self.documents.name, sieved, self.max_removed, ctx.out)
        return Documents(documents=sieved.documents, bytes=sieved.bytes, shards=len(names), dropped=sieved.dropped)
