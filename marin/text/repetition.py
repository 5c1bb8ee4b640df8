"""Rules against repetition (Gopher, Rae et al. 2021, table A1; FineWeb, Penedo et al. 2024, section 3.6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from marin.steps.value import value
from marin.text.quality import View

if TYPE_CHECKING:
    from marin.text.ngrams import NgramView


def ngram_view(view: View) -> NgramView:
    """Return the n-grams of a view, computed once."""
    from marin.text.ngrams import NgramView  # imports NumPy, which presets do not need

    made = view.__dict__.get("ngrams")
    if made is None:
        made = view.__dict__["ngrams"] = NgramView(view.words, view.counts)
    return made


@value("quality/duplicate_paragraphs")
class DuplicateParagraphs:
    """Share of paragraphs that occurred before, and share of characters in such paragraphs."""

    most: float = 0.3
    most_characters: float = 0.2

    def __call__(self, view: View) -> str | None:
        count, characters = repeated(view.paragraphs)
        if count / len(view.paragraphs) > self.most:
            return "duplicate_paragraphs"
        return "duplicate_paragraph_characters" if characters / len(view.text) > self.most_characters else None


@value("quality/duplicate_lines")
class DuplicateLines:
    """Share of lines that occurred before, and share of characters in such lines."""

    most: float = 0.3
    most_characters: float = 0.2

    def __call__(self, view: View) -> str | None:
        count, characters = repeated(view.line_runs)
        if count / len(view.line_runs) > self.most:
            return "duplicate_lines"
        return "duplicate_line_characters" if characters / len(view.text) > self.most_characters else None


@value("quality/top_ngram")
class TopNgram:
    """Share of characters in the most frequent word n-gram, if that occurs at least twice."""

    n: int
    most: float

    def __call__(self, view: View) -> str | None:
        grams = ngram_view(view)
        if len(grams.words) < self.n:
            return None
        count, characters = grams.most_frequent(self.n)
        spaces = self.n - 1
        share = count * (characters + spaces) / len(view.text)
        return f"top_{self.n}_gram" if count > 1 and share > self.most else None


@value("quality/duplicate_ngrams")
class DuplicateNgrams:
    """Share of characters in word n-grams that occurred before. Overlapping n-grams count once."""

    n: int
    most: float

    def __call__(self, view: View) -> str | None:
        grams = ngram_view(view)
        # A repeated n-gram contains a repeated 4-gram. This cheap check settles most documents.
        if len(grams.words) < self.n or grams.all_unique(min(self.n, 4)) or grams.all_unique(self.n):
            return None
        found = grams.repeated_characters(self.n)
        return f"duplicate_{self.n}_grams" if found / len(view.text) > self.most else None


def repeated(parts: Iterable[str]) -> tuple[int, int]:
    """Return how many parts occurred before, and their characters."""
    seen: set[str] = set()
    count = characters = 0
    for part in parts:
        if part in seen:
            count += 1
            characters += len(part)
        seen.add(part)
    return count, characters


@value("quality/duplicate_line_characters")
class DuplicateLineCharacters:
    """Share of characters in lines that occurred before (FineWeb, section 3.6)."""

    most: float = 0.1

    def __call__(self, view: View) -> str | None:
        characters = repeated(view.full_lines)[1]
        whole = len(view.text) - view.text.count("\n")
        return "repeated_lines" if characters / max(whole, 1) > self.most else None
