"""The way in which a passage was copied into a text: word for word, or changed so that a search might miss it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from enum import StrEnum

from marin.text.fold import fold

INVISIBLE = ("Mn", "Me", "Cf")  # Unicode categories of marks and format characters


class CopyKind(StrEnum):
    """The way of a copy. VERBATIM: in part or whole, in any case. EDITED: with words changed, added or removed.

    DISGUISED: with lookalike letters, accents, or invisible characters between letters. SPELT_OUT: letter by letter.
    """

    VERBATIM = "word for word"
    EDITED = "edited"
    DISGUISED = "disguised"
    SPELT_OUT = "spelt out"


def is_disguised(passage: str, originals: Iterable[str]) -> bool:
    """Return whether the passage has letters that match the originals only after folding."""
    if passage.isascii():
        return False
    known = {letter for text in originals for letter in text.lower()}
    return any(
        (letter.isalnum() or unicodedata.category(letter) in INVISIBLE) and fold(letter) != letter
        for letter in set(passage.lower()) - known
        if not letter.isascii()
    )
