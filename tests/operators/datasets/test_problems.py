"""Generated problems: right arithmetic, no shared question, training items far from test items."""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from contextlib import redirect_stdout

import pytest

from marin.errors import BadField, GarbledDocument
from marin.evaluation.formats import TAG, lm_eval, olmes
from marin.evaluation.items import Item
from operators.datasets.rehearsal.problem_forms import Form, write_problem
from operators.datasets.rehearsal.problem_stories import Draw, Problem
from operators.datasets.rehearsal.problems import Split, generate_items, split_of

TRAIN = list(generate_items(1, 3000, Split.TRAIN))
TEST = list(generate_items(2, 256, Split.TEST))
STEP = re.compile(r"([\d+*/-]+) = \$?<<([\d+*/-]+)=(\d+)>>(\d+)")


def test_every_step_computes_what_it_says_and_the_last_is_the_answer() -> None:
    for item in TRAIN + TEST:
        *steps, last = item.answer.split("\n")
        assert last == f"#### {item.final}"
        for step in steps:
            shown, tag, result, after = STEP.search(step).groups()  # type: ignore[union-attr]
            assert shown == tag
            assert result == after
            assert eval(tag) == int(result) > 0, item
        assert after == item.final  # type: ignore[possibly-undefined]


IN_WORDS = {"2": "half|twice|all sides|around", "3": "third|three", "4": "quarter|four", "5": "fifth", "6": "sixth"}


def test_numbers_of_a_worked_step_come_from_the_story_or_an_earlier_step() -> None:
    for item in TRAIN:
        known = set(re.findall(r"\d+", item.question))
        known |= {digit for digit, words in IN_WORDS.items() if re.search(words, item.question.lower())}
        for expression, result in re.findall(r"<<([\d+*/-]+)=(\d+)>>", item.answer):
            assert set(re.split(r"[-+*/]", expression)) <= known, item
            known.add(result)


def test_a_question_belongs_to_one_split_whatever_the_seed() -> None:
    assert len({item.question for item in TRAIN}) == 3000
    assert len({item.question for item in TEST}) == 256
    assert not {item.question for item in TRAIN} & {item.question for item in TEST}
    assert {split_of(item.question) for item in generate_items(2, 100, Split.TRAIN)} == {Split.TRAIN}


def test_the_same_seed_gives_the_same_items_and_another_seed_others() -> None:
    assert list(generate_items(1, 50, Split.TRAIN)) == TRAIN[:50]
    other = {item.question for item in generate_items(3, 3000, Split.TRAIN)}
    assert len(other & {item.question for item in TRAIN}) < 3


def test_training_items_are_far_from_test_items() -> None:
    """The 8-gram rule of the research note: four hits and 15 % of one item's question or answer."""
    index: dict[tuple[str, ...], set[tuple[int, str]]] = defaultdict(set)
    sizes: dict[tuple[int, str], int] = {}
    for number, item in enumerate(TEST):
        for part, text in (("question", item.question), ("answer", item.answer)):
            grams = _eight_grams(text)
            sizes[number, part] = len(grams)
            for gram in grams:
                index[gram].add((number, part))
    near = 0
    for item in TRAIN:
        hits: Counter[tuple[int, str]] = Counter()
        for gram in _eight_grams(item.question) | _eight_grams(item.answer):
            hits.update(index.get(gram, ()))
        near += any(count >= 4 and count >= 0.15 * sizes[key] for key, count in hits.items())
    assert near / len(TRAIN) < 0.03  # measured: 0.02


def _eight_grams(text: str) -> set[tuple[str, ...]]:
    found = re.findall(r"\w+", TAG.sub("", text).lower())
    return {tuple(found[start : start + 8]) for start in range(len(found) - 7)}


def test_asking_for_more_than_the_stories_have_says_so() -> None:
    def only_story(draw: Draw) -> Problem:
        problem = Problem([f"Ada has 2 kites and finds {draw.between(3, 40)}. How many are there?"])
        problem.step("There are", "2+3", "kites")
        return problem

    with pytest.raises(BadField, match=r"count is 100, but seed 1 gives only \d\d different problems; ask for fewer"):
        list(generate_items(1, 100, Split.TRAIN, stories=[only_story]))


@pytest.mark.parametrize("form", Form)
def test_every_form_holds_the_question_and_the_answer(form: Form) -> None:
    for item in TEST[:50]:
        text = write_problem(item, form)
        assert item.question in text
        assert item.final in text
        assert ("<<" in text) is (form is Form.LM_EVAL)


def test_the_two_prompt_formats_are_the_evaluations_own() -> None:
    for item in TEST[:50]:
        assert write_problem(item, Form.LM_EVAL) == lm_eval(item.question, item.answer)
        assert write_problem(item, Form.OLMES) == olmes(item.question, item.answer)


def test_code_computes_the_answer() -> None:
    for item in TEST[:50]:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(write_problem(item, Form.CODE), {})
        assert float(printed.getvalue()) == float(item.final)


def test_the_right_option_is_where_the_letter_says_and_letters_are_even() -> None:
    letters: Counter[str] = Counter()
    for item in TRAIN:
        text = write_problem(item, Form.MULTIPLE_CHOICE)
        letter = text[-1]
        assert f"\n{letter}. {item.final}\n" in text
        letters[letter] += 1
    assert all(600 < letters[letter] < 900 for letter in "ABCD")


def test_an_answer_without_steps_cannot_become_code() -> None:
    with pytest.raises(GarbledDocument, match=r"item x has no <<…=…>> step"):
        write_problem(Item("x", "Why?", "Because.\n#### 1", "1"), Form.CODE)
