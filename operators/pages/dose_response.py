"""Write the section on doses of test items: each detector by dose, over seeds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median
from typing import Any

from marin.evaluation.dose import stem_of
from marin.report.section import Column, Curves, Finding, Page, Section, Series, Table, Text
from marin.report.words import signed, tick
from marin.store.files.directory import Directory
from operators.dose_response import DoseResponse

SHORT = {
    "items read against items unread": "read or not",
    "test items against items never published": "test or new",
    "the gap between prompt forms": "between forms",
    "accuracy above the parent's": "accuracy",
}


def section(step: DoseResponse, output: Directory, page: Page) -> Section:
    report = json.loads(output.read_text("report.json"))
    detectors: dict[str, dict[str, Any]] = report["detectors"]
    doses = [str(dose) for dose in report["doses"]]
    places = [float(place) for place in range(len(doses))]
    first, _, rest = report["verdict"].partition(". ")
    return Section(
        title="Dose: how often must a test item be read until it shows?",
        answer=f"{first.removesuffix('.')}.",
        more=[rest] if rest else [],
        finding=Finding(report["finding"]),
        verdict=report["verdict"],
        blocks=[
            Text(
                "Every run continues from the same checkpoint, with a few test items mixed into its data as often as "
                "the dose says, in several seeds. Clean runs are tested on the same items: a flag there is a false "
                "alarm."
            ),
            Curves(
                title="Each detector by dose",
                x="how often each leaked item was read",
                y="standard errors above zero",
                series=[
                    Series(
                        name=_short(name),
                        x=places,
                        y=[median(each["z"][dose]) for dose in doses],
                        low=[min(each["z"][dose]) for dose in doses],
                        high=[max(each["z"][dose]) for dose in doses],
                    )
                    for name, each in detectors.items()
                ],
                ticks=dict(zip(places, ["clean" if dose == "0" else f"{dose} ×" for dose in doses], strict=True)),
                line=report["threshold"],
                note=f"Line: median over seeds; band: from the lowest to the highest. Above the dashed line (more than "
                f"{tick(report['threshold'])}) a detector raises the alarm.",
            ),
            _effects(detectors, doses),
            _counted(report),
        ],
    )


def _short(name: str) -> str:
    """Return a short name for the end of a line."""
    form = name.partition(" (")[2].removesuffix(" prompts)")
    return f"{SHORT.get(stem_of(name), stem_of(name))}{f', {form}' if form else ''}"


def _effects(detectors: dict[str, dict[str, Any]], doses: Sequence[str]) -> Table:
    names = ("detector", "unit", *("clean" if dose == "0" else f"× {dose}" for dose in doses), "sees it from")
    return Table(
        title="How large the effect is",
        columns=[Column(name) for name in names],
        rows=[
            [
                name,
                each["unit"],
                *(signed(median(each["value"][dose]), 3) for dose in doses),
                "—" if each["sees_from"] is None else str(each["sees_from"]),
            ]
            for name, each in detectors.items()
        ],
        note="Medians over seeds. Sees it from: the lowest dose from which every seed is flagged.",
    )


def _counted(report: dict[str, Any]) -> Table:
    return Table(
        title="Test items that the runs read, counted from the order of their data",
        columns=[Column(name) for name in ("dose", "seeds", "items read", "test items", "reads in all")],
        rows=[
            [
                dose,
                str(len(runs)),
                str(round(median(each["items"] for each in runs))),
                str(runs[0]["of"]),
                str(round(median(each["copies"] for each in runs))),
            ]
            for dose, runs in sorted(report["counted"].items(), key=lambda counted: int(counted[0]))
        ],
        note="Medians over seeds. An item that lies across the end of a sequence counts in both sequences.",
    )
