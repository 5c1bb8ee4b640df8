"""Normalise text, and reduce it to the words by which duplicates are judged."""

from __future__ import annotations

import re
import unicodedata

# C0 and C1 controls except tab and newline, and the BOM. Lone surrogates, below, cannot be encoded.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029\x85]")
_TRAILING_SPACE = re.compile(r"[^\S\n]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_WORD = re.compile(r"[^\W_]+")
_NO_ASCII_NO_WORD = re.compile(r"[^\x00-\x7f](?<=\W)")
_LIGHT = bytes(ord(chr(code).lower()) if chr(code).isalnum() else 32 for code in range(128)) + bytes(range(128, 256))


def normalize(text: str) -> str:
    """Return the text in NFC, with ``\\n`` line ends and no control characters, trailing space or runs of blank lines.

    Indentation is kept, because code depends on it. Lone surrogates become U+FFFD.
    normalize(normalize(text)) == normalize(text).
    """
    text = _LINE_ENDS.sub("\n", text)
    text = _CONTROLS.sub("", text)
    text = _SURROGATES.sub("\ufffd", text)
    text = unicodedata.normalize("NFC", text)
    text = _TRAILING_SPACE.sub("", text)
    text = _BLANK_LINES.sub("\n\n", text)
    return text.strip("\n").rstrip()


def light(text: str) -> str:
    """Return lower-case alphanumeric words with one space between. Punctuation, case and layout do not matter.

    NFKC comes first, so that ligatures and full-width digits do not hide a copy.
    """
    return " ".join(light_words(text))


def light_words(text: str) -> list[str]:
    """Return the words of light()."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.lower())


def light_bytes(text: str) -> bytes:
    """Return light() in UTF-8 with any number of spaces between words. Twice as fast, because it makes no words."""
    if not text.isascii():
        text = _NO_ASCII_NO_WORD.sub(" ", unicodedata.normalize("NFKC", text).lower())
    return text.encode().translate(_LIGHT)
