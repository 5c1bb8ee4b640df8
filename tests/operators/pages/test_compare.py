"""A comparison on its page."""

import re
from pathlib import Path
from typing import Any

from marin.evaluation.comparison import report
from marin.evaluation.results import DocumentResult, Results
from operators.pages import compare
from tests.operators.pages.showing import page_of, section_of
from tests.report.reading import Reading


def scored(less: float) -> Results:
    documents = [DocumentResult("web", str(n), 1000.0 + n - less, 500 + n, 990.0, 499) for n in range(12)]
    return Results({}, {"web": documents})


def compared(*runs: int, **fields: Any) -> dict[str, Any]:
    """old against new, of one run each or as many as are said."""
    old, new = ([scored(less + number / 8) for number in range(runs[0] if runs else 1)] for less in (0, 5))
    return report({"old": old, "new": new}, "old", {}, fields.pop("read", {}), **fields)[0]


def test_a_difference_stands_with_its_interval_and_what_it_means(tmp_path: Path) -> None:
    row = Reading(page_of(section_of(compare, compared(3), tmp_path))).row("bpb/web")
    assert re.fullmatch(r"−0\.00\d+ \[−0\.\d{4}, −0\.\d{4}\]", row[3])
    assert row[4] == "▲ better"
    row = Reading(page := page_of(section_of(compare, compared(), tmp_path))).row("bpb/web")
    assert row[4] == "▲ better in these runs", "not conclusive with one seed"
    assert "told tone-good" not in page


def test_the_answer_is_one_sentence_with_an_interval_and_no_name_of_a_metric_as_a_path(tmp_path: Path) -> None:
    judged = {"primary": ("bpb/web",), "guard": ("bpb/",)}
    told = section_of(compare, compared(3, **judged), tmp_path).answer
    interval = r"\[−0\.\d{3}, −0\.\d{3}\], where less is better\."
    assert re.fullmatch(r"On web text new is 0\.\d{3} bits/byte below old " + interval, told)
    one = section_of(compare, compared(**judged), tmp_path)
    assert one.answer.startswith("Not conclusive with one seed an arm: on web text new is 0.")
    page = Reading(page_of(one)).text
    assert page.index("Not conclusive") < page.index("is better")
    assert any("One seed an arm" in doubt for doubt in one.doubts)
    assert any("a second and a third seed" in line for line in one.next)
    assert any("compare old new" in line for line in one.next), "baseline first, as the answer says it"
    headings = [" ".join(cells) for cells in Reading(page_of(one)).rows if len(cells) == 1]
    assert headings == ["Primary metrics", "Primary metrics"], "in the picture, and in the table"


def test_what_was_trained_on_stands_with_a_star_and_wins_no_row(tmp_path: Path) -> None:
    made = compared(3, read={"old": {"web": "its test items"}})
    made["rows"][0]["contaminated"] = made["rows"][0]["differences"]["new"]["contaminated"] = ["old"]
    page = page_of(section_of(compare, made, tmp_path))
    row = Reading(page).row("bpb/web")
    assert [cell.endswith("*") for cell in row[1:3]] == [False, True]  # new, old
    assert row[3].startswith("−0.0")
    assert row[4] == "▲ better*"
    assert 'class="number bold"' not in page
    assert "* At web, old was trained on its test items" in page


def test_published_models_have_a_table_of_their_own(tmp_path: Path) -> None:
    model = {"source": "https://example.org", "scores": {"gsm8k": 0.5471, "mmlu": 0.7}, "read": {"gsm8k": "its items"}}
    made = {**compared(), "published": {"Bison": model, "Other": {**model, "read": {}}}}
    reading = Reading(page_of(section_of(compare, made, tmp_path)))
    assert reading.row("gsm8k")[1:3] == ["54.7*", "54.7"]
    assert "* Bison was trained on its items." in reading.text
