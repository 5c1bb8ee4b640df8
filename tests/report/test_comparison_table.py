"""The comparison as a page shows it."""

import re
from typing import Any

from marin.evaluation.comparison import report
from marin.evaluation.results import DocumentResult, Results
from marin.report.page.model import ExperimentPage
from marin.report.page.render import render
from marin.report.page.reports import evaluations, headline, picture
from tests.report.reading import Reading


def scored(less: float) -> Results:
    documents = [DocumentResult("web", str(n), 1000.0 + n - less, 500 + n, 990.0, 499) for n in range(12)]
    return Results({}, {"web": documents})


def page_of(made: dict[str, Any]) -> str:
    report = {**made, "op": "compare"}
    tables, first = evaluations(report), headline(report)
    return render(ExperimentPage(title="t", question="", scale="full", created="", headline=first, evaluations=tables))


def test_a_difference_stands_with_its_interval_and_verdict_in_the_table() -> None:
    made, _ = report({"old": [scored(0)], "new": [scored(5)]}, "old", {}, {})
    row = Reading(page_of(made)).row("bpb/web")
    assert re.fullmatch(r"−0\.00\d+ \[−0\.\d{4}, −0\.\d{4}\]", row[3])
    assert row[4] == "better on these items"


def test_what_was_trained_on_bears_a_star_and_wins_no_row() -> None:
    made, _ = report({"old": [scored(0)], "new": [scored(5)]}, "old", {}, {"old": {"web": "its test items"}})
    made["rows"][0]["contaminated"] = ["old"]
    page = page_of(made)
    row = Reading(page).row("bpb/web")
    assert [cell.endswith("*") for cell in row[1:3]] == [False, True]  # new, old
    assert 'class="number best"' not in page
    assert "* At web, old was trained on its test items" in page


def test_published_models_have_a_table_of_their_own() -> None:
    made, _ = report({"old": [scored(0)], "new": [scored(5)]}, "old", {}, {})
    model = {"source": "https://example.org", "scores": {"gsm8k": 0.5471, "mmlu": 0.7}, "read": {"gsm8k": "its items"}}
    reading = Reading(page_of({**made, "published": {"Bison": model, "Other": {**model, "read": {}}}}))
    assert reading.row("gsm8k")[1:3] == ["54.7*", "54.7"]
    assert "* Bison was trained on its items." in reading.text


def test_the_picture_turns_better_to_the_right() -> None:
    made, _ = report({"old": [scored(0)], "new": [scored(5)]}, "old", {}, {}, primary=("bpb/web",))
    drawn = picture({**made, "op": "compare"})
    assert drawn is not None
    assert [(row.label, row.group, row.value > 0) for row in drawn.rows] == [("web text", "judged on", True)]
    undecided, _ = report({"old": [scored(0)], "new": [scored(5)]}, "old", {}, {})
    assert picture({**undecided, "op": "compare"}) is None


def test_a_headline_says_metrics_in_words_and_the_table_explains_their_names() -> None:
    made, _ = report({"old": [scored(0)], "new": [scored(5)]}, "old", {}, {}, primary=("bpb/web",), guard=("bpb/",))
    page = page_of(made)
    first = re.search(r'<section class="answer".*?</section>', page, re.DOTALL)
    assert first is not None
    assert "web text (−0.0" in first[0]
    assert "bpb" not in first[0]
    assert "Guards" not in first[0]
    assert re.search(r'<abbr title="[^"]*bits per byte: how many bits[^"]*">bpb/<wbr>web</abbr>', page)
    assert re.search(r"<dt>bpb</dt> <dd>bits per byte: ", page)
