import json

import pytest

from marin.errors import GarbledDocument
from marin.evaluation.candidates import candidates
from marin.evaluation.formats import TAG, Format, lm_eval, olmes, split_answer, with_final
from marin.evaluation.items import Item
from tests.shared_data import shared

ANSWER = "Janet sells 16-7 = $<<16-7=9>>9 eggs and/or more\nThe 12-year-old has 9*2=<<9*2=18>>18.\n#### 18"
ITEM = Item("a", "How many?", ANSWER, "18")


def test_lm_eval_keeps_tags_and_final_mark():
    assert lm_eval("How many?", ANSWER) == f"Question: How many?\nAnswer: {ANSWER}"


def test_olmes_strips_tags_spaces_operators_and_closes_the_sentence():
    assert olmes("How many?", ANSWER) == (
        "Question: How many?\nAnswer: Janet sells 16 - 7 = $9 eggs and/or more. "
        "The 12-year-old has 9 * 2 = 18. So the answer is 18."
    )


@pytest.mark.parametrize("form", Format)
def test_prompt_and_gold_make_the_text_and_the_span_is_the_final_answer(form: Format):
    gold = form.gold(ITEM)
    assert form.prompt(ITEM) + gold == form.text(ITEM)
    assert gold.startswith(" ")
    start, end = form.final_span(ITEM)
    assert gold[start:end] == "18"
    assert gold[end:] == ("." if form is Format.OLMES else "")


def test_tags_are_found_where_they_are():
    gold = Format.LM_EVAL.gold(ITEM)
    assert [gold[a:b] for a, b in Format.LM_EVAL.tag_spans(ITEM)] == ["<<16-7=9>>", "<<9*2=18>>"]
    assert Format.OLMES.tag_spans(ITEM) == []


def test_an_answer_without_a_final_is_refused():
    with pytest.raises(GarbledDocument, match="####"):
        olmes("How many?", "nine")


def test_another_final_replaces_every_standing_of_the_right_one():
    other = with_final(ITEM, "28")
    assert other.answer == ANSWER.replace("18", "28")
    money = Item("b", "q", "It is 1,300*1=<<1300*1=1300>>1,300 of 11300\n#### 1,300", "1,300")
    assert with_final(money, "1,400").answer == "It is 1,400*1=<<1400*1=1400>>1,400 of 11300\n#### 1,400"
    half = Item("c", "q", "16, 1600 and 1,600, not 1,600.50\n#### 1600", "1600")
    assert with_final(half, "1700").answer == "16, 1700 and 1,700, not 1,600.50\n#### 1700"


def test_real_gsm8k_fits_both_formats():
    for line in (shared("gsm8k") / "test.jsonl").read_text().splitlines():
        row = json.loads(line)
        item = Item("x", row["question"], row["answer"], split_answer(row["answer"])[1])
        tagged, plain = Format.LM_EVAL.gold(item), Format.OLMES.gold(item)
        for form, gold in ((Format.LM_EVAL, tagged), (Format.OLMES, plain)):
            start, end = form.final_span(item)
            assert gold[start:end] == item.final
        assert len(Format.LM_EVAL.tag_spans(item)) == item.answer.count("<<")
        assert not any(mark in plain for mark in ("<<", ">>", "####", "\n"))
        # The same words and numbers, apart from the tags and the closing phrase.
        assert _letters(plain) == _letters(
            TAG.sub("", split_answer(row["answer"])[0]) + f" So the answer is {item.final}"
        )
        made = candidates(item, 4)
        assert len({one.final for one in made}) == 4
        assert all(split_answer(one.answer)[1] == one.final for one in made)


def _letters(text: str) -> str:
    return "".join(c for c in text if c.isalnum())
