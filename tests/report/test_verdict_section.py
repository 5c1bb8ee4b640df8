"""A microannealing as a page shows it."""

from __future__ import annotations

from typing import Any

from marin.report.page.model import ExperimentPage
from marin.report.page.render import render
from marin.report.page.reports import evaluations, headline, picture
from tests.evaluation.test_adoption_report import arm, judged
from tests.report.reading import Reading


def page_of(**fields: Any) -> str:
    made, _ = judged({"control": arm(0), "hq": arm(1, tasks=-5, loss=20), "mix": arm(2, tasks=0.05)}, **fields)
    report = {**made, "op": "judge"}
    return render(
        ExperimentPage(
            title="t", question="", scale="full", created="", arms=["hq", "mix"], headline=headline(report),
            picture=picture(report), evaluations=evaluations(report),
        )
    )  # fmt: skip


def test_each_verdict_stands_first_with_its_reason_and_what_it_needs():
    page = page_of(margin=0.0015)
    answer = page[page.index('<section class="answer"') :]
    assert answer.index("hq: REJECT. Worse on gsm (OLMES prompts)") < answer.index("mix: INCONCLUSIVE.")
    assert "Loss and tasks disagree: loss is lower on web, tasks are worse." in answer
    assert "To show a difference of 0.0015 4 times in 5 it needs" in answer
    row = Reading(page).row("gsm/olmes/bpb")
    assert [cell for cell in row if cell in ("better", "worse", "no difference shown")] == [
        "worse",
        "no difference shown",
    ]


def test_a_guard_says_what_it_may_lose_and_whether_it_did():
    page = page_of(guard={"bpb/web": 1e-6})
    assert "lost no more than it may" in Reading(page).row("bpb/web")
    assert "may lose 1e-06" in page


def test_the_picture_has_the_margin_and_better_on_the_right():
    made, _ = judged({"control": arm(0), "hq": arm(1, tasks=-5, loss=20)})
    drawn = picture({**made, "op": "judge"})
    assert drawn is not None
    assert drawn.band == 0.02
    assert [(row.label, row.value > 0) for row in drawn.rows] == [("hq: reject", False), ("web text: hq", True)]
    assert "closer to the control than the margin of 0.02" in page_of()
