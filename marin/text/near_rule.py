"""When two texts count as near duplicates."""

from __future__ import annotations

from marin.errors import BadField
from marin.steps.value import value


@value("near_duplicates")
class NearDuplicates:
    """What counts as a copy.

    words: per shingle. bands, rows: of the signature; a pair of Jaccard similarity s is proposed with
    probability 1 - (1 - s^rows)^bands: .998 at .8, .92 at .7. jaccard: at least this similar.
    containment: or at least this share of the later text's shingles occurs in the earlier one; above 1 for never.
    one_in: of long texts one shingle in so many is compared to find those that a longer one contains: an excerpt
    of n shingles is proposed with probability 1 - (1 - 1/one_in)^n, .96 at 50, .998 at 100.
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
