"""Text without what hides a copy from a machine and not from a reader.

Accents and other marks go, invisible characters go, full-width and mathematical letters become plain ones, letters
of other alphabets that look like a Latin one become it, and ideographs stand alone, as words do. Russian and Greek
words change too, but alike wherever they occur, which is all that a comparison needs.
"""

from __future__ import annotations

import functools
import re
import unicodedata

# Lower case beside lower case: what stands for a Latin letter in Cyrillic, Greek, Armenian, Cherokee and Latin itself.
# The small Cyrillic ones whose capital alone looks Latin (В, К, М, Н, Т) go with it, so that case changes nothing.
_LOOKALIKES = (
    ("авсԁеһнікјмопԛрѕтѵԝхуүӏԍг", "abcdehhikjmonqpstvwxyylgr"),
    ("αβεζηικνορτυχω", "abeznikvoptuxw"),
    ("օսհցզյ", "ouhgqj"),
    ("ꭰꭱꭲꮃꮪꮯꭻꭺꮋꮤꮩꮲꮶꮇ", "driwscjahwvpkm"),
    ("ıɩɪɑɡɢʀʏʟɴøłđħŧƅɓɗɖƙʂȷƿ", "iiiaggrylnoldhtbbddksjp"),
)
_LOOKS_LIKE = {ord(a): b for others, latin in _LOOKALIKES for a, b in zip(others, latin, strict=True)}
_INVISIBLE = {"Mn", "Me", "Cf"}
# Letters to Unicode, blanks to the eye.
_FILLERS = "\u115f\u1160\u3164\uffa0\u2800"
_OTHER = re.compile("[^\x00-\x7f]+")
# Chinese, Japanese, Thai, Lao, Khmer and Burmese put no space between words; Korean does.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


class _Folding(dict[int, str]):
    """What each character becomes, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        self[code] = made = _folded(chr(code))
        return made


@functools.cache
def _folding() -> _Folding:
    return _Folding()


def fold(text: str) -> str:
    """The text without disguises. What is not ASCII comes in lower case, as far as it is a letter or digit."""
    return text if text.isascii() else _OTHER.sub(lambda run: run.group().translate(_folding()), text)


def fold_positions(text: str) -> list[int]:
    """For each character of fold(text), and for its end, the position in text that it comes from."""
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
    # What lower() adds: İ becomes i and a dot.
    made = "".join(each for each in made if unicodedata.category(each) not in _INVISIBLE)
    if any(not each.isalnum() for each in made):
        made = "".join(each if each.isalnum() else " " for each in made)
    return f" {made} " if _UNSPACED.search(made) else made
