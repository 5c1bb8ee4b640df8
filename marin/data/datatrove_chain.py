"""Documents through blocks of datatrove: what comes out, and what each block kept back, with its reason."""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from marin.data.documents import Document
from marin.data.dropped import Dropped
from marin.errors import BadField

NEITHER = ("datatrove.pipeline.readers", "datatrove.pipeline.writers", "datatrove.pipeline.tokens")
REASON = "filter_reason"  # where a filter of datatrove writes why


class _KeptBack:
    """In place of a filter's exclusion_writer: the reasons, by number of the document."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def __enter__(self) -> _KeptBack:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""

    def write(self, document: Any, rank: int) -> None:
        del rank
        self.reasons[document.id] = document.metadata.get(REASON, "")


def through(
    blocks: Sequence[Any], documents: Iterable[Document], shard: int, shards: int
) -> Iterator[Document | Dropped]:
    """The documents that come out of the last block, in its order, then those that did not, in order of input.

    blocks: of datatrove, new ones. A document that a block makes of its own has no source.
    Raises BadField for what is no block, or one that reads or writes elsewhere.
    """
    from datatrove.data import Document as TheirDocument

    for block in blocks:
        _must_be_a_block(block)
    known: dict[str, tuple[str, str, int]] = {}  # by number: id, source and UTF-8 bytes
    entered: list[set[str]] = [set() for _ in range(len(blocks) + 1)]
    kept_back = [_KeptBack() for _ in blocks]

    def given() -> Iterator[Any]:
        for number, document in enumerate(documents):
            known[str(number)] = (document.id, document.source, len(document.text.encode()))
            yield TheirDocument(text=document.text, id=str(number), metadata=dict(document.metadata))

    def noted(data: Iterable[Any], number: int) -> Iterator[Any]:
        for document in data:
            entered[number].add(document.id)
            yield document

    data = noted(given(), 0)
    for number, (block, back) in enumerate(zip(blocks, kept_back, strict=True)):
        if hasattr(block, "exclusion_writer"):
            block.exclusion_writer = back
        data = noted(block.run(data, shard, shards), number + 1)
    for document in data:
        _, source, _ = known.get(document.id, ("", "", 0))
        yield Document(document.text, source, document.metadata)
    for number, (id, _, size) in known.items():
        if number in entered[-1]:
            continue
        last = max(place for place, seen in enumerate(entered) if number in seen)
        block = type(blocks[last]).__name__
        yield Dropped(id, kept_back[last].reasons.get(number) or block, {"block": block}, size)


def _must_be_a_block(block: Any) -> None:
    from datatrove.pipeline.base import PipelineStep

    if not isinstance(block, PipelineStep):
        raise BadField(f"a chain of datatrove holds {block!r}; wanted blocks, such as GopherQualityFilter()")
    if type(block).__module__.startswith(NEITHER):
        raise BadField(
            f"a chain of datatrove holds {type(block).__name__}, which reads or writes elsewhere; marin does that: "
            "give the blocks between"
        )
    if getattr(block, "exclusion_writer", None) is not None:
        raise BadField(
            f"{type(block).__name__} has an exclusion_writer; what it drops is kept beside the output, leave that out"
        )
