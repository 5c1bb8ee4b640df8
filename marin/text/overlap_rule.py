"""The rule by which a text counts as containing an evaluation item."""

from __future__ import annotations

from marin.steps.value import value


@value("overlap")
class Overlap:
    """The rule by which a text contains an item: a field occurs in part, or edited, or short and whole.

    In part: ``hits`` different runs of ``words`` words occur (all runs, if the field has fewer), and the share
    ``coverage`` of the field's runs. A run that more than ``common_items`` and more than ``common_share`` of all items
    hold is boilerplate of the suite, and no evidence.

    Edited: the share ``similar`` of a field's words occurs in the field's order, with no more between them than an edit
    inserts. The field has at least ``edited_words`` words, and ``seed`` adjacent words must be unchanged.
    similar_boilerplate replaces ``similar`` if only boilerplate led to the match. The share ``same_numbers`` of the
    field's numbers must occur too; otherwise the text is another problem of the same kind.

    Short: a question with fewer than ``words`` words occurs whole, and the item's result within ``reach`` words after
    the question. Question and result together have at least ``least`` words. Shorter items cannot be told from chance,
    and are reported instead.
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
