"""How a passage was copied into a text: word for word, or so that a search might miss it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from enum import StrEnum

from marin.text.fold import fold

INVISIBLE = ("Mn", "Me", "Cf")  # categories of Unicode: marks and what formats


class Way(StrEnum):
    """VERBATIM: in part or whole, in any case. EDITED: words were changed, put in or left out. DISGUISED: letters stand
    for others, or have accents or invisible characters between them. SPELT_OUT: letter by letter."""

    VERBATIM = "word for word"
    EDITED = "edited"
    DISGUISED = "disguised"
    SPELT_OUT = "spelt out"


def is_disguised(passage: str, originals: Iterable[str]) -> bool:
    """Does it have letters that only folding makes those of the originals?"""
    if passage.isascii():
        return False
    known = {letter for text in originals for letter in text.lower()}
    return any(
        (letter.isalnum() or unicodedata.category(letter) in INVISIBLE) and fold(letter) != letter
        for letter in set(passage.lower()) - known
        if not letter.isascii()
    )
