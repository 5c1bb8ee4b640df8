"""From the report.json of an operator to what a page shows of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from marin.evaluation.metric_names import in_words
from marin.report.page import verdict_section
from marin.report.page.model import (
    Better,
    Difference,
    EvaluationTable,
    Evidence,
    Interval,
    IntervalPlot,
    MetricRow,
    Plot,
)

JUDGED, GUARDED = "decides", "guarded"

READINGS = "compare-trainings"  # the operator's name
DETECTORS = ("dose-response", "shuffle-power")  # tests of detectors, which answer an experiment by themselves


def headline(report: dict[str, Any]) -> list[str]:
    """The comparison's answer and what it cannot say; what an inspection, readings or a test of detectors found.
    Evidence has its own verdicts, which a page puts below."""
    if report["op"] in DETECTORS:
        first, _, rest = report["verdict"].partition(". ")
        return [f"{first}.", rest] if rest else [first]
    if report["op"] in ("inspect", READINGS):
        return report["headline"]
    if report["op"] == "judge":
        return verdict_section.sentences(report)
    if report["op"] != "compare":
        return []
    return [*report["answer"], report["note"]]


def picture(report: dict[str, Any]) -> Plot | None:
    """What the answer rests on: how far each arm is from the baseline on what it is judged on and what is guarded.

    Turned so that better is to the right everywhere; metrics of the unit that is judged only.
    """
    if report["op"] == "judge":
        return verdict_section.verdict_picture(report)
    if report["op"] in DETECTORS:
        return evidence(report)[0].plots[0]
    if report["op"] != "compare":
        return None
    rows, roles = _in_order(report)
    judged = [row for row in rows if roles.get(row["metric"]) == JUDGED]
    units = {row["unit"] for row in judged}
    if len(units) != 1:
        return None
    unit = min(units)
    groups = {JUDGED: "judged on", GUARDED: "must not get worse"}
    drawn = [
        _interval(row, arm, groups[roles[row["metric"]]], several=len(report["arms"]) > 2)
        for row in rows
        if row["metric"] in roles and row["unit"] == unit
        for arm in row["differences"]
    ]
    others = [arm for arm in report["arms"] if arm != report["baseline"]]
    arm = others[0] if len(others) == 1 else "the arm"
    return IntervalPlot(
        title=f"{arm[0].upper()}{arm[1:]} against {report['baseline']}: differences with their 95 % intervals",
        x_label=f"← worse than {report['baseline']}, better → ({unit})",
        rows=drawn,
        note=f"{report['star']} An interval that leaves 0 shows a difference by itself; the sentences above count how "
        "many were looked at.".strip(),
    )


def _interval(row: dict[str, Any], arm: str, group: str, *, several: bool) -> Interval:
    found, side = row["differences"][arm], 1 if row["higher_is_better"] else -1
    low, high = sorted((side * found["low"], side * found["high"]))
    label = in_words(row["metric"]) + ("*" if found["contaminated"] else "") + (f": {arm}" if several else "")
    return Interval(label=label, value=side * found["value"], low=low, high=high, arm=arm, group=group)


def evaluations(report: dict[str, Any]) -> list[EvaluationTable]:
    """The comparison as a table of metrics by arm, with each difference to the baseline and its interval."""
    if report["op"] == "judge":
        return [verdict_section.verdict_table(report)]
    if report["op"] == READINGS:
        return [_readings(report)]
    if report["op"] != "compare":
        return []
    found, roles = _in_order(report)
    rows = [
        MetricRow(
            name=row["metric"],
            unit=row["unit"],
            better=Better.HIGHER if row["higher_is_better"] else Better.LOWER,
            values=row["values"],
            digits=4,
            role=roles.get(row["metric"], ""),
            differences={arm: _difference(each) for arm, each in row["differences"].items()},
            starred=row["contaminated"],
        )
        for row in found
    ]
    title = f"Every metric by arm; differences are to {report['baseline']}, with 95 % intervals"
    note = " ".join(filter(None, [report["star"], report["note"]]))
    table = EvaluationTable(title=title, columns=report["arms"], rows=rows, baseline=report["baseline"], note=note)
    return [table, *_published(report)]


def _published(report: dict[str, Any]) -> Iterator[EvaluationTable]:
    """What others measured of the models that the comparison names."""
    models: dict[str, dict[str, Any]] = report.get("published", {})
    if not models:
        return
    rows = [
        MetricRow(
            name=task,
            unit="%",
            better=Better.HIGHER,
            values={name: 100 * model["scores"][task] for name, model in models.items() if task in model["scores"]},
            digits=1,
            starred=[name for name, model in models.items() if task in model["read"]],
        )
        for task in dict.fromkeys(task for model in models.values() for task in model["scores"])
    ]
    read = [f"* {name} was trained on {how}." for name, model in models.items() for how in model["read"].values()]
    sources = " and ".join(dict.fromkeys(model["source"] for model in models.values()))
    note = f"Measured with the defaults of lm-evaluation-harness, published at {sources}. {' '.join(read)}".strip()
    yield EvaluationTable(title="What was published of others", columns=list(models), rows=rows, note=note)


def _in_order(report: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Rows, those that decide first; and what the experiment has each metric for."""
    roles = dict.fromkeys(report["guard"], GUARDED) | dict.fromkeys(report["primary"], JUDGED)
    order = (JUDGED, GUARDED, "")
    return sorted(report["rows"], key=lambda row: order.index(roles.get(row["metric"], ""))), roles


def _readings(report: dict[str, Any]) -> EvaluationTable:
    rows = [
        MetricRow(
            name=row["name"],
            values={arm: found["value"] for arm, found in row["values"].items()},
            digits=4,
            differences={
                arm: Difference(
                    found["verdict"],
                    found["value"],
                    *(found["value"] if found[end] is None else found[end] for end in ("low", "high")),
                )
                for arm, found in row["differences"].items()
            },
        )
        for row in report["rows"]
    ]
    return EvaluationTable(
        title=f"While they trained; differences are to {report['baseline']}, with 95 % intervals over steps",
        columns=report["arms"],
        rows=rows,
        baseline=report["baseline"],
        note="One run an arm: how far another seed would lie apart is not in these intervals.",
    )


def _difference(found: dict[str, Any]) -> Difference:
    verdict = re.sub(r" by [\d.]+", "", found["verdict"])  # which stands beside it
    return Difference(verdict, found["value"], found["low"], found["high"])


def evidence(report: dict[str, Any], data: str = "") -> list[Evidence]:
    """The sections that argue contamination and shuffling, and how well both are seen. data: what the graph says of the
    training data."""
    if report["op"] == "contamination-evidence":
        from marin.report.page.contamination_section import contamination_section

        return [contamination_section(report, data)]
    if report["op"] == "shuffle-evidence":
        from marin.report.page.shuffle_section import shuffle_section  # NumPy, which other pages do without

        return [shuffle_section(report)]
    if report["op"] == "dose-response":
        from marin.report.page.dose_section import dose_section

        return [dose_section(report)]
    if report["op"] == "shuffle-power":
        from marin.report.page.shuffle_power_section import shuffle_power_section

        return [shuffle_power_section(report)]
    return []
