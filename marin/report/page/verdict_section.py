"""What a page shows of a microannealing, from its report: verdicts, their picture, and every metric by arm."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from marin.evaluation.metric_names import in_words
from marin.report.page.model import Better, Difference, EvaluationTable, Interval, IntervalPlot, MetricRow

LOSS = "bpb/"


def sentences(report: dict[str, Any]) -> list[str]:
    """For each candidate the verdict, what it still needs and where loss says something else; then the note."""
    told = [
        " ".join(
            filter(None, [found["sentence"], found["needs"] and found["needs"]["sentence"], found["disagreement"]])
        )
        for found in report["candidates"].values()
    ]
    return [
        *told,
        f"{report['noise_floor']} {report['note']} A gain is more than the control has, whatever the metric.",
    ]


def verdict_picture(report: dict[str, Any]) -> IntervalPlot:
    """Gains on what decides, and loss where it has the same unit, against the margin."""
    rows: list[Interval] = []
    units: set[str] = set()
    several = len(report["primary"]) > 1
    for index, metric in enumerate(report["primary"]):
        for arm, found in report["candidates"].items():
            task = found["tasks"][index]
            units.add(task["unit"])
            label = f"{arm}: {found['verdict']}" if not several else arm
            rows.append(_row(label, task, arm, in_words(metric)))
    # One more group for each domain would hide what decides.
    for arm, found in report["candidates"].items() if len(units) == 1 else ():
        for each in found["loss"]:
            if each["unit"] in units:
                rows.append(_row(f"{in_words(each['metric'])}: {arm}", each, arm, "loss, which decides nothing"))
    unit = f" ({min(units)})" if len(units) == 1 else ""
    return IntervalPlot(
        title=f"Candidates against the {report['control']}: gains with their intervals",
        x_label=f"← worse than the {report['control']}, better →{unit}",
        rows=rows,
        band=report["margin"],
        note=f"Shaded: closer to the {report['control']} than the margin of {report['margin']:g}. Intervals of what "
        "decides are at the level that many tests leave to each; those of loss at 95 % for each domain.",
    )


def verdict_table(report: dict[str, Any]) -> EvaluationTable:
    """Means over seeds, with the raw difference to the control and its interval."""
    arms = [report["control"], *report["candidates"]]
    shown = {
        arm: {row["metric"]: row for part in ("tasks", "others", "loss", "guards") for row in found[part]}
        for arm, found in report["candidates"].items()
    }
    names = sorted(report["values"], key=lambda name: (name not in report["primary"], name.startswith(LOSS)))
    return EvaluationTable(
        title=f"Every metric by arm, means over {report['seeds']} seeds; differences are to the {report['control']}",
        columns=arms,
        rows=[_metric(name, report, {arm: rows[name] for arm, rows in shown.items()}) for name in names],
        baseline=report["control"],
        note=report["note"],
    )


def _metric(name: str, report: dict[str, Any], rows: dict[str, dict[str, Any]]) -> MetricRow:
    unit = next(iter(rows.values()))["unit"]
    side = -1 if unit == "bits/byte" else 1
    differences = {
        arm: Difference(_told(row), side * row["gain"], *sorted((side * row["low"], side * row["high"])))
        for arm, row in rows.items()
    }
    return MetricRow(
        name=name,
        unit=unit,
        better=Better.LOWER if side < 0 else Better.HIGHER,
        values={arm: fmean(values) for arm, values in report["values"][name].items()},
        digits=4,
        role=_role(name, report),
        differences=differences,
    )


def _role(name: str, report: dict[str, Any]) -> str:
    if name in report["primary"]:
        return "decides"
    if name in report["guard"]:
        return f"may lose {report['guard'][name]:g}"
    return "loss" if name.startswith(LOSS) else ""


def _told(row: dict[str, Any]) -> str:
    if "kept" in row:
        return "lost no more than it may" if row["kept"] else "lost more than it may" if row["broken"] else "unclear"
    if not row["shown"]:
        return "within the margin" if row.get("within_margin") else "no difference shown"
    return "better" if row["gain"] > 0 else "worse"


def _row(label: str, found: dict[str, Any], arm: str, group: str) -> Interval:
    return Interval(label=label, value=found["gain"], low=found["low"], high=found["high"], arm=arm, group=group)
