"""Datatrove: documents through a chain of datatrove's blocks, as one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from marin import Context, Directory, Documents, ExecutorStep, Size
from marin.errors import BadField

if TYPE_CHECKING:
    from marin.data.dropped import Sieved


class Chain(Protocol):
    """A @value class whose instances make the blocks, new ones at each call; its code is part of the step's identity,
    as its fields are."""

    def __call__(self) -> Sequence[Any]: ...


class Datatrove(ExecutorStep[Documents], op="datatrove", version=1):
    """What comes out of the last block, with text and metadata as the blocks leave them.

    Each shard goes through blocks of its own, so what a block remembers (a Bloom filter) it remembers of a shard.
    What a block drops is counted and listed by its reason, or by the block's name where it gives none. Blocks that
    read, write or tokenize are refused; of some, such as LanguageFilter, datatrove itself downloads the model.
    Raises OverRemoval if more than max_removed of the documents go.
    """

    documents: ExecutorStep[Documents]
    chain: Chain
    max_removed: float = 0.5

    def check(self) -> None:
        if not 0 <= self.max_removed <= 1:
            raise BadField(f"Datatrove.max_removed is {self.max_removed}; wanted a fraction from 0 to 1")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.documents)  # at most, of filters

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import shard_names
        from marin.data.dropped import Sieved, remaining

        inputs = ctx[self.documents].directory
        names = shard_names(inputs)
        written = ctx.write_shards(_through_shard, [(inputs, name, self.chain) for name in names], Sieved)
        return remaining(self.name, self.documents.name, written, self.max_removed, ctx.out, ctx.log)


def _through_shard(work: tuple[Directory, str, Chain], out: Directory) -> Sieved:
    from marin.data.datatrove_chain import through
    from marin.data.documents import read_shard
    from marin.data.dropped import write_sieved

    inputs, name, chain = work
    shard, shards = int(name[6:11]), int(name[15:20])
    return write_sieved(out, shard, shards, through(chain(), read_shard(inputs, name), shard, shards))
