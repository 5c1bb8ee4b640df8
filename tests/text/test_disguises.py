"""marin finds disguised copies, their places and their spelling, and flags no clean text."""

import json
import random
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from marin.errors import ControlMissed, GarbledDocument
from marin.evaluation.items import Item, read_items, write_items
from marin.evaluation.published import read_suite
from marin.store.files.directory import Directory
from marin.text.control import check_control
from marin.text.fold import fold, fold_positions
from marin.text.overlap import OverlapIndex
from marin.text.overlap_rule import Overlap
from marin.text.way import CopyKind

TEST = "assert " * 9
ARC = {"text": ["a b", "c d"], "label": ["A", "B"]}
WORDS = [a + b + c for a in ("ka", "lo", "mi", "re", "su") for b in ("ver", "tal", "pon", "dis") for c in "aei"]


def problems(count: int, seed: int) -> list[Item]:
    """Make problems of about twenty words with four short choices. All problems share a tenth of their words."""
    chance = random.Random(seed)
    made: list[Item] = []
    for number in range(count):
        question = " ".join(["Which", "of", *chance.choices(WORDS, k=16), "is", "right?"])
        choices = [" ".join(chance.choices(WORDS, k=2)) for _ in range(4)]
        made.append(Item(f"{seed}/{number}", question, choices[1], choices[1], (("choices", "\n".join(choices)),)))
    return made


def shown(item: Item) -> str:
    return f"{item.question}\n{dict(item.others)['choices']}\nAnswer: {item.answer}"


def edited(item: Item) -> str:
    return " ".join("other" if n % 6 == 3 else word for n, word in enumerate(shown(item).split()))


DISGUISES: dict[str, Callable[[Item], str]] = {
    "as it is": shown,
    "question": lambda item: item.question,
    "upper": lambda item: shown(item).upper(),
    "wrapped": lambda item: "\n".join(textwrap.wrap(shown(item), 30)),
    "json": lambda item: json.dumps({"question": item.question, "rest": shown(item)}),
    "homoglyphs": lambda item: shown(item).translate(str.maketrans("aeopc", "аеорс")),
    "accents": lambda item: shown(item).translate(str.maketrans("aeou", "áéöû")),
    "combining accents": lambda item: re.sub("([aeo])", "\\1\u0301", shown(item)),
    "spaced": lambda item: " ".join(shown(item)),
    "zero width": lambda item: "\u200b".join(shown(item)),
    "soft hyphens": lambda item: re.sub(r"(\w{2})(?=\w)", "\\1\u00ad", shown(item)),
    "full width": lambda item: shown(item).translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)}),
    "one word in six": edited,
}


@pytest.fixture(scope="module")
def index() -> OverlapIndex:
    return OverlapIndex(problems(40, 1), Overlap())


@pytest.mark.parametrize("name", DISGUISES)
def test_copies_in_disguise_are_found(index: OverlapIndex, name: str) -> None:
    found = sum(
        any(hit.item == number for hit in index.find(f"Before. {DISGUISES[name](item)} After."))  # type: ignore[arg-type]
        for number, item in enumerate(index.items)
    )
    assert found >= 38


def test_other_problems_of_the_same_kind_are_not_hit(index: OverlapIndex) -> None:
    assert [item.id for item in problems(500, 2) if index.find(shown(item))] == []


def test_a_hit_says_where_and_in_which_form(index: OverlapIndex) -> None:
    item = problems(40, 1)[7]
    for text, form in (
        (f"Ünd → Question: {shown(item)} ← end", "question and answer"),
        (f"Ünd\u200b → {item.question} ← end", "plain text"),
        (f"é <p>{item.question}</p> é", "html"),
    ):
        hit = next(hit for hit in index.find(text) if hit.part == "question")
        assert (hit.item, hit.form) == (7, form)
        assert text[hit.start : hit.end] == item.question.rstrip("?")
    assert {(hit.item, hit.part) for hit in index.find("é " + " ".join(item.question))} == {(7, "question")}


COPIED = {"one word in six": CopyKind.EDITED, "spaced": CopyKind.SPELT_OUT} | dict.fromkeys(
    ("as it is", "question", "upper", "wrapped", "json"), CopyKind.VERBATIM
)


@pytest.mark.parametrize("name", DISGUISES)
def test_a_hit_says_how_it_was_copied(index: OverlapIndex, name: str) -> None:
    hits = index.find(f"Before, “quoted” — naïvely. {DISGUISES[name](problems(40, 1)[7])} After.")  # type: ignore[arg-type]
    assert {hit.way for hit in hits if hit.part == "question"} == {COPIED.get(name, CopyKind.DISGUISED)}


def test_letters_that_the_original_has_are_no_disguise() -> None:
    item = Item("1", "Où est-ce que l’élève a posé le café noir, où était-il à midi précis?", "là", "là")
    index = OverlapIndex([item], Overlap())
    assert {hit.way for hit in index.find(item.question.upper())} == {CopyKind.VERBATIM}
    assert {hit.way for hit in index.find(item.question.replace("s", "ś"))} == {CopyKind.DISGUISED}


def test_positions_of_folded_text() -> None:
    text = "aÉ\u200bﬁ中½z"
    places = fold_positions(text)
    assert len(places) == len(fold(text)) + 1
    assert [text[places[at]] for at, letter in enumerate(fold(text)) if letter == "z"] == ["z"]
    assert fold("plain ASCII, Upper") == "plain ASCII, Upper"


def test_the_control_is_found_or_stops(index: OverlapIndex) -> None:
    assert check_control(index) == (8, 8)
    with pytest.raises(ControlMissed, match="none of the 2 items can be found"):
        check_control(OverlapIndex([Item("a", "2+2?", "4", "4"), Item("b", "3+3?", "6", "6")], Overlap()))
    with pytest.raises(ControlMissed, match="of 8 items planted in a text, 8 were not found"):
        check_control(OverlapIndex(problems(40, 1), Overlap(coverage=2.0, similar=2.0)))


def test_suites_as_published(tmp_path: Path) -> None:
    lines: dict[str, object] = {
        "humaneval.jsonl": {
            "task_id": "H/0",
            "prompt": "def f(x):",
            "canonical_solution": "return x",
            "test": "assert " * 9,
        },
        "hellaswag.jsonl": {"ind": 4, "ctx": "A man is", "endings": ["up", "down"], "label": 1, "split": "val"},
        "arc.jsonl": {
            "id": "q",
            "question": "Why?",
            "choices": {"text": ["a b", "c d"], "label": ["A", "B"]},
            "answerKey": "B",
        },
        "agieval.jsonl": {"passage": "p " * 9, "question": "Why?", "options": ["(A)x y", "(B)z"], "label": "A"},
        "bbh.json": {"canary": "c", "examples": [{"input": "not True is", "target": "False"}]},
    }
    for name, row in lines.items():
        (tmp_path / name).write_text(json.dumps(row))
    (tmp_path / "mmlu.csv").write_text('"Why, then?",one,two,three,four,C\n')
    read = {name: read_suite(Directory(str(tmp_path)), name)[0] for name in [*lines, "mmlu.csv"]}
    assert read["humaneval.jsonl"].fields == {"question": "def f(x):", "test": TEST, "answer": "return x"}
    assert (read["hellaswag.jsonl"].id, read["hellaswag.jsonl"].final) == ("4", "down")
    assert read["arc.jsonl"].final == "c d"
    assert read["agieval.jsonl"].fields["choices"] == "x y\nz"
    assert (read["agieval.jsonl"].final, "passage" in read["agieval.jsonl"].fields) == ("x y", True)
    assert read["bbh.json"].final == "False"
    assert read["mmlu.csv"].fields == {"question": "Why, then?", "choices": "one\ntwo\nthree\nfour", "answer": "three"}
    out = Directory(str(tmp_path / "items"))
    write_items(out, read.values())
    assert read_items(out) == list(read.values())
    (tmp_path / "odd.jsonl").write_text('{"nothing": 1}')
    with pytest.raises(GarbledDocument, match="no question among the fields nothing"):
        read_suite(Directory(str(tmp_path)), "odd.jsonl")
