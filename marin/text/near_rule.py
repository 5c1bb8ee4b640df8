"""When two texts count as near duplicates."""

from __future__ import annotations

from marin.steps.value import value


@value("near_duplicates")
class NearDuplicates:
    """What counts as a copy.

    words: per shingle. bands, rows: of the signature; a pair of Jaccard similarity s is proposed with
    probability 1 - (1 - s^rows)^bands: .998 at .8, .92 at .7. jaccard: at least this similar.
    containment: or at least this share of the later text's shingles occurs in the earlier one.
    """

    words: int = 5
    bands: int = 20
    rows: int = 6
    jaccard: float = 0.8
    containment: float = 0.9
