"""A microannealing on its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marin.report.section import Interval, Section, Table
from operators.pages import judge
from tests.evaluation.test_adoption_report import arm, judged
from tests.operators.pages.showing import page_of, section_of
from tests.report.reading import Reading


def shown(folder: Path, **fields: Any) -> Section:
    made, _ = judged({"control": arm(0), "hq": arm(1, tasks=-5, loss=20), "mix": arm(2, tasks=0.05)}, **fields)
    return section_of(judge, made, folder)


def test_each_verdict_stands_first_with_its_reason_and_what_it_needs(tmp_path: Path) -> None:
    page = page_of(shown(tmp_path, margin=0.0015))
    answer = page[page.index('<section class="answer"') :]
    assert answer.index("hq: REJECT. Worse on gsm (OLMES prompts)") < answer.index("mix: INCONCLUSIVE.")
    assert "Loss and tasks disagree: loss is lower on web, tasks are worse." in answer
    assert "To show a difference of 0.0015 4 times in 5 takes" in answer
    row = Reading(page).row("gsm/olmes/bpb")
    assert [cell for cell in row if cell.endswith(("better", "worse", "shown"))] == ["▼ worse", "no difference shown"]


def test_a_guard_says_what_it_may_lose_and_whether_it_did(tmp_path: Path) -> None:
    page = page_of(shown(tmp_path, guard={"bpb/web": 1e-6}))
    assert "lost no more than it may" in Reading(page).row("bpb/web (bits/byte, may lose 1e-06)")


def test_gains_are_drawn_against_the_margin_with_better_on_the_right(tmp_path: Path) -> None:
    made, _ = judged({"control": arm(0), "hq": arm(1, tasks=-5, loss=20)})
    verdicts = section_of(judge, made, tmp_path).picture
    assert isinstance(verdicts, Table)
    assert verdicts.columns[1].band == 0.02
    rows = [row for row in verdicts.rows if isinstance(row, list)]
    gains = [row[1] for row in rows]
    assert [row[0] for row in rows] == ["hq"]
    assert [isinstance(gain, Interval) and gain.value < 0 for gain in gains] == [True]
    assert "closer to the control than the margin of 0.02" in verdicts.note
