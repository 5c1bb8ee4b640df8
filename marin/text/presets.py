"""Presets of quality rules, one for each kind of text."""

from __future__ import annotations

from marin.text.quality import (
    AlphabeticWords,
    Alphanumeric,
    Bullets,
    EllipsisLines,
    LineLength,
    LineWithout,
    MeanWordLength,
    Newlines,
    PunctuatedLines,
    Quality,
    Rule,
    Sentences,
    ShortLines,
    StopWords,
    Symbols,
    Without,
    WordCount,
    WordLength,
)
from marin.text.repetition import (
    DuplicateLineCharacters,
    DuplicateLines,
    DuplicateNgrams,
    DuplicateParagraphs,
    TopNgram,
)

GOPHER_QUALITY: tuple[Rule, ...] = (
    WordCount(),
    MeanWordLength(),
    Symbols(),
    Bullets(),
    EllipsisLines(),
    AlphabeticWords(),
    StopWords(),
)
GOPHER_REPETITION: tuple[Rule, ...] = (
    DuplicateParagraphs(),
    DuplicateLines(),
    TopNgram(2, 0.20),
    TopNgram(3, 0.18),
    TopNgram(4, 0.16),
    DuplicateNgrams(5, 0.15),
    DuplicateNgrams(6, 0.14),
    DuplicateNgrams(7, 0.13),
    DuplicateNgrams(8, 0.12),
    DuplicateNgrams(9, 0.11),
    DuplicateNgrams(10, 0.10),
)
FINEWEB: tuple[Rule, ...] = (PunctuatedLines(), ShortLines(), DuplicateLineCharacters(), Newlines())

C4_LINES = (
    WordLength(),
    LineWithout(
        (
            "javascript",
            "terms of use",
            "privacy policy",
            "cookie policy",
            "uses cookies",
            "use of cookies",
            "use cookies",
        )
    ),
)

# FineWeb's recipe. Like FineWeb, it omits C4's rule on terminal punctuation, which takes 30 % of the tokens.
# Unlike C4, it permits curly brackets: they mark documentation as often as broken templates.
WEB = Quality(
    lines=C4_LINES,
    rules=(
        *GOPHER_REPETITION,
        *GOPHER_QUALITY,
        Sentences(5),
        Without("lorem ipsum", "lorem_ipsum"),
        *FINEWEB,
    ),
)
# Books and documentation have no boilerplate, so only Gopher's rules apply.
PROSE = Quality(rules=(*GOPHER_REPETITION, *GOPHER_QUALITY))
# API reference pages repeat signatures and "methods inherited from" by nature. Gopher's n-gram rules
# removed 78 of pydoc's 114 pages, so this preset removes only pages that are mostly repeats.
REFERENCE = Quality(
    lines=C4_LINES,
    rules=(
        WordCount(30),
        MeanWordLength(3, 12),
        Symbols(),
        AlphabeticWords(),
        StopWords(),
        DuplicateLines(0.7, 0.6),
    ),
)
# Programs repeat short n-grams, start lines with marks and use few stop words.
CODE = Quality(
    rules=(
        WordCount(20, 1_000_000),
        LineLength(),
        Alphanumeric(),
        DuplicateParagraphs(),
        DuplicateLines(0.5, 0.3),
    )
)
# One problem and its answer: short, full of numbers, with ``####`` before the result.
SHORT = Quality(rules=(WordCount(5, 100_000), Alphanumeric(0.4), DuplicateLines(0.5, 0.5)))
