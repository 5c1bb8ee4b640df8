"""Quality rules: each looks at one document and returns None to keep it, or the reason to remove it.

A rule is a value with a verdict. Its thresholds are fields, so they are part of the identity of the
step that uses the rule. Fractions are in [0, 1], lengths in characters. Rules see a View, which
computes words, lines and paragraphs once for all rules.

Sources: Gopher, Rae et al. 2021 (appendix A.1.1 and table A1); C4, Raffel et al. 2020 (section 2.2);
FineWeb, Penedo et al. 2024 (section 3.6); line lengths for code, Li et al. 2023 (StarCoder).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from marin.steps.value import value

_ALPHANUMERIC = re.compile(r"[^\W_]")
_SENTENCE_END = re.compile(r"[.!?]+[\"'”’)\]]*(?=\s|$)")
_LETTER = re.compile(r"[^\W\d_]")

# The eight words of Gopher's rule. Two must occur.
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
TERMINAL = (".", "?", "!", "…", "。", "？", "！", "．", "؟", "۔", "।", "॥", "։", "።")


class View:
    """One document as rules see it."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def words(self) -> list[str]:
        """Return the words between white space.

        These are not datatrove's spaCy tokens, where each comma is a word without a letter. With spaCy tokens
        AlphabeticWords rejects most technical prose (434 of 701 PEPs).
        """
        return self.text.split()

    @cached_property
    def counts(self) -> Counter[str]:
        """Return how often each word occurs, in order of first occurrence."""
        return Counter(self.words)

    @cached_property
    def real_counts(self) -> dict[str, int]:
        """Return ``counts`` of the words with a letter or a digit."""
        return {word: count for word, count in self.counts.items() if word.isalnum() or _ALPHANUMERIC.search(word)}

    @cached_property
    def real_words(self) -> int:
        """Return how many words have a letter or a digit."""
        return sum(self.real_counts.values())

    @cached_property
    def lines(self) -> list[str]:
        """Return the lines as written, including blank ones."""
        return self.text.split("\n")

    @cached_property
    def full_lines(self) -> list[str]:
        return [line for line in self.lines if line.strip()]

    @cached_property
    def paragraphs(self) -> list[str]:
        return paragraphs_of(self.text)

    @cached_property
    def line_runs(self) -> list[str]:
        return line_runs_of(self.text)


def paragraphs_of(text: str) -> list[str]:
    """Return the text without white space around it, split at two or more newlines."""
    return [part.lstrip("\n") for part in text.strip().split("\n\n") if part] or [""]


def line_runs_of(text: str) -> list[str]:
    """Return the text split at one or more newlines."""
    first, *others = text.split("\n")
    return [first, *filter(None, others[:-1]), *others[-1:]]


class Rule(Protocol):
    """A rule on documents. It returns None to keep the document, or the reason as one word to be counted."""

    def __call__(self, view: View) -> str | None: ...


class LineRule(Protocol):
    """A rule on lines. It returns True if the line stays in its document."""

    def __call__(self, line: str) -> bool: ...


@value("quality/quality")
class Quality:
    """A set of rules. Line rules remove lines first. Then rules judge the rest, and the first reason counts."""

    lines: tuple[LineRule, ...] = ()
    rules: tuple[Rule, ...] = ()

    def judge(self, text: str) -> Verdict:
        if self.lines:
            text = "\n".join(line for line in text.split("\n") if all(rule(line) for rule in self.lines)).strip("\n")
        if not text.strip():
            return Verdict(text, "empty")
        view = View(text)
        for rule in self.rules:
            reason = rule(view)
            if reason is not None:
                return Verdict(text, reason)
        return Verdict(text, None)


@dataclass(frozen=True)
class Verdict:
    """The verdict on a document. text: without the removed lines. reason: None to keep the document."""

    text: str
    reason: str | None


# Gopher: quality


@value("quality/word_count")
class WordCount:
    least: int = 50
    most: int = 100_000

    def __call__(self, view: View) -> str | None:
        if view.real_words < self.least:
            return "too_few_words"
        return "too_many_words" if view.real_words > self.most else None


@value("quality/characters")
class Characters:
    """Length of the text."""

    least: int = 0
    most: int = 10_000_000

    def __call__(self, view: View) -> str | None:
        if len(view.text) < self.least:
            return "too_few_characters"
        return "too_many_characters" if len(view.text) > self.most else None


@value("quality/mean_word_length")
class MeanWordLength:
    least: float = 3
    most: float = 10

    def __call__(self, view: View) -> str | None:
        characters = sum(len(word) * count for word, count in view.real_counts.items())
        mean = characters / max(view.real_words, 1)
        if mean < self.least:
            return "short_words"
        return "long_words" if mean > self.most else None


@value("quality/symbols")
class Symbols:
    """``#`` and ellipses, each per word."""

    most: float = 0.1

    def __call__(self, view: View) -> str | None:
        words = max(len(view.words), 1)
        if view.text.count("#") / words > self.most:
            return "hashes"
        return "ellipses" if (view.text.count("...") + view.text.count("…")) / words > self.most else None


@value("quality/bullets")
class Bullets:
    """Share of lines that start with a bullet or a dash."""

    most: float = 0.9

    def __call__(self, view: View) -> str | None:
        bullets = sum(line.lstrip().startswith(("•", "-")) for line in view.lines)
        return "bullets" if bullets / len(view.lines) > self.most else None


@value("quality/ellipsis_lines")
class EllipsisLines:
    """Share of lines that end in an ellipsis, a sign of teasers."""

    most: float = 0.3

    def __call__(self, view: View) -> str | None:
        cut = sum(line.rstrip().endswith(("...", "…")) for line in view.lines)
        return "ellipsis_lines" if cut / len(view.lines) > self.most else None


@value("quality/alphabetic_words")
class AlphabeticWords:
    """Share of words with a letter. Unsuitable for code or sums."""

    least: float = 0.8

    def __call__(self, view: View) -> str | None:
        letters = sum(count for word, count in view.counts.items() if word.isalpha() or _LETTER.search(word))
        return "not_alphabetic" if letters / max(len(view.words), 1) < self.least else None


@value("quality/stop_words")
class StopWords:
    """Number of different stop words that occur."""

    least: int = 2
    words: tuple[str, ...] = STOP_WORDS

    def __call__(self, view: View) -> str | None:
        return "no_stop_words" if len(view.counts.keys() & set(self.words)) < self.least else None


# C4


@value("quality/ends_a_sentence")
class EndsASentence:
    """Keep lines that end in a terminal mark (and not in an ellipsis)."""

    def __call__(self, line: str) -> bool:
        line = line.strip()
        return line.endswith((".", "?", "!", '"', "'")) and not line.endswith("...")


@value("quality/line_words")
class LineWords:
    """Keep lines with at least this many words."""

    least: int = 3

    def __call__(self, line: str) -> bool:
        return len(line.split()) >= self.least


@value("quality/word_length")
class WordLength:
    """Keep lines in which every word is at most this long."""

    most: int = 1000

    def __call__(self, line: str) -> bool:
        return len(line) <= self.most or all(len(word) <= self.most for word in line.split())


@value("quality/line_without")
class LineWithout:
    """Keep lines without these phrases. phrases: lower case."""

    phrases: tuple[str, ...]

    def __call__(self, line: str) -> bool:
        lower = line.lower()
        return not any(phrase in lower for phrase in self.phrases)


@value("quality/without")
class Without:
    """Remove documents with this phrase. phrase: lower case."""

    phrase: str
    reason: str

    def __call__(self, view: View) -> str | None:
        return self.reason if self.phrase in view.text.lower() else None


@value("quality/sentences")
class Sentences:
    """Number of sentences, counted line by line. A line without a full stop is one sentence."""

    least: int = 5

    def __call__(self, view: View) -> str | None:
        found = 0
        for line in view.full_lines:
            if found >= self.least:
                break
            found += sentences(line)
        return "too_few_sentences" if found < self.least else None


def sentences(line: str) -> int:
    """Return how many sentences a line holds, including an unfinished last one."""
    ends = [match.end() for match in _SENTENCE_END.finditer(line)]
    return len(ends) + bool(line[ends[-1] if ends else 0 :].strip())


# FineWeb


@value("quality/punctuated_lines")
class PunctuatedLines:
    """Share of lines that end in a terminal mark."""

    least: float = 0.12

    def __call__(self, view: View) -> str | None:
        ended = sum(line.endswith(TERMINAL) for line in view.full_lines)
        return "unpunctuated_lines" if ended / max(len(view.full_lines), 1) < self.least else None


@value("quality/short_lines")
class ShortLines:
    """Share of lines of at most ``length`` characters."""

    length: int = 30
    most: float = 0.67

    def __call__(self, view: View) -> str | None:
        short = sum(len(line) <= self.length for line in view.full_lines)
        return "short_lines" if short / max(len(view.full_lines), 1) > self.most else None


@value("quality/newlines")
class Newlines:
    """Newlines per word, a sign of lists."""

    most: float = 0.3

    def __call__(self, view: View) -> str | None:
        return "list" if view.text.count("\n") / max(len(view.words), 1) > self.most else None


# Code


@value("quality/line_length")
class LineLength:
    """Mean and greatest length of lines. Data and minified files have long lines."""

    mean: float = 100
    most: int = 1000

    def __call__(self, view: View) -> str | None:
        if max(map(len, view.lines)) > self.most:
            return "long_line"
        return "long_lines" if sum(map(len, view.lines)) / len(view.lines) > self.mean else None


@value("quality/alphanumeric")
class Alphanumeric:
    """Share of characters that are letters or digits."""

    least: float = 0.25

    def __call__(self, view: View) -> str | None:
        found = sum(map(str.isalnum, view.text))
        return "not_alphanumeric" if found / max(len(view.text), 1) < self.least else None
