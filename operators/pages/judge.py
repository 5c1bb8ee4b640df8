"""Write the section on a microannealing: its verdicts, and every metric by arm against the control."""

from __future__ import annotations

import json
from statistics import fmean
from typing import Any

from marin.evaluation.metric_names import in_words
from marin.report.section import Cell, Column, Heading, Interval, Page, Row, Section, Table, Tag, Tone
from marin.report.words import fixed
from marin.store.files.directory import Directory
from operators.judge import Judge

GROUPS = {
    "tasks": "Primary metrics",
    "guards": "Guards: may lose no more than their row says",
    "others": "Other metrics",
    "loss": "Loss: decides only as a guard",
}
TONES = {"ADOPT": Tone.GOOD, "REJECT": Tone.BAD, "EQUIVALENT": Tone.PLAIN, "INCONCLUSIVE": Tone.OPEN}
DIGITS = 4

type Found = dict[str, Any]


def section(step: Judge, output: Directory, page: Page) -> Section:
    report = json.loads(output.read_text("report.json"))
    found: dict[str, dict[str, Any]] = report["candidates"]
    first, *more = [each["sentence"] for each in found.values()]
    needs = [each["needs"]["sentence"] for each in found.values() if each["needs"]]
    return Section(
        title="Verdict",
        answer=first,
        more=more,
        doubts=[
            *(each["disagreement"] for each in found.values() if each["disagreement"]),
            *([report["note"]] if report["seeds"] == 1 else []),
        ],
        next=needs,
        picture=_verdicts(report),
        blocks=[_metrics(report)],
    )


def _verdicts(report: dict[str, Any]) -> Table:
    """Return a table of the gains on deciding metrics, against the margin."""
    control = report["control"]
    rows: list[Row] = []
    units: set[str] = set()
    for index, metric in enumerate(report["primary"]):
        rows.append(Heading(in_words(metric)))
        for arm, found in report["candidates"].items():
            task = found["tasks"][index]
            units.add(task["unit"])
            rows.append([arm, _gain(task, arm), _verdict(found["verdict"])])
    unit = f" ({min(units)})" if len(units) == 1 else ""
    return Table(
        title=f"Candidates against the {control}",
        columns=[
            Column("candidate"),
            Column(f"gain over the {control}{unit}; better is to the right", band=report["margin"]),
            Column("verdict"),
        ],
        rows=rows,
        note=f"Shaded: closer to the {control} than the margin of {report['margin']:g}. A positive gain is better than "
        "the control, on every metric. The intervals' level is corrected for the number of tests.",
    )


def _gain(row: Found, arm: str) -> Interval:
    return Interval(value=row["gain"], low=row["low"], high=row["high"], arm=arm, scale=row["unit"])


def _verdict(text: str) -> Tag:
    return Tag(text, next((tone for word, tone in TONES.items() if text.upper().startswith(word)), Tone.PLAIN))


def _metrics(report: dict[str, Any]) -> Table:
    """Return a table of means over seeds, with the raw difference to the control and its interval."""
    control, arms = report["control"], list(report["candidates"])
    rows: list[Row] = []
    for part, title in GROUPS.items():
        by_arm: dict[str, dict[str, Found]] = {
            arm: {row["metric"]: row for row in found[part]} for arm, found in report["candidates"].items()
        }
        names = [name for name in report["values"] if any(name in of_arm for of_arm in by_arm.values())]
        rows += [Heading(title)] if names else []
        for name in names:
            unit = next(of_arm[name]["unit"] for of_arm in by_arm.values() if name in of_arm)
            means = (fixed(fmean(report["values"][name][arm]), DIGITS) for arm in (control, *arms))
            rows.append([_label(name, unit, report, part), *means, *_differences(name, by_arm)])
    return Table(
        title=f"Every metric by arm, means over {report['seeds']} seeds; differences are to the {control}",
        columns=[
            Column("metric"),
            *(Column(arm, arm=arm if arm != control else "") for arm in (control, *arms)),
            *(
                column
                for arm in arms
                for column in (Column(f"{arm} − {control}; better is to the right", digits=DIGITS), Column(""))
            ),
        ],
        rows=rows,
        note=f"{report['note']} {report['noise_floor']}",
    )


def _label(name: str, unit: str, report: dict[str, Any], part: str) -> str:
    may_lose = f", may lose {report['guard'][name]:g}" if part == "guards" and name in report["guard"] else ""
    return f"{name} ({unit}{may_lose})"


def _differences(name: str, by_arm: dict[str, dict[str, Found]]) -> list[Cell]:
    cells: list[Cell] = []
    for arm, rows in by_arm.items():
        row = rows.get(name)
        if row is None:
            cells += ["—", ""]
            continue
        lower = row["unit"] == "bits/byte"
        low, high = (-row["high"], -row["low"]) if lower else (row["low"], row["high"])
        value = -row["gain"] if lower else row["gain"]
        interval = Interval(value=value, low=low, high=high, arm=arm, scale=row["unit"], mirrored=lower)
        cells += [interval, _told(row)]
    return cells


def _told(row: Found) -> Tag:
    if row.get("at_chance"):
        return Tag("no arm above chance", Tone.OPEN)
    if "kept" in row:
        if row["kept"]:
            return Tag("lost no more than it may", Tone.GOOD)
        return Tag("lost more than it may", Tone.BAD) if row["broken"] else Tag("unclear", Tone.OPEN)
    if not row["shown"]:
        return Tag("within the margin" if row.get("within_margin") else "no difference shown")
    return Tag("▲ better", Tone.GOOD) if row["gain"] > 0 else Tag("▼ worse", Tone.BAD)
