"""Split: divide documents into training and held-out documents, by a hash of the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Documents, ExecutorStep, Size, since, value
from marin.errors import BadField, InputError, OverRemoval

if TYPE_CHECKING:
    from marin.data.documents import Document


@value("split/part")
class Part(Enum):
    """The side of the split."""

    _value_: str
    TRAIN = "train"
    HELD_OUT = "held_out"


class Split(ExecutorStep[Documents], op="split", version=2):
    """One part of a document set. The two parts are disjoint and together hold everything.

    holdout: the share that is held out, in expectation. A text is on the same side in every set that is split with this
    holdout and seed. piece: the most characters of a piece; None cuts nothing. A longer document is cut at paragraphs,
    each piece is held out or not by its own text, and neighbouring training pieces become one document again.
    Raises OverRemoval if the part would be empty. Raises InputError if the held-out part is a single document, because
    no comparison has an interval over one document.
    """

    documents: ExecutorStep[Documents]
    part: Part
    holdout: float
    seed: int = 0
    piece: int | None = since(2, default=None)

    def check(self) -> None:
        if not 0 < self.holdout < 1:
            raise BadField(f"Split.holdout is {self.holdout}; wanted a fraction between 0 and 1")
        if not 0 <= self.seed < 2**64:
            raise BadField(f"Split.seed is {self.seed}; wanted an unsigned 64-bit number")
        if self.piece is not None and self.piece < 1:
            raise BadField(f"Split.piece is {self.piece}; wanted a number of characters, such as 20_000, or None")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        whole = inputs.get(self.documents)
        if whole is None or whole.documents is None:
            return whole  # at most
        share = self.holdout if self.part is Part.HELD_OUT else 1 - self.holdout
        pieces = whole.bytes / self.piece if self.piece is not None else 0.0
        return replace(whole, documents=share * max(whole.documents, pieces if self.part is Part.HELD_OUT else 0.0))

    def run(self, ctx: Context) -> Documents:
        from marin.data.artifacts import OTHER_PART
        from marin.data.documents import shard_names

        inputs = ctx[self.documents].directory
        names = shard_names(inputs)
        work = [(inputs, name, self.part, self.holdout, self.seed, self.piece) for name in names]
        written = ctx.write_shards(split_shard, work, tuple[int, int, int])
        documents, size, others = (sum(each[at] for each in written) for at in range(3))
        if not documents:
            raise OverRemoval(
                f"{self.name}: no document of {self.documents.name} is in the part {self.part.name}; with holdout "
                f"{self.holdout} it needs more documents or another seed"
            )
        if documents == 1 and self.part is Part.HELD_OUT:
            raise InputError(
                f"{self.name}: only one of {ctx[self.documents].documents:,} documents of {self.documents.name} is "
                "held out, and no comparison has an interval over one; give more documents, "
                f"cut long ones (piece=20_000), or choose a holdout above {self.holdout:g} or a seed other than "
                f"{self.seed}"
            )
        return Documents(documents=documents, bytes=size, shards=len(names), dropped={OTHER_PART: others})


def split_shard(work: tuple[Directory, str, Part, float, int, int | None], out: Directory) -> tuple[int, int, int]:
    """Write the part's share of one shard. Return its documents, their bytes, and the pieces of the other part."""
    from marin.data.documents import read_shard, write_shard

    inputs, name, part, holdout, seed, piece = work
    others = 0

    def members() -> Iterator[Document]:
        nonlocal others
        for document in read_shard(inputs, name):
            for held, texts in groupby(pieces(document.text, piece), lambda text: is_held_out(text, holdout, seed)):
                if held is not (part is Part.HELD_OUT):
                    others += len(list(texts))
                elif held:
                    # Intervals count pieces of one document as one item: marin.evaluation.groups.
                    of = {} if piece is None or len(document.text) <= piece else {"of": document.id}
                    yield from (replace(document, text=text, metadata={**document.metadata, **of}) for text in texts)
                else:
                    yield replace(document, text="".join(texts))

    documents, size = write_shard(out, int(name[6:11]), int(name[15:20]), members())
    return documents, size, others


def pieces(text: str, most: int | None) -> list[str]:
    """Cut a text into pieces of at most ``most`` characters that together are the text; None cuts nothing.

    Each cut is after the last blank line that leaves at least half a piece, else after a line, else after a word.
    """
    found: list[str] = []
    while most is not None and len(text) > most:
        later = text[most // 2 : most]
        mark = next((mark for mark in ("\n\n", "\n", " ") if mark in later), "")
        end = most // 2 + later.rfind(mark) + len(mark) if mark else most
        found.append(text[:end])
        text = text[end:]
    return [*found, text]


def is_held_out(text: str, holdout: float, seed: int) -> bool:
    """Return whether a text is held out, by the text and the seed alone."""
    from marin.data.documents import Document

    return side(Document(text).id, seed) < holdout


def side(document_id: str, seed: int) -> float:
    """Return a number in [0, 1) that depends only on the text and the seed."""
    import xxhash

    # A float holds 53 bits exactly.
    return (xxhash.xxh3_64_intdigest(document_id.encode(), seed=seed) >> 11) / 2**53
