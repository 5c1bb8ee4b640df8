"""When a text counts as containing an evaluation item."""

from __future__ import annotations

from marin.steps.value import value


@value("overlap")
class Overlap:
    """When a text counts as containing an item.

    words: per n-gram. hits: different n-grams of one question or answer that must occur (all of
    them, if it has fewer). coverage: and at least this share of its n-grams. common_items,
    common_share: an n-gram in more items than this number and this share of all is the suite's
    boilerplate and evidence of none. reach: a question shorter than ``words`` counts when it occurs
    whole and the item's result follows within this many words. least: words of such a question and
    its result together; still shorter items cannot be told from chance and are reported instead.
    """

    words: int = 8
    hits: int = 4
    coverage: float = 0.15
    common_items: int = 10
    common_share: float = 0.01
    reach: int = 16
    least: int = 5
