"""The words of a text as 64-bit numbers with their places, for the search for overlaps.

Shapes: B bytes of the folded text in UTF-8, T words. A word is a run of letters and digits. Single Latin letters do not
count as words, so labels of choices, plurals and possessives make no difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from marin.text.fold import fold, fold_positions

type U64 = npt.NDArray[np.uint64]
type I64 = npt.NDArray[np.int64]

CALCULATOR_TAG = re.compile(r"<<[^<>\n]*>>")
# Escapes of JSON and many languages for characters beyond ASCII, and for the ends of lines.
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_ESCAPED_SPACES = (b"\\n", b"\\t", b"\\r")
_NOTHING = "\u200b"  # folding removes it
# This many single letters in a row are text with spaces between its letters, not an enumeration.
SPACED = 24

_SPACE = 32
_KEPT = bytes(
    ord(chr(byte).lower()) if chr(byte).isalnum() and byte < 128 else byte if byte >= 128 else _SPACE
    for byte in range(256)
)
_BYTES = 8  # bytes of a word that enter its number at a time
_LONGEST = 64  # bytes; words of equal length that differ only after these count as one
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(_BYTES + 1)], dtype=np.uint64)
_LENGTHS = np.uint64(0x9E3779B97F4A7C15)  # odd


@dataclass(frozen=True)
class Words:
    """The words of a text. numbers: (T,) equal for equal words. starts, ends: (T,) bytes of the folded text, exclusive.

    digits: (T,) whether a word begins with a digit.
    letters: the letters and digits of spelt-out stretches, each as a word. None if there is no such stretch.
    """

    text: str
    numbers: U64
    starts: I64
    ends: I64
    digits: npt.NDArray[np.bool_]
    letters: Words | None

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the characters of the text from word first to word last, the end excluded."""
        plain = _plain(self.text)
        folded = fold(plain)
        start, end = int(self.starts[first]), int(self.ends[last])
        if not folded.isascii():
            encoded = folded.encode()
            start, end = len(encoded[:start].decode()), len(encoded[:end].decode())
        places = fold_positions(plain)
        return places[start], places[end - 1] + 1


def words_of(text: str) -> Words:
    """Return the words of a text, without calculator tags."""
    padded, starts, ends, single = _runs(_encoded(text))
    letters = _spelt_out(text, padded, starts, single)
    numbers, starts, ends, digits = _words(padded, starts, ends, single)
    return Words(text, numbers, starts, ends, digits, letters)


def numbers_of(texts: Iterable[str]) -> Iterator[tuple[U64, npt.NDArray[np.bool_]]]:
    """Yield the numbers and digits that words_of gives for each text. Much faster for many short texts."""
    encoded = [_encoded(text) for text in texts]
    numbers, starts, _, digits = _words(*_runs(b" ".join(encoded)))
    ends = np.cumsum([len(each) + 1 for each in encoded], dtype=np.int64)
    borders = [0, *np.searchsorted(starts, ends).tolist()]
    return ((numbers[first:last], digits[first:last]) for first, last in pairwise(borders))


def mix(numbers: U64) -> U64:
    """Apply splitmix64's finaliser: every input bit reaches every output bit (Steele, Lea and Flood 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def letters_of(text: str) -> U64:
    """Return the numbers of ``letters`` for this text if every word were spelt out."""
    encoded = _encoded(text).replace(b" ", b"")
    return _letter_numbers(np.frombuffer(encoded, dtype=np.uint8))


def _encoded(text: str) -> bytes:
    """Return the text in UTF-8, with letters and digits in lower case and all else as spaces."""
    encoded = fold(_plain(text)).encode()
    if b"\\" in encoded:
        for escape in _ESCAPED_SPACES:
            encoded = encoded.replace(escape, b"  ")
    return encoded.translate(_KEPT)


def _plain(text: str) -> str:
    """Return the text without calculator tags and with escapes decoded, at its original length."""
    if "<<" in text:
        text = CALCULATOR_TAG.sub(lambda tag: " " * len(tag.group()), text)
    if "\\u" in text:
        text = _ESCAPE.sub(_escaped, text)
    return text


def _escaped(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return " " * 6 if "\ud800" <= character <= "\udfff" else character + _NOTHING * 5


def _runs(encoded: bytes) -> tuple[npt.NDArray[np.uint8], I64, I64, npt.NDArray[np.bool_]]:
    """Return the bytes with zeros at the end, the starts and ends of runs without spaces, and which are one byte."""
    padded = np.frombuffer(encoded + bytes(_LONGEST), dtype=np.uint8)
    inside = np.zeros(len(encoded) + 2, dtype=np.bool_)
    np.not_equal(padded[: len(encoded)], _SPACE, out=inside[1:-1])
    borders = np.flatnonzero(inside[1:] != inside[:-1])
    starts, ends = borders[::2], borders[1::2]
    return padded, starts, ends, (ends - starts == 1) & (padded[starts] < 128)


def _words(
    padded: npt.NDArray[np.uint8], starts: I64, ends: I64, single: npt.NDArray[np.bool_]
) -> tuple[U64, I64, I64, npt.NDArray[np.bool_]]:
    """Return numbers, starts, ends and digits of all runs but single letters."""
    words = ~(single & (padded[starts] > ord("9")))
    starts, ends = starts[words], ends[words]
    return _numbers(padded, starts, ends - starts), starts, ends, padded[starts] <= ord("9")


def _numbers(padded: npt.NDArray[np.uint8], starts: I64, lengths: I64) -> U64:
    eights = np.ndarray(len(padded) - _BYTES + 1, np.uint64, padded, strides=1)  # the eight bytes from each byte on
    read = eights[starts] & _MASKS[np.minimum(lengths, _BYTES)]
    numbers = mix(read + lengths.astype(np.uint64) * _LENGTHS)
    longer, offset = np.flatnonzero(lengths > _BYTES), _BYTES
    while len(longer) and offset < _LONGEST:
        read = eights[starts[longer] + offset] & _MASKS[np.minimum(lengths[longer] - offset, _BYTES)]
        numbers[longer] = mix(numbers[longer] * _LENGTHS + read)
        offset += _BYTES
        longer = longer[lengths[longer] > offset]
    return numbers


def _letter_numbers(letters: npt.NDArray[np.uint8]) -> U64:
    return mix((letters.astype(np.uint64) + np.uint64(1)) * _LENGTHS)


def _spelt_out(text: str, padded: npt.NDArray[np.uint8], starts: I64, single: npt.NDArray[np.bool_]) -> Words | None:
    borders = np.flatnonzero(np.diff(np.concatenate(([0], single.view(np.int8), [0]))))
    first, last = borders[::2], borders[1::2]
    long = last - first >= SPACED
    if not long.any():
        return None
    places = np.concatenate([starts[a:b] for a, b in zip(first[long].tolist(), last[long].tolist(), strict=True)])
    letters = padded[places]
    return Words(text, _letter_numbers(letters), places, places + 1, letters <= ord("9"), None)
