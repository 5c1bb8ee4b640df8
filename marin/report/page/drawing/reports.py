"""From the report.json of an operator to what a page shows of it."""

from __future__ import annotations

from typing import Any

from marin.report.page.drawing.model import Better, EvaluationTable, Evidence, MetricRow


def headline(report: dict[str, Any]) -> list[str]:
    """The comparison's answer and what it cannot say. Evidence has its own verdicts, which a page puts below."""
    return [*report["answer"], report["note"]] if report["op"] == "compare" else []


def evaluations(report: dict[str, Any]) -> list[EvaluationTable]:
    """The comparison as a table of metrics by arm, with the verdict on each difference in the notes."""
    if report["op"] != "compare":
        return []
    arms = [arm for arm in report["arms"] if arm != report["baseline"]]
    roles = dict.fromkeys(report["guard"], "guard") | dict.fromkeys(report["primary"], "primary")
    rows = [
        MetricRow(
            name=row["metric"],
            unit=row["unit"],
            better=_better(row),
            values=row["values"],
            digits=4,
            note=_note(row, arms, roles.get(row["metric"], "")),
        )
        for row in sorted(report["rows"], key=lambda row: ("primary", "guard", "").index(roles.get(row["metric"], "")))
    ]
    title = f"Bits per byte and accuracy; differences are to {report['baseline']}"
    return [EvaluationTable(title=title, columns=report["arms"], rows=rows, note=report["note"])]


def _better(row: dict[str, Any]) -> Better:
    """Nobody is best at items that one of them was trained on."""
    if any(each["contaminated"] for each in row["differences"].values()):
        return Better.NEITHER
    return Better.HIGHER if row["higher_is_better"] else Better.LOWER


def _note(row: dict[str, Any], arms: list[str], role: str) -> str:
    """Each arm's verdict, with the difference to the baseline and its 95 % interval."""
    verdicts: list[str] = []
    for arm, difference in row["differences"].items():
        verdict = difference["verdict"]
        if not difference["contaminated"]:
            value, low, high = (f"{difference[key]:+.4f}".replace("-", "−") for key in ("value", "low", "high"))
            verdict += f"; {value} [{low}, {high}]"
        verdicts.append(verdict if len(arms) == 1 else f"{arm}: {verdict}")
    text = "; ".join(verdicts)
    return f"{role}: {text}" if role else text


def evidence(report: dict[str, Any], data: str = "") -> list[Evidence]:
    """The sections that argue contamination and shuffling. data: what the graph says of the training data."""
    if report["op"] == "contamination-evidence":
        from marin.report.page.drawing.contamination_section import contamination_section

        return [contamination_section(report, data)]
    if report["op"] == "shuffle-evidence":
        from marin.report.page.drawing.shuffle_section import shuffle_section  # NumPy, which other pages do without

        return [shuffle_section(report)]
    return []
