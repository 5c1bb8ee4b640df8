"""Compare real text with itself with one injected fault, and with itself unchanged."""

import gzip
import json
import random
import re
from collections.abc import Callable

import numpy as np
import pytest

from marin.text.format_gap import form, format_gaps
from tests.shared_data import shared

FAULTS: dict[str, tuple[Callable[[str], str], str]] = {
    "trailing space": (lambda text: text + " ", "end in white space"),
    "leading space": (lambda text: " " + text, "begin with white space"),
    "byte order mark": (lambda text: "\ufeff" + text, "begin with a byte order mark"),
    "carriage returns": (lambda text: text.replace("\n", "\r\n"), "have carriage returns"),
    "spaces that do not break": (lambda text: text.replace(", ", ",\u00a0"), "have spaces that do not break"),
    "decomposed": (lambda text: text.replace("a", "a\u0301", 3), "are not composed"),
    "typeset quotes": (lambda text: re.sub('"(.*?)"', "“\\1”", text).replace("'", "’"), "have quotes of typesetting"),
    "mojibake": (lambda text: text.replace("e ", "Ã© ", 5), "have UTF-8 that was taken"),
    "HTML": (lambda text: f"<p>{text}</p>", "have HTML"),
    "template": (lambda text: f"Question: {text}\nAnswer: yes", "ask and answer"),
    "no line breaks": (lambda text: text.replace("\n", " "), "newlines for each character"),
    "capitals": (str.upper, "capitals"),
}


@pytest.fixture(scope="module")
def halves() -> tuple[list[str], list[str]]:
    with gzip.open(shared("peps/peps.jsonl.gz"), "rt") as lines:
        texts = [json.loads(line)["text"].strip()[:6000] for line in lines]
    random.Random(0).shuffle(texts)
    return texts[:250], texts[250:500]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_form_is_named(fault: str, halves: tuple[list[str], list[str]]) -> None:
    inject, wanted = FAULTS[fault]
    found = format_gaps(form(halves[0]), form([inject(text) for text in halves[1]]))
    assert any(gap.measure.startswith(wanted) for gap in found), [str(gap) for gap in found]


@pytest.mark.parametrize("name", ["peps", "rfcs"])
def test_halves_of_one_text_do_not_differ(name: str) -> None:
    with gzip.open(shared(f"{name}/{name}.jsonl.gz"), "rt") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    for seed in range(3):
        random.Random(seed).shuffle(texts)
        assert format_gaps(form(texts[:250]), form(texts[250:500])) == []
        for few in (1, 5, 20, 60):
            assert format_gaps(form(texts[:250]), form(texts[250 : 250 + few])) == []


def test_what_differs_is_said_with_its_numbers(halves: tuple[list[str], list[str]]) -> None:
    gaps = format_gaps(form(halves[0]), form([text + " " for text in halves[1]]))
    assert str(gaps[0]).startswith("100% end in white space, of the training's texts ")
    assert format_gaps(form([]), form(halves[1])) == []


def test_texts_count_by_their_weight_and_an_end_that_was_cut_is_not_known(halves: tuple[list[str], list[str]]) -> None:
    spaced = [text + " " for text in halves[0]]
    weights = [1.0] * len(halves[0]) + [3.0] * len(spaced)
    [gap] = format_gaps(form(halves[0] + spaced, weights=weights), form(halves[1]))
    assert (gap.measure, gap.training, gap.other) == (
        "end in white space",
        pytest.approx(0.76, abs=0.05),
        gap.training + gap.size,
    )
    cut = [True] * len(halves[0]) + [False] * len(spaced)
    assert format_gaps(form(halves[0] + spaced, weights=weights, whole=cut), form(halves[1])) == []


def test_each_rate_and_median_is_that_of_its_definition() -> None:
    values = form(["Ab 12.\ncd \n", "x"]).values
    assert values["digits"].tolist() == pytest.approx([2 / 11, 0])
    assert values["newlines for each character"].tolist() == pytest.approx([2 / 11, 0])
    assert values["capitals"].tolist() == pytest.approx([1 / 11, 0])
    assert values["have lines that end in white space"].tolist() == [1, 0]
    draw = np.random.default_rng(0)
    a, b = (["1" * n + "a" * (40 - n) for n in draw.integers(low, low + 20, 80)] for low in (0, 15))
    pairs = [np.sign(y.count("1") - x.count("1")) for x in a for y in b]
    [gap] = format_gaps(form(a), form(b))
    assert (gap.measure, gap.size) == ("digits", pytest.approx(np.mean(pairs)))
