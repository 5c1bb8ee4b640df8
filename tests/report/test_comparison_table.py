"""The comparison as a page shows it."""

import re
from typing import Any

from marin.evaluation.comparison import report
from marin.evaluation.results import DocumentResult, Results
from marin.report.page.drawing.experiment import render
from marin.report.page.drawing.metrics import without_names
from marin.report.page.drawing.model import ExperimentPage
from marin.report.page.drawing.reports import evaluations, headline
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


def test_what_was_trained_on_has_no_difference() -> None:
    made, _ = report({"old": [scored(0)], "new": [scored(5)]}, "old", {}, {})
    made["rows"][0]["differences"]["new"] |= {"contaminated": ["old"], "verdict": "not comparable"}
    assert Reading(page_of(made)).row("bpb/web")[3:] == ["—", "not comparable"]


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


def test_sentences_change_in_whole_names_only() -> None:
    names = ["gsm/olmes/bpb", "gsm/olmes/final_bpb", "mmlu/acc"]
    said = "worse on gsm/olmes/final_bpb (+0.1), my/gsm/olmes/bpb; no difference shown on gsm/olmes/bpb, mmlu/acc"
    assert without_names(said, names) == (
        "worse on gsm final answers (OLMES prompts) (+0.1), my/gsm/olmes/bpb; no difference shown on "
        "gsm (OLMES prompts), mmlu/acc"
    )
