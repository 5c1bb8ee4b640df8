"""When a text counts as containing an evaluation item."""

from __future__ import annotations

from marin.steps.value import value


@value("overlap")
class Overlap:
    """When a text counts as containing an item: one of its fields is there in part, or edited, or short and whole.

    In part: ``hits`` different runs of ``words`` words (all of them, if the field has fewer), and ``coverage`` of
    those that it has. A run in more items than ``common_items`` and ``common_share`` of all is the suite's boilerplate
    and evidence of none. Edited: of a field with at least ``edited_words`` words, the share ``similar`` occurs in its
    order, nothing else between but as much as an edit puts there. Short: a question with fewer than ``words`` words
    occurs whole, and the item's result within ``reach`` words after it. Question and result together have at least
    ``least``; what was edited needs ``seed`` words together that were not. What is shorter cannot be told from chance
    and is reported instead. similar_boilerplate: instead of ``similar``, where nothing but boilerplate led to it.
    same_numbers: and so many of its numbers, or it is another problem of the same kind.
    """

    words: int = 8
    hits: int = 4
    coverage: float = 0.15
    common_items: int = 10
    common_share: float = 0.01
    reach: int = 16
    least: int = 5
    seed: int = 5
    similar: float = 0.7
    similar_boilerplate: float = 0.8
    same_numbers: float = 0.5
    edited_words: int = 12
