"""The section on contamination, from its report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from marin.report.page import units
from marin.report.page.model import Evidence, Finding, Interval, IntervalPlot, Table

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

type Sign = tuple[str, dict[str, Any]]  # of an arm


def contamination_section(report: dict[str, Any], data: str = "") -> Evidence:
    """Verdict, signs by measure with the arms side by side, and all numbers. data: a sentence on the training data."""
    signs = [(arm, sign) for arm, one in report["arms"].items() for sign in (*one["findings"], *one["contrast"])]
    threshold = units.tick(report["threshold"])
    measures = dict.fromkeys((sign["sign"], sign["unit"]) for _, sign in signs)
    return Evidence(
        title="Contamination: were the test items trained on?",
        finding=Finding(report["finding"]),
        verdict=report["verdict"],
        paragraphs=[part for part in (data, EXPLAINED) if part],
        plots=[_plot(signs, measure, unit, threshold) for measure, unit in measures],
        tables=[*_exposure(report), _summaries(report), _all(signs, threshold)],
    )


def _plot(signs: Sequence[Sign], measure: str, unit: str, threshold: str) -> IntervalPlot:
    shown = [(arm, sign) for arm, sign in signs if (sign["sign"], sign["unit"]) == (measure, unit)]
    flagged = sum(sign["flagged"] for _, sign in shown)
    formats = list(dict.fromkeys(_parts(sign)[1] for _, sign in shown))
    names = list(dict.fromkeys(_short(sign) for _, sign in shown))
    shown.sort(key=lambda pair: (formats.index(_parts(pair[1])[1]), names.index(_short(pair[1]))))
    rows: list[Interval] = []
    for arm, sign in shown:
        form = _parts(sign)[1]
        group = (f"{form} format" if form else "across formats") if len(formats) > 1 else ""
        label = f"{_short(sign)}: {arm}"
        rows.append(
            Interval(label=label, value=sign["value"], low=sign["low"], high=sign["high"], arm=arm, group=group)
        )
    return IntervalPlot(
        title=f"{measure[0].upper()}{measure[1:]}: every sign, 95 % intervals over items",
        x_label=f"{unit}; no effect is 0",
        rows=rows,
        note=f"{flagged} of {len(shown)} are flagged, which takes more than {threshold} standard errors from zero.",
    )


def _parts(sign: dict[str, Any]) -> tuple[str, str]:
    """A sign's name without its prompt format, and the format; "" if it is about no single one."""
    name, comma, form = str(sign["name"]).rpartition(", ")
    if not comma or not form.endswith(" format"):
        return units.minus(str(sign["name"])), ""
    return units.minus(name), form.removesuffix(" format")


def _short(sign: dict[str, Any]) -> str:
    """For a plot: without what stands in parentheses."""
    return re.sub(r" \([^)]*\)", "", _parts(sign)[0])


def _all(signs: Sequence[Sign], threshold: str) -> Table:
    def row(arm: str, sign: dict[str, Any]) -> list[str]:
        name, form = _parts(sign)
        z = "beyond measure" if sign["z"] is None else units.signed(sign["z"], 1)
        estimate, half = units.signed(sign["value"], 3), f"{(sign['high'] - sign['low']) / 2:.3f}"
        verdict = "flagged" if sign["flagged"] else ""
        return [arm, sign["sign"], name, form, estimate, half, sign["unit"], z, f"{sign['detectable']:.3f}", verdict]

    return Table(
        title="Every sign",
        columns=[
            "arm",
            "sign of",
            "what",
            "format",
            "estimate",
            "±",
            "unit",
            "÷ its error",
            "flagged from",
            "verdict",
        ],
        rows=[row(arm, sign) for arm, sign in signs],
        note=f"±: half of the 95 % interval over items. ÷ its error: its standard error; flagged beyond {threshold}. "
        "Flagged from: the size of effect that would be flagged 4 times in 5.",
    )


def _summaries(report: dict[str, Any]) -> Table:
    tables = [("parent", report["parent"]), *((arm, one["table"]) for arm, one in report["arms"].items())]
    rows: list[list[str]] = []
    for name, table in tables:
        for items, row in table.items():
            values = (row.get(key) for key in SUMMARY.values())
            rows.append([name, *items.split("/", 1), *("" if value is None else f"{value:.3f}" for value in values)])
    return Table(
        title="Members (test items) and reference items, by checkpoint and prompt format",
        columns=["checkpoint", "items", "format", *SUMMARY],
        rows=rows,
    )


def _exposure(report: dict[str, Any]) -> Iterator[Table]:
    exposure: dict[str, Any] = report.get("exposure", {})
    if exposure:
        yield Table(
            title="What each arm really read of the test items",
            columns=["arm", "items read", "of", "times in all", "counted from"],
            rows=[[arm, *(str(one[key]) for key in ("items", "of", "copies", "how"))] for arm, one in exposure.items()],
        )
