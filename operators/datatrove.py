"""Datatrove: run documents through a chain of datatrove's blocks, as one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from marin import Context, Directory, Documents, ExecutorStep, Size, since
from marin.errors import BadField

if TYPE_CHECKING:
    from marin.data.dropped import Sieved


class Chain(Protocol):
    """A @value class; each call makes new blocks. Its code and fields are part of the step's identity."""

    def __call__(self) -> Sequence[Any]: ...


class Datatrove(ExecutorStep[Documents], op="datatrove", version=1):
    """The documents that come out of the last block, with text and metadata as the blocks leave them.

    Each shard goes through new blocks, so the memory of a block (a Bloom filter) covers one shard. The step counts and
    lists the documents that a block drops by the block's reason, or by its name if it gives no reason.
    Without ``documents`` the chain begins with a reader of files, and the step divides the files among ``shards``. A
    file that is added, removed or changed later shows as drift. The step lists unreadable input as dropped.
    The step refuses blocks that write or tokenize, and readers in other places of the chain. For some blocks
    (LanguageFilter) datatrove itself downloads the model. Raises OverRemoval if more than max_removed of the documents
    go.
    """

    documents: ExecutorStep[Documents] | None = since(2, default=None)
    chain: Chain
    max_removed: float = 0.5
    shards: int = since(2, default=1)

    def check(self) -> None:
        if self.shards < 1 or (self.documents is not None and self.shards > 1):
            raise BadField(f"Datatrove.shards is {self.shards}; wanted at least 1, and more only without documents")
        if not 0 <= self.max_removed <= 1:
            raise BadField(f"Datatrove.max_removed is {self.max_removed}; wanted a fraction from 0 to 1")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return None if self.documents is None else inputs.get(self.documents)  # at most, of filters

    def outside(self) -> dict[str, str]:
        from marin.data.datatrove_chain import files_read
        from marin.data.outside_files import outside_files

        return {} if self.documents is not None else outside_files(files_read(self.chain()))

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import shard_names
        from marin.data.dropped import Sieved, remaining

        if self.documents is None:
            work = [(self.chain, shard, self.shards) for shard in range(self.shards)]
            read = ctx.write_shards(_from_reader, work, Sieved)
            return remaining(self.name, "its reader", read, self.max_removed, ctx.out, ctx.log)
        inputs = ctx[self.documents].directory
        names = shard_names(inputs)
        written = ctx.write_shards(_through_shard, [(inputs, name, self.chain) for name in names], Sieved)
        return remaining(self.name, self.documents.name, written, self.max_removed, ctx.out, ctx.log)


def _from_reader(work: tuple[Chain, int, int], out: Directory) -> Sieved:
    from marin.data.datatrove_chain import read_through
    from marin.data.dropped import write_sieved

    chain, shard, shards = work
    return write_sieved(out, shard, shards, read_through(chain(), shard, shards))


def _through_shard(work: tuple[Directory, str, Chain], out: Directory) -> Sieved:
    from marin.data.datatrove_chain import through
    from marin.data.documents import read_shard
    from marin.data.dropped import write_sieved

    inputs, name, chain = work
    shard, shards = int(name[6:11]), int(name[15:20])
    return write_sieved(out, shard, shards, through(chain(), read_shard(inputs, name), shard, shards))
