"""The published filters agree with datatrove's shipped filters on real text: same decisions, same text."""

from __future__ import annotations

from typing import Any

import pytest

from marin.errors import BadField
from marin.text.published import C4, FINEWEB_RECIPE, EnglishText, FineWeb, GopherQuality, GopherRepetition, Published
from tests.text.real_texts import real_texts

CASES = {
    "GopherQualityFilter": GopherQuality(),
    "GopherRepetitionFilter": GopherRepetition(),
    "C4QualityFilter": C4(),
    "FineWebQualityFilter": FineWeb(),
}


def theirs(name: str, text: str) -> str | None:
    """Return the text that datatrove's filter keeps, None if it drops the document."""
    from datatrove.data import Document
    from datatrove.pipeline import filters

    made: Any = getattr(filters, name)()
    document = Document(text=text, id="x")
    return document.text if made.filter(document) is True else None


def ours(name: str, text: str) -> str | None:
    verdict = Published((CASES[name],)).judge(text)
    return verdict.text if verdict.reason is None else None


@pytest.mark.parametrize("corpus", ["stdlib", "peps", "rfcs"])
@pytest.mark.parametrize("name", CASES)
def test_decides_as_datatrove_does(name: str, corpus: str) -> None:
    texts = [text[:6000] for text in real_texts(corpus)[::6]]
    expected = [theirs(name, text) for text in texts]
    assert [ours(name, text) for text in texts] == expected
    if corpus == "peps":  # each filter keeps some PEPs
        assert 0 < expected.count(None) < len(texts), "the texts do not try the filter"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "text",
    [
        "x",
        "…",
        "#" * 100,
        "字" * 100,
        "a\n" * 1000,
        "IS_ALPHA " * 60,
        "don't U.S.A. 3.5kg (e.g. \x1c this) \u3000 ok.\n" * 9,
    ],
)
def test_odd_texts_too(name: str, text: str) -> None:
    try:
        expected = theirs(name, text)
    except ZeroDivisionError:  # datatrove fails on a text without a word
        expected = None
    assert ours(name, text) == expected


def test_the_recipe_says_which_filter_drops_a_document() -> None:
    sentence = "The quick brown fox jumps over the lazy dog, and then it goes to sleep with the others. "
    assert FINEWEB_RECIPE.judge("A list, and the words of it that have no end: " + sentence).reason == "too_few_words"
    assert FINEWEB_RECIPE.judge(sentence * 30).reason == "top_4_gram"
    assert FINEWEB_RECIPE.judge(" \n").reason == "empty"
    with pytest.raises(BadField, match="no filter; give one"):
        Published(())


def test_words_are_remembered_by_what_stands_between_white_space() -> None:
    view = EnglishText("Don't stop, don't  stop.")
    assert view.words == ["Do", "n't", "stop", ",", "do", "n't", "stop", "."]
    assert view.word_count == 8
