"""From the report.json of an operator to what a page shows of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marin.pages.model import (
    BarPlot,
    Better,
    Estimate,
    EvaluationTable,
    Evidence,
    Finding,
    Interval,
    IntervalPlot,
    MetricRow,
    Series,
    SeriesPlot,
    Table,
)

# What each measure of marin.health.batches asks, in one line; the report carries the definitions.
SHOWN_MEASURES = 2


def headline(report: dict[str, Any]) -> list[str]:
    """The comparison's lines: it repeats what its evidence found. Other reports have their own sections."""
    return list(report["headline"]) if report["op"] == "compare" else []


def evaluations(report: dict[str, Any]) -> list[EvaluationTable]:
    """The comparison as a table of metrics by arm, with intervals of the differences in the notes."""
    if report["op"] != "compare":
        return []
    rows = [
        MetricRow(
            name=row["metric"],
            unit=row["unit"],
            better=Better.HIGHER if row["higher_is_better"] else Better.LOWER,
            values={arm: Estimate(value=value) for arm, value in row["values"].items()},
            digits=4,
            note="; ".join(f"{arm}: {held['verdict']}" for arm, held in row["differences"].items()),
        )
        for row in report["rows"]
    ]
    title = f"Bits per byte and accuracy; differences are to {report['baseline']}"
    return [EvaluationTable(title=title, columns=report["arms"], rows=rows, note=report["note"])]


def evidence(report: dict[str, Any]) -> list[Evidence]:
    """The sections that argue contamination and shuffling."""
    if report["op"] == "contamination-evidence":
        return [_contamination(report)]
    if report["op"] == "shuffle-evidence":
        return [_shuffle(report)]
    return []


def _contamination(report: dict[str, Any]) -> Evidence:
    arms: dict[str, Any] = report["arms"]
    findings = [(arm, found) for arm, held in arms.items() for found in (*held["findings"], *held["contrast"])]
    flagged = [found for arm, found in findings if found["flagged"] and arm != report["clean"]]
    told = any(found["sign"] == "contamination" for found in flagged)
    plots = [
        IntervalPlot(
            title=f"{sign[0].upper()}{sign[1:]}: each sign, 95 % intervals over items",
            x_label=unit,
            rows=[
                Interval(
                    label=found["name"],
                    estimate=Estimate(value=found["value"], low=found["low"], high=found["high"]),
                    arm=arm,
                    group=arm,
                )
                for arm, found in findings
                if found["sign"] == sign and found["unit"] == unit
            ],
            note=f"A sign is flagged beyond |z| = {report['threshold']:g}.",
        )
        for sign, unit in dict.fromkeys((found["sign"], found["unit"]) for _, found in findings)
    ]
    tables = [
        Table(
            title="Members (test items) and reference items, by checkpoint and prompt format",
            columns=["checkpoint", "items", "gold bits/byte", "final answer bits/byte", "bits of “<<”", "accuracy"],
            rows=[
                [name, items, *(_number(row.get(key)) for key in _SUMMARY_KEYS)]
                for name, table in [("parent", report["parent"]), *((arm, held["table"]) for arm, held in arms.items())]
                for items, row in table.items()
            ],
        ),
        Table(
            title="Every sign",
            columns=["arm", "sign", "finding"],
            rows=[[arm, found["sign"], found["wording"]] for arm, found in findings],
        ),
    ]
    verdict = "; ".join(report["headline"][:2]) if report["headline"] else "nothing was measured"
    return Evidence(
        title="Contamination: were the test items trained on?",
        finding=Finding.FOUND if told else Finding.ABSENT if not flagged else Finding.UNCLEAR,
        verdict=verdict,
        paragraphs=[*report["headline"][2:], *report.get("paragraphs", [])],
        tables=[*tables, *_exposure_tables(report)],
        plots=plots,
    )


_SUMMARY_KEYS = ("gold_bits_per_byte", "final_bits_per_byte", "opening_bits", "accuracy")


def _exposure_tables(report: dict[str, Any]) -> list[Table]:
    exposure: dict[str, Any] = report.get("exposure", {})
    if not exposure:
        return []
    return [
        Table(
            title="What each arm really read of the test items",
            columns=["arm", "items read", "of", "copies", "read by"],
            rows=[
                [arm, str(held["items"]), str(held["of"]), str(held["copies"]), held["how"]]
                for arm, held in exposure.items()
            ],
        )
    ]


def _shuffle(report: dict[str, Any]) -> Evidence:
    arms: dict[str, Any] = report["arms"]
    definitions: dict[str, str] = report["measures"]
    far = {
        arm: {name for name, held in each["measures"].items() if held["z"] is None or abs(held["z"]) > 5}
        for arm, each in arms.items()
    }
    linear = [arm for arm, each in arms.items() if each["shuffle"] == "LINEAR"]
    told = any(far[arm] for arm in linear) and not any(far[arm] for arm in far if arm not in linear)
    names = sorted(definitions, key=lambda name: -max(abs(_z(each, name)) for each in arms.values()))
    return Evidence(
        title="Shuffle: do the batches look like independent draws?",
        finding=Finding.FOUND if told else Finding.UNCLEAR if any(far.values()) else Finding.ABSENT,
        verdict="; ".join(report["headline"]),
        paragraphs=[f"{name}: {definitions[name]}" for name in names],
        tables=[
            Table(
                title="Each measure against independent draws",
                columns=["arm", "permutation", "measure", "value", "chance gives", "z"],
                rows=[
                    [arm, each["shuffle"].lower(), name, _number(held["value"]), _chance(held), _signed(held["z"])]
                    for name in names
                    for arm, each in arms.items()
                    if (held := each["measures"][name])
                ],
            ),
            *_seed_tables(arms, names),
        ],
        plots=[plot for name in names[:SHOWN_MEASURES] for plot in _batch_plots(arms, name)]
        + [_departures(arms, names)],
    )


def _departures(arms: dict[str, Any], names: Sequence[str]) -> BarPlot:
    return BarPlot(
        title="How far each measure is from independent draws",
        y_label="|z|",
        categories=list(names),
        values={arm: [min(abs(_z(each, name)), 99.0) for name in names] for arm, each in arms.items()},
        digits=1,
        note="Beyond 5 is called out. Too even counts as far as too clumped does.",
    )


def _batch_plots(arms: dict[str, Any], name: str) -> list[SeriesPlot]:
    held = {arm: each for arm, each in arms.items() if name in each["per_batch"]}
    if not held:
        return []
    levels: dict[str, float] = {}
    series = [
        Series(
            name=arm, arm=arm, x=[float(step) for step in each["steps"]], y=_floats(each["per_batch"][name]["value"])
        )
        for arm, each in held.items()
    ]
    reference = next(iter(held.values()))["per_batch"][name]["reference_mean"]
    means = _floats(reference) if isinstance(reference, list) else [float(reference)]
    levels["independent draws"] = sum(means) / len(means)
    return [
        SeriesPlot(
            title=f"{name}, batch by batch", x_label="optimizer step", y_label=name, series=series, levels=levels
        )
    ]


def _seed_tables(arms: dict[str, Any], names: Sequence[str]) -> list[Table]:
    rows = [
        [arm, name, f"{held['linear_above_all_feistel']:.0%}", f"{held['linear_below_all_feistel']:.0%}"]
        for arm, each in arms.items()
        for name in names
        if (held := each["over_seeds"].get(name))
    ]
    if not rows:
        return []
    seeds = next(held["seeds"] for each in arms.values() for held in each["over_seeds"].values())
    return [
        Table(
            title=f"One seed is luck: the linear permutation over {seeds} seeds, against as many Feistel ones",
            columns=["data of", "measure", "linear above every Feistel", "linear below every Feistel"],
            rows=rows,
            note="Above means more clumped, below more even, than any Feistel walk of the same data.",
        )
    ]


def _z(each: dict[str, Any], name: str) -> float:
    z = each["measures"][name]["z"]
    return 99.0 if z is None else float(z)


def _floats(held: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in held]


def _chance(held: dict[str, Any]) -> str:
    return f"{held['reference_mean']:.3g} ± {held['reference_sd']:.2g}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "beyond measure" if value is None else f"{value:+.1f}"
