"""The section on contamination, from its report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from marin.report.page.drawing import units
from marin.report.page.drawing.model import Estimate, Evidence, Finding, Interval, IntervalPlot, Table

SUMMARY = {
    "gold bits/byte": "gold_bits_per_byte",
    "final answer bits/byte": "final_bits_per_byte",
    "bits of “<<”": "opening_bits",
    "accuracy": "accuracy",
}
EXPLAINED = (
    "Members are the test items; reference items come from the same source and were never trained on. A member gap "
    "is how many fewer bits per byte the members' solutions need. “Beyond” another checkpoint: the same number minus "
    "that checkpoint's, item by item."
)


def contamination_section(report: dict[str, Any], data: str = "") -> Evidence:
    """Verdict, signs by measure with the arms side by side, and all numbers. data: a sentence on the training data."""
    signs = [(arm, one) for arm, held in report["arms"].items() for one in (*held["findings"], *held["contrast"])]
    threshold = units.tick(report["threshold"])
    return Evidence(
        title="Contamination: were the test items trained on?",
        finding=Finding(report["finding"]),
        verdict=report["verdict"],
        paragraphs=[part for part in (data, EXPLAINED) if part],
        plots=[_plot(signs, sign, unit, threshold) for sign, unit in dict.fromkeys(map(_kind, signs))],
        tables=[*_exposure(report), _summaries(report), _all(signs, threshold)],
    )


def _kind(sign: tuple[str, dict[str, Any]]) -> tuple[str, str]:
    return sign[1]["sign"], sign[1]["unit"]


def _plot(signs: Sequence[tuple[str, dict[str, Any]]], sign: str, unit: str, threshold: str) -> IntervalPlot:
    held = [(arm, one) for arm, one in signs if (one["sign"], one["unit"]) == (sign, unit)]
    flagged = sum(one["flagged"] for _, one in held)
    groups = list(dict.fromkeys(_parts(one)[1] for _, one in held))
    names = list(dict.fromkeys(_short(one) for _, one in held))
    held.sort(key=lambda pair: (groups.index(_parts(pair[1])[1]), names.index(_short(pair[1]))))
    return IntervalPlot(
        title=f"{sign[0].upper()}{sign[1:]}: every sign, 95 % intervals over items",
        x_label=f"{unit}; no effect is 0",
        rows=[
            Interval(
                label=f"{_short(one)}: {arm}",
                estimate=Estimate(value=one["value"], low=one["low"], high=one["high"]),
                arm=arm,
                group=_group(_parts(one)[1]) if len(groups) > 1 else "",
            )
            for arm, one in held
        ],
        note=f"{flagged} of {len(held)} are flagged, which takes |z| > {threshold}.",
    )


def _group(form: str) -> str:
    return f"{form} format" if form else "across formats"


def _parts(one: dict[str, Any]) -> tuple[str, str]:
    """A sign's name without its prompt format, and the format; "" if it is about no single one."""
    name, comma, form = str(one["name"]).rpartition(", ")
    if not comma or not form.endswith(" format"):
        return units.minus(str(one["name"])), ""
    return units.minus(name), form.removesuffix(" format")


def _short(one: dict[str, Any]) -> str:
    """For a plot: without what stands in parentheses."""
    return re.sub(r" \([^)]*\)", "", _parts(one)[0])


def _all(signs: Sequence[tuple[str, dict[str, Any]]], threshold: str) -> Table:
    rows: list[list[str]] = []
    for arm, one in signs:
        name, form = _parts(one)
        half = (one["high"] - one["low"]) / 2
        z = "beyond measure" if one["z"] is None else units.signed(one["z"], 1)
        flagged = "flagged" if one["flagged"] else ""
        estimate = units.signed(one["value"], 3)
        rows.append(
            [arm, one["sign"], name, form, estimate, f"{half:.3f}", one["unit"], z, f"{one['detectable']:.3f}", flagged]
        )
    return Table(
        title="Every sign",
        columns=["arm", "sign of", "what", "format", "estimate", "±", "unit", "z", "flagged from", "verdict"],
        rows=rows,
        note=f"±: half of the 95 % interval over items. Flagged: |z| > {threshold}. Flagged from: the size of effect "
        "that would be flagged 4 times in 5.",
    )


def _summaries(report: dict[str, Any]) -> Table:
    tables = [("parent", report["parent"]), *((arm, held["table"]) for arm, held in report["arms"].items())]
    return Table(
        title="Members (test items) and reference items, by checkpoint and prompt format",
        columns=["checkpoint", "items", "format", *SUMMARY],
        rows=[
            [
                name,
                *items.split("/", 1),
                *("" if (held := row.get(key)) is None else f"{held:.3f}" for key in SUMMARY.values()),
            ]
            for name, table in tables
            for items, row in table.items()
        ],
    )


def _exposure(report: dict[str, Any]) -> list[Table]:
    exposure: dict[str, Any] = report.get("exposure", {})
    if not exposure:
        return []
    return [
        Table(
            title="What each arm really read of the test items",
            columns=["arm", "items read", "of", "times in all", "counted from"],
            rows=[
                [arm, str(held["items"]), str(held["of"]), str(held["copies"]), str(held["how"])]
                for arm, held in exposure.items()
            ],
        )
    ]
