"""Test overlap against a slow reference of word tuples, and on GSM8K in disguise if it is at hand."""

import json
import random
import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin.evaluation.items import Item
from marin.text.alignment import held_of, in_order, masks
from marin.text.overlap import ALL, SHORT, WHOLE, OverlapIndex
from marin.text.overlap_rule import Overlap
from marin.text.places import mix, numbers_of, words_of
from tests.shared_data import shared

type Found = set[tuple[str, str, int]]

WORD = re.compile(r"[^\W_]{2,}|\d")
NEVER = 10_000  # words: no field has so many


def slow(items: list[Item], rule: Overlap, text: str) -> Found:
    """Return (item, part, hits) by sets of word tuples, without edited copies and without parts of pure boilerplate."""

    def words(said: str) -> list[str]:
        return WORD.findall(re.sub(r"<<[^<>\n]*>>", " ", said).lower())

    def grams(said: list[str], n: int) -> set[tuple[str, ...]]:
        return {tuple(said[start : start + n]) for start in range(len(said) - n + 1)}

    parts: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for item in items:
        fields = {name: words(said) for name, said in item.fields.items()}
        if len(fields["question"]) < SHORT:
            fields[ALL] = [word for said in fields.values() for word in said]
        for name, said in fields.items():
            parts[item.id, name] = [tuple(said[at : at + rule.words]) for at in range(len(said) - rule.words + 1)]
    holders: dict[tuple[str, ...], set[str]] = {}
    for (item, _), held in parts.items():
        for gram in held:
            holders.setdefault(gram, set()).add(item)
    most = max(rule.common_items, rule.common_share * len(items))
    there = grams(words(text), rule.words)
    found: Found = set()
    for (item, part), held in parts.items():
        held = [gram for gram in held if len(holders[gram]) <= most]
        telling = [gram for gram in held if not all(word[0].isdigit() for word in gram)]
        held = telling if len(telling) >= rule.hits else held
        hits = sum(gram in there for gram in held)
        if hits and hits >= min(rule.hits, len(held)) and hits >= rule.coverage * len(held):
            found.add((item, part, hits))
    for item in items:
        question, result, body = words(item.question), words(item.final), words(text)
        if not 0 < len(question) < rule.words or not result or len(question) + len(result) < rule.least:
            continue
        for start in range(len(body)):
            end = start + len(question)
            after = body[end : end + rule.reach + len(result)]
            starts = range(len(after) - len(result) + 1)
            if body[start:end] == question and any(after[at : at + len(result)] == result for at in starts):
                found.add((item.id, WHOLE, 1))
    return found


def fast(items: list[Item], rule: Overlap, text: str) -> Found:
    index = OverlapIndex(items, rule)
    return {(index.items[hit.item].id, hit.part, hit.hits) for hit in index.find(text)}


WORDS = st.lists(st.sampled_from(["aa", "bb", "cc", "dd", "ee"]), max_size=25).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(WORDS, WORDS, st.sampled_from(["", "aa", "bb cc"])), min_size=1, max_size=6),
    WORDS,
    st.builds(
        Overlap,
        words=st.integers(3, 5),
        seed=st.integers(1, 2),
        hits=st.integers(1, 4),
        coverage=st.sampled_from([0.0, 0.15, 0.5]),
        reach=st.integers(0, 5),
        least=st.integers(2, 5),
        edited_words=st.just(NEVER),
    ),
)
def test_agrees_with_the_slow_reference(rows: list[tuple[str, str, str]], text: str, rule: Overlap) -> None:
    items = [Item(str(n), *row) for n, row in enumerate(rows)]
    copy = f"{text} {rows[0][0]} {rows[-1][1]}"
    for given_text in (text, copy):
        assert fast(items, rule, given_text) == slow(items, rule, given_text)


def test_short_items_are_found_or_named() -> None:
    items = [
        Item("capital", "What is the capital of France?", "Paris\n#### Paris", "Paris"),
        Item("tiny", "2+2?", "4", "4"),
        Item("empty", "", "", ""),
    ]
    index = OverlapIndex(items, Overlap())
    assert index.unindexed == ("tiny", "empty")
    assert [hit.item for hit in index.find("Q: what is the capital of France\nA: It is, of course, Paris.")] == [0]
    assert index.find("What is the capital of France? Ask a teacher.") == []
    assert index.find("2+2? 4") == []


def test_calculator_tags_do_not_hide_a_copy() -> None:
    answer = "He has 16 - 7 = <<16-7=9>>9 left and gives 4 * 2 = <<4*2=8>>8 of them to his sister Ann.\n#### 1"
    index = OverlapIndex([Item("x", "unrelated words only here in this one question", answer, "1")], Overlap())
    stripped = answer.replace("<<16-7=9>>", "").replace("<<4*2=8>>", "")
    for text in (answer, stripped, stripped.upper(), stripped.replace(" ", "\n"), f"noise {stripped} noise"):
        assert [(hit.item, hit.part) for hit in index.find(text)][:1] == [(0, "answer")]


def test_boilerplate_of_a_suite_is_no_evidence() -> None:
    stem = "Which of the following statements about the described process is most accurate in general? "
    endings = [" ".join(f"option{n}word{k}" for k in range(12)) for n in range(40)]
    items = [Item(str(n), stem + ending, "a b c", "a") for n, ending in enumerate(endings)]
    index = OverlapIndex(items, Overlap())
    assert index.find(stem + "None of them, as every student knows.") == []
    assert {hit.item for hit in index.find(stem + endings[3])} == {3}


def test_no_items() -> None:
    assert OverlapIndex([], Overlap()).find("anything at all that is long enough for an n gram") == []


# GSM8K in the disguises of research/data-libraries.md


def stripped(answer: str) -> str:
    return re.sub(r"<<.*?>>", "", answer)


def lm_eval_form(item: Item) -> str:
    return f"Question: {item.question}\nAnswer: {item.answer}"


def olmes_form(item: Item) -> str:
    body = re.sub(r"([-+*/=])", r" \1 ", stripped(item.answer.split("####")[0])).strip()
    return f"Question: {item.question}\nAnswer: {body} So the answer is {item.final}."


def lower_form(item: Item) -> str:
    return re.sub(r"[^\w\s]", "", olmes_form(item).lower())


def inline_form(item: Item) -> str:
    return "An earlier note. " * 200 + olmes_form(item).replace("\n", " ") + " A later note." * 200


def one_edit_in_twelve(item: Item) -> str:
    words = olmes_form(item).split()
    return " ".join("other" if n % 12 == 6 else word for n, word in enumerate(words))


def read_gsm8k(name: str) -> list[Item]:
    rows = [json.loads(line) for line in shared(f"gsm8k/{name}.jsonl").read_text().splitlines()]
    return [
        Item(f"{name}/{n}", row["question"], row["answer"], row["answer"].split("####")[1].strip())
        for n, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def gsm8k() -> OverlapIndex:
    return OverlapIndex(read_gsm8k("test"), Overlap())


@pytest.mark.parametrize(
    ("form", "least"),
    [
        (lm_eval_form, 1.0),
        (olmes_form, 1.0),
        (lambda item: item.question, 1.0),
        (lambda item: item.answer, 1.0),
        (lower_form, 0.98),
        (inline_form, 1.0),
        (lambda item: "\n".join(re.findall(r".{1,40}(?:\s|$)", olmes_form(item))), 1.0),
        (one_edit_in_twelve, 0.99),
    ],
    ids=["lm-eval", "olmes", "question only", "answer only", "lower, no punctuation", "inline", "wrapped", "1 in 12"],
)
def test_gsm8k_disguises_are_found(gsm8k: OverlapIndex, form: Callable[[Item], str], least: float) -> None:
    asked = list(enumerate(gsm8k.items))[:250]
    found = sum(any(hit.item == n for hit in gsm8k.find(form(item))) for n, item in asked)  # type: ignore[arg-type]
    assert found / len(asked) >= least


def test_gsm8k_training_problems_are_not_hit(gsm8k: OverlapIndex) -> None:
    """5 of 7473 were hit at the time of writing. 4 of the 5 differ from a test problem only in names and numbers."""
    hit = [item.id for item in read_gsm8k("train") if gsm8k.find(lm_eval_form(item))]
    assert len(hit) <= 7, hit


def test_gsm8k_is_fully_indexed_and_agrees_with_the_slow_reference(gsm8k: OverlapIndex) -> None:
    assert gsm8k.unindexed == ()
    chance = random.Random(1)
    some = read_gsm8k("test")[:60]
    index = OverlapIndex(some, Overlap())
    for one, other in pairwise(chance.sample(some, 12)):
        text = olmes_form(one) + "\n\n" + lm_eval_form(other)[:300]
        found = {(index.items[hit.item].id, hit.part, hit.hits) for hit in index.find(text)}
        assert found == slow(some, Overlap(), text)  # type: ignore[arg-type]
        assert {one.id, other.id} <= {item for item, _, _ in found}


TEXTS = st.text(st.sampled_from("aB7é\u0301Ж漢 \n.<>=\\nu00e9"), max_size=40)


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, max_size=6))
def test_texts_read_together_have_the_words_that_each_has_alone(texts: list[str]) -> None:
    alone = [words_of(text) for text in texts]
    assert [(numbers.tolist(), digits.tolist()) for numbers, digits in numbers_of(texts)] == [
        (words.numbers.tolist(), words.digits.tolist()) for words in alone
    ]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_no_text_has_more_words_in_order_than_it_has_at_all(passage: list[int], text: list[int]) -> None:
    words, others = (mix(np.array(each, np.uint64)) for each in (passage, text))
    held = held_of(words, others)
    assert in_order(masks(words.tolist()), len(passage), others.tolist()) <= held[-1]
    assert held.tolist() == [sum(word in passage for word in text[:end]) for end in range(len(text) + 1)]
