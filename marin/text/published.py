"""The filters of Gopher, C4 and FineWeb, with the decisions of datatrove 0.10.1, the usual tool for these filters.

Words are spaCy's, as in datatrove. spaCy splits each run of characters between white space by itself, so marin splits
each distinct run once and remembers the words. Sentences and punctuation are datatrove's own. The presets of
marin.text.presets count words between white space instead, which is faster and keeps technical prose.

Sources: Gopher, Rae et al. 2021 (appendix A.1.1 and table A1); C4, Raffel et al. 2020 (section 2.2);
FineWeb, Penedo et al. 2024 (section 3.6). Fractions are in [0, 1], lengths in characters.
"""

# pyright: basic
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from marin.errors import BadField
from marin.steps.value import value
from marin.text.quality import STOP_WORDS, Verdict, line_runs_of, paragraphs_of
from marin.text.repetition import repeated

REMEMBERED = 1 << 18  # runs of characters, about 100 MB
# Letters that spaCy always splits from the marks around them. Shorter runs may be a smiley, as in "XD".
_PLAIN = re.compile(r"""([(\["'`]{0,2})([A-Za-z]{3,})([,;:!?)\]"'`]?|(?<=[a-z])\.|(?<=[a-z])[.,!?]["']|[)"'`][,;])""")
_CITATION = re.compile(r"\[\d*]|\[edit]|\[citation needed]")
ENDS_SENTENCE = (".", "?", "!", '"', "'")
POLICIES = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")


@dataclass(frozen=True, slots=True)
class Run:
    """The characters between white space. words: spaCy's. stops: the stop words among the words.

    worded: number of words that are more than punctuation. characters: in these words. letters: number of words with a
    letter.
    """

    words: tuple[str, ...]
    worded: int
    letters: int
    characters: int
    stops: frozenset[str]


class EnglishText:
    """A document split into runs and words, once for all filters."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def runs(self) -> dict[str, Run]:
        return runs_of(self.counts)

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(self._split)

    @cached_property
    def _split(self) -> list[str]:
        return self.text.split()

    @cached_property
    def words(self) -> list[str]:
        runs = self.runs
        return [word for run in self._split for word in runs[run].words]

    @cached_property
    def word_count(self) -> int:
        return self.total(lambda run: len(run.words))

    def total(self, count: Callable[[Run], int]) -> int:
        """Return the sum of ``count`` over all runs of the text."""
        runs = self.runs
        return sum(count(runs[run]) * times for run, times in self.counts.items())


@value("published/gopher_quality")
class GopherQuality:
    """Gopher's quality filter: length, symbols, bullets, letters and stop words."""

    min_words: int = 50
    max_words: int = 100_000
    min_mean_length: float = 3
    max_mean_length: float = 10
    max_symbols: float = 0.1  # "#" per word, and ellipses per word
    max_bullets: float = 0.9  # share of lines that begin with a bullet
    max_ellipses: float = 0.3  # share of lines that end in an ellipsis
    min_with_letter: float = 0.8  # share of words
    min_stop_words: int = 2

    def __call__(self, view: EnglishText) -> Verdict:
        return Verdict(view.text, self._reason(view))

    def _reason(self, view: EnglishText) -> str | None:
        text = view.text
        worded = view.total(lambda run: run.worded)
        if worded < self.min_words:
            return "too_few_words"
        if worded > self.max_words:
            return "too_many_words"
        mean = view.total(lambda run: run.characters) / worded
        if mean < self.min_mean_length:
            return "short_words"
        if mean > self.max_mean_length:
            return "long_words"
        if text.count("#") / view.word_count > self.max_symbols:
            return "hashes"
        if (text.count("...") + text.count("…")) / view.word_count > self.max_symbols:
            return "ellipses"
        lines = text.splitlines()
        if sum(line.lstrip().startswith(("•", "-")) for line in lines) / len(lines) > self.max_bullets:
            return "bullets"
        if sum(line.rstrip().endswith(("...", "…")) for line in lines) / len(lines) > self.max_ellipses:
            return "ellipsis_lines"
        letters = view.total(lambda run: run.letters)
        if letters / view.word_count < self.min_with_letter:
            return "not_alphabetic"
        if len(frozenset[str]().union(*(run.stops for run in view.runs.values()))) < self.min_stop_words:
            return "no_stop_words"
        return None


@value("published/gopher_repetition")
class GopherRepetition:
    """Gopher's repetition filter: repeated paragraphs, lines and word n-grams.

    top, repeated: pairs of n and the largest share of all characters.
    """

    max_paragraphs: float = 0.3
    max_paragraph_characters: float = 0.2
    max_lines: float = 0.3
    max_line_characters: float = 0.2
    top: tuple[tuple[int, float], ...] = ((2, 0.2), (3, 0.18), (4, 0.16))
    repeated: tuple[tuple[int, float], ...] = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.1))

    def __call__(self, view: EnglishText) -> Verdict:
        return Verdict(view.text, self._reason(view))

    def _reason(self, view: EnglishText) -> str | None:
        from marin.text.ngrams import NgramView  # NumPy: not needed to write an experiment down

        text = view.text
        for parts, most, most_characters, name in (
            (paragraphs_of(text), self.max_paragraphs, self.max_paragraph_characters, "paragraph"),
            (line_runs_of(text), self.max_lines, self.max_line_characters, "line"),
        ):
            count, characters = repeated(parts)
            if count / len(parts) > most:
                return f"duplicate_{name}s"
            if characters / len(text) > most_characters:
                return f"duplicate_{name}_characters"
        grams = NgramView(view.words)
        for n, most in self.top:
            if len(grams.words) >= n:
                count, characters = grams.most_frequent(n)
                if count * (characters + n - 1) / len(text) > most:
                    return f"top_{n}_gram"
        for n, most in self.repeated:
            # A repeated n-gram has a repeated 4-gram inside: most documents end here, cheaply.
            if len(grams.words) < n or grams.all_unique(min(n, 4)) or grams.all_unique(n):
                return None
            if grams.repeated_characters(n) / len(text) > most:
                return f"duplicate_{n}_grams"
        return None


@value("published/c4")
class C4:
    """C4's filter: keep the lines that are sentences, without citation marks, of documents with enough sentences."""

    ended: bool = True  # whether a line must end a sentence; False in FineWeb's recipe
    min_sentences: int = 5
    min_words: int = 3  # per line
    max_word_length: int = 1000

    def __call__(self, view: EnglishText) -> Verdict:
        kept: list[str] = []
        for line in map(str.strip, view.text.splitlines()):
            words = line.split()
            if len(line) > self.max_word_length and any(len(word) > self.max_word_length for word in words):
                continue
            if "[" in line:
                line = _CITATION.sub("", line)
            if self.ended and (not line.endswith(ENDS_SENTENCE) or line.endswith("...")):
                continue
            if len(words) < self.min_words:
                continue
            lower = line.lower()
            if "lorem ipsum" in lower:
                return Verdict(view.text, "lorem_ipsum")
            if "javascript" in lower:
                continue
            if "{" in line:
                return Verdict(view.text, "curly_bracket")
            if not any(phrase in lower for phrase in POLICIES):
                kept.append(line)
        if not _has_sentences(kept, self.min_sentences):
            return Verdict(view.text, "too_few_sentences")
        return Verdict("\n".join(kept).strip(), None)


@value("published/fineweb")
class FineWeb:
    """FineWeb's filter on lines: shares of lines that end a sentence, are short or repeat, and newlines per word."""

    min_ended: float = 0.12
    max_short: float = 0.67
    short: int = 30
    max_repeated: float = 0.01  # share of characters
    max_newlines: float = 0.3  # per word

    def __call__(self, view: EnglishText) -> Verdict:
        return Verdict(view.text, self._reason(view))

    def _reason(self, view: EnglishText) -> str | None:
        text = view.text
        lines = [line for line in text.split("\n") if line.strip()]
        if not lines:
            return "empty"
        if sum(line.endswith(_terminal()) for line in lines) / len(lines) < self.min_ended:
            return "unpunctuated_lines"
        if sum(len(line) <= self.short for line in lines) / len(lines) > self.max_short:
            return "short_lines"
        newlines = text.count("\n")
        if repeated(lines)[1] / (len(text) - newlines) > self.max_repeated:
            return "repeated_lines"
        return "list" if newlines / view.word_count > self.max_newlines else None


@value("published/filters")
class Published:
    """Published filters, applied in turn. The first that a document fails gives the reason.

    Raises BadField if there is no filter.
    """

    filters: tuple[GopherQuality | GopherRepetition | C4 | FineWeb, ...]

    def __post_init__(self) -> None:
        if not self.filters:
            raise BadField("Published has no filter; give one, e.g. Published((GopherQuality(),)), or remove the step")

    def judge(self, text: str) -> Verdict:
        view = EnglishText(text)
        if not text.strip():
            return Verdict(text, "empty")
        for each in self.filters:
            verdict = each(view)
            if verdict.reason is not None:
                return verdict
            if verdict.text != view.text:
                view = EnglishText(verdict.text)
        return Verdict(view.text, None)


# Penedo et al. 2024, section 3: in this order, and without C4's rule on how a line ends.
FINEWEB_RECIPE = Published((GopherRepetition(), GopherQuality(), C4(ended=False), FineWeb()))


def runs_of(split: Iterable[str]) -> dict[str, Run]:
    """Return each distinct run with its words."""
    remembered = _remembered()
    found = {run: remembered.get(run) for run in split}
    missing = [run for run, known in found.items() if known is None]
    if missing:
        if len(remembered) + len(missing) > REMEMBERED:
            remembered.clear()
        for run, words in zip(missing, split_runs(missing), strict=True):
            found[run] = remembered[run] = _looked_at(words)
    return found  # pyright: ignore[reportReturnType]


def split_runs(runs: Iterable[str]) -> list[list[str]]:
    """Return the words of each run of characters without white space, as spaCy splits them."""
    special = _special()
    found: list[list[str]] = []
    rest: list[str] = []
    for run in runs:
        plain = _PLAIN.fullmatch(run)
        if plain is not None and plain[2].lower() not in special:
            found.append([*plain[1], plain[2], *plain[3]])
        else:
            found.append([])
            rest.append(run)
    tokenizer = _tokenizer()
    with tokenizer.vocab.memory_zone():  # otherwise spaCy never frees a string
        words = (token.text for token in tokenizer(" ".join(rest)))
        left = iter(rest)
        for at in (place for place in found if not place):
            length = len(next(left))
            while length:
                at.append(word := next(words))
                length -= len(word)
    return found


def _looked_at(words: Sequence[str]) -> Run:
    punctuation = _punctuation()
    worded = [word for word in words if not punctuation.issuperset(word)]
    return Run(
        words=tuple(words),
        worded=len(worded),
        letters=sum(word.isalpha() or any(map(str.isalpha, word)) for word in words),
        characters=sum(map(len, worded)),
        stops=frozenset(STOP_WORDS).intersection(words),
    )


def _has_sentences(lines: Iterable[str], least: int) -> bool:
    """Return whether the lines hold enough sentences. Stops counting at ``least``, because spaCy is slow."""
    from datatrove.utils.text import split_into_sentences

    found = 0
    for line in lines:
        if found >= least:
            break
        found += len(split_into_sentences(line))
    return found >= least


@cache
def _remembered() -> dict[str, Run]:
    return {}


@cache
def _tokenizer() -> Any:
    """Return spaCy's English tokenizer, without the word features that spaCy would compute for each new word."""
    from spacy.lang.en import English
    from spacy.tokenizer import Tokenizer
    from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex
    from spacy.vocab import Vocab

    english: Any = English.Defaults
    return Tokenizer(
        Vocab(),
        rules=english.tokenizer_exceptions,
        prefix_search=compile_prefix_regex(english.prefixes).search,
        suffix_search=compile_suffix_regex(english.suffixes).search,
        infix_finditer=compile_infix_regex(english.infixes).finditer,
        token_match=english.token_match,
        url_match=english.url_match,
    )


@cache
def _special() -> frozenset[str]:
    """Return words that spaCy may split, or may not split from their marks: "cannot", "etc."."""
    return frozenset("".join(filter(str.isalpha, rule)).lower() for rule in _tokenizer().rules)


@cache
def _punctuation() -> frozenset[str]:
    from datatrove.utils.text import PUNCTUATION_SET

    return frozenset(PUNCTUATION_SET)


@cache
def _terminal() -> tuple[str, ...]:
    from datatrove.utils.text import TERMINAL_PUNCTUATION

    return tuple(sorted(TERMINAL_PUNCTUATION))
