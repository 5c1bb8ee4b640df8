"""From the report.json of an operator to what a page shows of it."""

from __future__ import annotations

import re
from typing import Any

from marin.report.page.drawing import metrics
from marin.report.page.drawing.model import Better, Difference, EvaluationTable, Evidence, MetricRow


def headline(report: dict[str, Any]) -> list[str]:
    """The comparison's answer and what it cannot say. Evidence has its own verdicts, which a page puts below."""
    if report["op"] != "compare":
        return []
    names = [row["metric"] for row in report["rows"]]
    return [*(metrics.without_names(sentence, names) for sentence in report["answer"]), report["note"]]


def evaluations(report: dict[str, Any]) -> list[EvaluationTable]:
    """The comparison as a table of metrics by arm, with each difference to the baseline and its interval."""
    if report["op"] != "compare":
        return []
    roles = dict.fromkeys(report["guard"], "guarded") | dict.fromkeys(report["primary"], "decides")
    order = ("decides", "guarded", "")
    rows = [
        MetricRow(
            name=row["metric"],
            unit=row["unit"],
            better=_better(row),
            values=row["values"],
            digits=4,
            role=roles.get(row["metric"], ""),
            differences={arm: _difference(each) for arm, each in row["differences"].items()},
        )
        for row in sorted(report["rows"], key=lambda row: order.index(roles.get(row["metric"], "")))
    ]
    title = f"Every metric by arm; differences are to {report['baseline']}, with 95 % intervals"
    return [
        EvaluationTable(
            title=title, columns=report["arms"], rows=rows, baseline=report["baseline"], note=report["note"]
        )
    ]


def _better(row: dict[str, Any]) -> Better:
    """Nobody is best at items that one of them was trained on."""
    if any(each["contaminated"] for each in row["differences"].values()):
        return Better.NEITHER
    return Better.HIGHER if row["higher_is_better"] else Better.LOWER


def _difference(found: dict[str, Any]) -> Difference:
    if found["contaminated"]:
        return Difference(found["verdict"])
    verdict = re.sub(r" by [\d.]+", "", found["verdict"])  # which stands beside it
    return Difference(verdict, found["value"], found["low"], found["high"])


def evidence(report: dict[str, Any], data: str = "") -> list[Evidence]:
    """The sections that argue contamination and shuffling. data: what the graph says of the training data."""
    if report["op"] == "contamination-evidence":
        from marin.report.page.drawing.contamination_section import contamination_section

        return [contamination_section(report, data)]
    if report["op"] == "shuffle-evidence":
        from marin.report.page.drawing.shuffle_section import shuffle_section  # NumPy, which other pages do without

        return [shuffle_section(report)]
    return []
