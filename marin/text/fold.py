"""Fold text: remove disguises that hide a copy from a machine but not from a reader.

Accents, other marks and invisible characters are removed. Full-width and mathematical letters become plain ones.
Letters of other alphabets that look Latin become Latin, and ideographs stand alone as words. Russian and Greek words
change too, but always in the same way, so comparisons still work.
"""

from __future__ import annotations

import functools
import re
import unicodedata

# Lower-case lookalikes of Latin letters, in Cyrillic, Greek, Armenian, Cherokee and Latin itself, beside these letters.
# Small Cyrillic letters of which only the capital looks Latin (В, К, М, Н, Т) follow it, so that case changes nothing.
_LOOKALIKES = (
    ("авсԁеһнікјмопԛрѕтѵԝхуүӏԍг", "abcdehhikjmonqpstvwxyylgr"),
    ("αβεζηικνορτυχω", "abeznikvoptuxw"),
    ("օսհցզյ", "ouhgqj"),
    ("ꭰꭱꭲꮃꮪꮯꭻꭺꮋꮤꮩꮲꮶꮇ", "driwscjahwvpkm"),
    ("ıɩɪɑɡɢʀʏʟɴøłđħŧƅɓɗɖƙʂȷƿ", "iiiaggrylnoldhtbbddksjp"),
)
_LOOKS_LIKE = {ord(a): b for others, latin in _LOOKALIKES for a, b in zip(others, latin, strict=True)}
_INVISIBLE = {"Mn", "Me", "Cf"}
# Characters that Unicode calls letters and a reader sees as blanks.
_FILLERS = "\u115f\u1160\u3164\uffa0\u2800"
_OTHER = re.compile("[^\x00-\x7f]+")
# Chinese, Japanese, Thai, Lao, Khmer and Burmese put no space between words; Korean does.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


class _Folding(dict[int, str]):
    """A map from each character to its folded form, computed at first use."""

    def __missing__(self, code: int) -> str:
        self[code] = made = _folded(chr(code))
        return made


@functools.cache
def _folding() -> _Folding:
    return _Folding()


def fold(text: str) -> str:
    """Return the text without disguises. Letters outside ASCII come in lower case; ASCII is unchanged."""
    return text if text.isascii() else _OTHER.sub(lambda run: run.group().translate(_folding()), text)


def fold_positions(text: str) -> list[int]:
    """Return the position in ``text`` of each character of fold(text), and of its end."""
    if text.isascii():
        return list(range(len(text) + 1))
    places: list[int] = []
    folding = _folding()
    for position, character in enumerate(text):
        places += [position] * (1 if character.isascii() else len(folding[ord(character)]))
    return [*places, len(text)]


def _folded(character: str) -> str:
    if character in _FILLERS:
        return ""
    kept = [each for each in unicodedata.normalize("NFKD", character) if unicodedata.category(each) not in _INVISIBLE]
    made = unicodedata.normalize("NFC", "".join(kept)).lower().translate(_LOOKS_LIKE)
    # lower() can add marks: İ becomes i and a dot.
    made = "".join(each for each in made if unicodedata.category(each) not in _INVISIBLE)
    if any(not each.isalnum() for each in made):
        made = "".join(each if each.isalnum() else " " for each in made)
    return f" {made} " if _UNSPACED.search(made) else made
