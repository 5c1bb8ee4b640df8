"""Exact duplicates: whole texts and paragraphs, the first one kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import xxhash

_PARAGRAPH = re.compile(r"\n{2,}")


@dataclass
class Seen:
    """Which texts have come by. 16 bytes of hash each: xxh3-128, so no false match in practice
    (10^12 texts collide with probability below 10^-14).
    """

    hashes: set[bytes] = field(default_factory=set[bytes])

    def add(self, text: str) -> bool:
        """True if this very text came before."""
        key = xxhash.xxh3_128_digest(text.encode())
        if key in self.hashes:
            return True
        self.hashes.add(key)
        return False


def duplicate_texts(texts: Iterable[str]) -> Iterator[bool]:
    """For each text, whether an equal one came before."""
    seen = Seen()
    for text in texts:
        yield seen.add(text)


def without_seen_paragraphs(text: str, seen: Seen, at_least: int) -> tuple[str, int]:
    """The text without paragraphs that came before, and how many those were.

    Paragraphs end at blank lines. Those of fewer than ``at_least`` words are always kept:
    headings and one-line code are alike without being copies.
    """
    paragraphs = _PARAGRAPH.split(text)
    kept = [paragraph for paragraph in paragraphs if len(paragraph.split()) < at_least or not seen.add(paragraph)]
    return "\n\n".join(kept), len(paragraphs) - len(kept)
