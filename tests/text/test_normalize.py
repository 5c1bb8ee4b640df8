"""Normalisation is idempotent; words are numbered as a slow reference would."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from marin.text.normalize import light, light_bytes, light_words, normalize
from marin.text.shingles import shingle_set, shingles, word_numbers

LINES = st.text(st.characters(codec=None), max_size=60) | st.text(st.characters(codec="ascii"), max_size=60)
TEXTS = st.lists(LINES, max_size=8).map("\r\n \n".join)


def test_normalize() -> None:
    assert normalize("\ufeffa\r\nb\rc  \n\n\n\n  d\x00\t \n") == "a\nb\nc\n\n  d"
    assert normalize("e\u0301") == "\u00e9"
    assert normalize("x\ud800y") == "x\ufffdy"
    assert normalize("if x:\n\n    return\n") == "if x:\n\n    return"


@given(TEXTS)
def test_normalize_is_idempotent_and_encodable(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once
    once.encode()
    assert not re.search(r"\n\n\n|[^\S\n]\n|\r", once)


def test_light_ignores_case_punctuation_and_layout() -> None:
    assert light("Hello,  WORLD!\n(it's_4)") == "hello world it s 4"
    assert light("ﬁne １２") == "fine 12"
    assert light_words("...") == []


@given(TEXTS)
def test_light_bytes_are_the_light_words(text: str) -> None:
    assert light_bytes(text).decode().split() == light_words(text)


@given(TEXTS, TEXTS)
def test_equal_words_equal_numbers(one: str, other: str) -> None:
    words = light_words(one) + light_words(other)
    numbers = np.concatenate([word_numbers(one), word_numbers(other)]).tolist()
    assert len(words) == len(numbers)
    pairs = set(zip(words, numbers, strict=True))
    assert len(pairs) == len(set(words)) == len(set(numbers))


@given(st.lists(st.sampled_from(["ab", "c", "dd", "abcdef", "ab"]), max_size=30), st.integers(1, 6))
def test_shingles_are_word_ngrams(words: list[str], n: int) -> None:
    grams = [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]
    numbers = shingles(word_numbers(" ".join(words)), n).tolist()
    assert len(set(zip(grams, numbers, strict=True))) == len(set(grams)) == len(set(numbers))


def test_numbers_depend_on_the_word_alone() -> None:
    long = " ".join(["filler"] * 5000)
    assert word_numbers(f"{long} needle")[-1] == word_numbers("Needle!")[0]
    assert word_numbers("needle").tolist() == [int(word_numbers("a needle")[1])]


def test_short_texts_have_one_shingle() -> None:
    assert len(shingle_set("only three words", 5)) == 1
    assert shingle_set("Only three words.", 5).tolist() == shingle_set("only three words", 5).tolist()
    assert shingle_set("only three", 5).tolist() != shingle_set("only three words", 5).tolist()
    assert len(shingle_set("!!!", 5)) == 0
