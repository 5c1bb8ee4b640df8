"""Overlap against a slow reference of word tuples; GSM8K in disguise where it is at hand."""

import json
import random
import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin.evaluation.items import Item
from marin.text.normalize import light_words
from marin.text.overlap import OverlapIndex
from marin.text.overlap_rule import Overlap
from tests.shared_data import shared

type Found = set[tuple[str, str, int]]


def slow(items: list[Item], rule: Overlap, text: str) -> Found:
    """(item, part, hits), by sets of word tuples."""

    def words(given: str) -> list[str]:
        return light_words(re.sub(r"<<[^<>\n]*>>", " ", given))

    def grams(given: list[str], n: int) -> set[tuple[str, ...]]:
        return {tuple(given[start : start + n]) for start in range(len(given) - n + 1)}

    parts = {(item.id, part): grams(words(getattr(item, part)), rule.words)
             for item in items for part in ("question", "answer")}  # fmt: skip
    holders: dict[tuple[str, ...], set[str]] = {}
    for (item, _), held in parts.items():
        for gram in held:
            holders.setdefault(gram, set()).add(item)
    most = max(rule.common_items, rule.common_share * len(items))
    there = grams(words(text), rule.words)
    found: Found = set()
    for (item, part), held in parts.items():
        held = {gram for gram in held if len(holders[gram]) <= most}
        hits = len(held & there)
        if hits and hits >= min(rule.hits, len(held)) and hits >= rule.coverage * len(held):
            found.add((item, part, hits))
    for item in items:
        question, result, body = words(item.question), words(item.final or item.answer), words(text)
        if not 0 < len(question) < rule.words or not result or len(question) + len(result) < rule.least:
            continue
        for start in range(len(body)):
            end = start + len(question)
            after = body[end : end + rule.reach + len(result)]
            starts = range(len(after) - len(result) + 1)
            if body[start:end] == question and any(after[at : at + len(result)] == result for at in starts):
                found.add((item.id, "question and result", 1))
    return found


def fast(items: list[Item], rule: Overlap, text: str) -> Found:
    index = OverlapIndex(items, rule)
    return {(index.items[hit.item].id, hit.part, hit.hits) for hit in index.find(text)}


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=25).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(WORDS, WORDS, st.sampled_from(["", "a", "b c"])), min_size=1, max_size=6),
    WORDS,
    st.builds(
        Overlap,
        words=st.integers(2, 5),
        hits=st.integers(1, 4),
        coverage=st.sampled_from([0.0, 0.15, 0.5]),
        common_items=st.integers(1, 3),
        reach=st.integers(0, 5),
        least=st.integers(2, 5),
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
        assert [(hit.item, hit.part) for hit in index.find(text)] == [(0, "answer")]


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
    """5 of 7473 when written; 4 of them differ from a test problem in names and numbers only."""
    hit = [item.id for item in read_gsm8k("train") if gsm8k.find(lm_eval_form(item))]
    assert len(hit) <= 7, hit


def test_gsm8k_is_fully_indexed_and_agrees_with_the_slow_reference(gsm8k: OverlapIndex) -> None:
    assert gsm8k.unindexed == ()
    chance = random.Random(1)
    some = list(gsm8k.items[:60])
    index = OverlapIndex(some, Overlap())
    for one, other in pairwise(chance.sample(some, 12)):
        text = olmes_form(one) + "\n\n" + lm_eval_form(other)[:300]
        found = {(index.items[hit.item].id, hit.part, hit.hits) for hit in index.find(text)}
        assert found == slow(some, Overlap(), text)  # type: ignore[arg-type]
        assert {one.id, other.id} <= {item for item, _, _ in found}
