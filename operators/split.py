"""Split: training and held-out documents, by hash of the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Documents, ExecutorStep, Size, value
from marin.errors import BadField, InputError, OverRemoval

if TYPE_CHECKING:
    from marin.data.documents import Document


@value("split/part")
class Part(Enum):
    """Which side of the split."""

    _value_: str
    TRAIN = "train"
    HELD_OUT = "held_out"


class Split(ExecutorStep[Documents], op="split", version=1):
    """One part of a document set. The two parts are disjoint and together everything.

    holdout: the share that is held out, in expectation. A text is on the same side in every set
    that is split with this holdout and seed. Raises OverRemoval if the part would be empty, InputError if what is held
    out is a single document: no comparison has an interval over one.
    """

    documents: ExecutorStep[Documents]
    part: Part
    holdout: float
    seed: int = 0

    def check(self) -> None:
        if not 0 < self.holdout < 1:
            raise BadField(f"Split.holdout is {self.holdout}; wanted a fraction between 0 and 1")
        if not 0 <= self.seed < 2**64:
            raise BadField(f"Split.seed is {self.seed}; wanted an unsigned 64-bit number")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.documents)  # at most

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import shard_names

        inputs = ctx[self.documents].directory
        names = shard_names(inputs)
        work = [(inputs, name, self.part, self.holdout, self.seed) for name in names]
        written = ctx.write_shards(split_shard, work, tuple[int, int])
        documents, size = sum(count for count, _ in written), sum(size for _, size in written)
        if not documents:
            raise OverRemoval(
                f"{self.name}: no document of {self.documents.name} is in the part {self.part.name}; with holdout "
                f"{self.holdout} it needs more documents or another seed"
            )
        if documents == 1 and self.part is Part.HELD_OUT:
            raise InputError(
                f"{self.name}: only one of {ctx[self.documents].documents:,} documents of {self.documents.name} is "
                "held out, and no comparison has an interval over one; give more documents (chapters in place of "
                f"books, say), a holdout above {self.holdout:g}, or another seed than {self.seed}"
            )
        return Documents(documents=documents, bytes=size, shards=len(names))


def split_shard(work: tuple[Directory, str, Part, float, int], out: Directory) -> tuple[int, int]:
    """Write the part's share of one shard."""
    from marin.data.documents import read_shard, write_shard

    inputs, name, part, holdout, seed = work

    def members() -> Iterator[Document]:
        for document in read_shard(inputs, name):
            if (side(document.id, seed) < holdout) is (part is Part.HELD_OUT):
                yield document

    return write_shard(out, int(name[6:11]), int(name[15:20]), members())


def side(document_id: str, seed: int) -> float:
    """A number in [0, 1) that only depends on the text and the seed."""
    import xxhash

    # 53 bits: what a float holds exactly.
    return (xxhash.xxh3_64_intdigest(document_id.encode(), seed=seed) >> 11) / 2**53
