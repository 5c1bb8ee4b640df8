"""The comparison as a page shows it."""

import re

from marin.evaluation.comparison import report
from marin.evaluation.results import DocumentResult, Results
from marin.report.page.drawing.reports import evaluations


def scored(less: float) -> Results:
    documents = [DocumentResult("web", str(n), 1000.0 + n - less, 500 + n, 990.0, 499) for n in range(12)]
    return Results({}, {"web": documents})


def test_a_difference_stands_with_its_interval() -> None:
    made, _ = report({"old": [scored(0)], "new": [scored(5)]}, "old", {}, {})
    [table] = evaluations({**made, "op": "compare"})
    assert re.search(r"better by 0\.00\d+ on these items; −0\.00\d+ \[−0\.\d{4}, −0\.\d{4}\]$", table.rows[0].note)
