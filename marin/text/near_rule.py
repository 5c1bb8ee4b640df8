"""The rule by which two texts count as near duplicates."""

from __future__ import annotations

from marin.errors import BadField
from marin.steps.value import value


@value("near_duplicates")
class NearDuplicates:
    """The rule by which a text counts as a copy of an earlier one.

    words: per shingle. bands, rows: of the signature. It proposes a pair of Jaccard similarity s with
    probability 1 - (1 - s^rows)^bands: .998 at .8, .92 at .7.

    jaccard: the least similarity of a copy. containment: alternatively, the least share of the later text's
    shingles in the earlier text. Above 1: never.

    one_in: sample one shingle in so many of long texts, to find excerpts of longer texts. An excerpt of n
    shingles is proposed with probability 1 - (1 - 1/one_in)^n: .96 at 50, .998 at 100.
    """

    words: int = 5
    bands: int = 20
    rows: int = 6
    jaccard: float = 0.8
    containment: float = 0.9
    one_in: int = 16

    def __post_init__(self) -> None:
        for name in ("words", "bands", "rows", "one_in", "jaccard", "containment"):
            least = 0 if name in ("jaccard", "containment") else 1
            found = getattr(self, name)
            if found < least or not found:
                raise BadField(f"NearDuplicates.{name} is {found}; wanted {'at least 1' if least else 'above 0'}")
