"""The section on shuffling, from its report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from marin.report.page.drawing import units
from marin.report.page.drawing.model import (
    Estimate,
    Evidence,
    Finding,
    Interval,
    IntervalPlot,
    Plot,
    Series,
    SeriesPlot,
    Table,
)
from marin.training.health.shuffle_verdict import CLUMPED, NAMES, towards

BATCH_PLOTS = 2
DISTINCT = 8  # a batch-by-batch plot of fewer values is a plot of small integers
AXES = {
    "same_group": "pairs per batch",
    "near": "pairs per batch",
    "discrepancy": "distance from uniform (0 to 1)",
    "mean_position": "variance ÷ that of chance",
}


def shuffle_section(report: dict[str, Any]) -> Evidence:
    """Verdict, this run against chance and other seeds, the measures that vary by batch, and all numbers."""
    arms: dict[str, Any] = report["arms"]
    definitions: dict[str, str] = report["measures"]
    names = sorted(definitions, key=lambda name: -max(abs(_z(each, name)) for each in arms.values()))
    linear = any(each["shuffle"] == "LINEAR" for each in arms.values())
    sided = [name for name in names if name in CLUMPED]
    plots: list[Plot] = [_departures(arms, sided)]
    seen = [arm for arm, each in arms.items() if each["over_seeds"] and (each["shuffle"] == "LINEAR" or not linear)]
    plots += [_seeds_plot(arm, arms[arm], sided) for arm in seen]
    plots += [plot for name in names if (plot := _batch_plot(arms, name)) is not None][:BATCH_PLOTS]
    return Evidence(
        title=f"Shuffle: {'does the linear walk correlate its' if linear else 'are there correlated'} batches?",
        finding=Finding(report["finding"]),
        verdict=report["verdict"],
        paragraphs=[
            "A walk can miss independent draws in two ways: its batches are too clumped (sequences of a batch are "
            "neighbours) or too even (they avoid each other).",
            *(_at_size(each) for each in report.get("spread", [])),
        ],
        plots=plots,
        tables=[_measures(arms, names, definitions), *_seed_table(arms, names)],
    )


def _at_size(spread: dict[str, Any]) -> str:
    """What the two permutations do to a source of another size, over many seeds, walked without its text."""
    return (
        f"At another size: a source of {spread['length']:,} sequences in files of {spread['block']:,}, "
        f"{spread['draws']:,} of them in a batch, walked with {spread['seeds']} seeds: "
        f"{spread['clumped_batches']:.1%} of linear batches are more clumped than 99.9 % of Feistel's, "
        f"{spread['even_batches']:.1%} more even than 99.9 % of them; {spread['clumped_seeds']:.1%} of linear seeds "
        f"clump a batch, against {spread['clumped_seeds_of_feistel']:.1%} of Feistel's. The most clumped linear batch "
        f"holds {spread['linear_quantiles'][-1]:.0f} times the pairs of one file that chance gives."
    )


def _departures(arms: dict[str, Any], names: Sequence[str]) -> IntervalPlot:
    far = {arm: sum(abs(_z(each, name)) > 5 for name in names) for arm, each in arms.items()}
    told = ", ".join(f"{arm} {count} of {len(names)}" for arm, count in far.items())
    return IntervalPlot(
        title="These runs against independent draws",
        x_label="z: ← too even, too clumped →",
        rows=[
            Interval(label=f"{name.replace('_', ' ')}: {arm}", estimate=Estimate(value=_clumped(each, name)), arm=arm)
            for name in names
            for arm, each in arms.items()
        ],
        digits=1,
        note=f"Measures beyond |z| = 5: {told}.",
    )


def _clumped(each: dict[str, Any], name: str) -> float:
    return max(min(_z(each, name) * CLUMPED[name], 99.0), -99.0)


def _seeds_plot(arm: str, each: dict[str, Any], names: Sequence[str]) -> IntervalPlot:
    """Ranges of both permutations over other seeds, in standard deviations of chance, clumped to the right."""
    rows: list[Interval] = []
    seeds = 0
    for name in names:
        held, chance = each["over_seeds"].get(name), each["measures"][name]
        if held is None or not chance["reference_sd"]:
            continue
        seeds = held["seeds"]
        for kind in ("linear", "feistel"):
            ends = [CLUMPED[name] * _standard(held[kind][at], chance) for at in (0, 2, -1)]
            low, high = sorted((ends[0], ends[2]))
            rows.append(
                Interval(
                    label=f"{name.replace('_', ' ')}: {NAMES[kind.upper()]}",
                    estimate=Estimate(value=ends[1], low=low, high=high),
                    arm=kind,
                )
            )
    wider = sum(_width(linear) > 1.5 * _width(feistel) for linear, feistel in zip(rows[::2], rows[1::2], strict=True))
    return IntervalPlot(
        title=f"One seed is luck: {seeds} seeds of each permutation on {arm}'s data",
        x_label="z: ← too even, too clumped →",
        rows=rows,
        digits=1,
        ranges=True,
        note=f"Dot: median; bar: from lowest to highest. The linear range is over 1.5 times as wide as Feistel's in "
        f"{wider} of {len(rows) // 2} measures.",
    )


def _standard(value: float, chance: dict[str, Any]) -> float:
    return (value - chance["reference_mean"]) / chance["reference_sd"]


def _width(row: Interval) -> float:
    return (row.estimate.high or 0.0) - (row.estimate.low or 0.0)


def _batch_plot(arms: dict[str, Any], name: str) -> SeriesPlot | None:
    """A measure batch by batch over the band of independent draws; None for counts too small to read so."""
    held = {arm: each["per_batch"][name] for arm, each in arms.items() if name in each["per_batch"]}
    if len({value for one in held.values() for value in one["value"]}) < DISTINCT:
        return None
    series: list[Series] = []
    told: list[str] = []
    for arm, one in held.items():
        steps, values = [float(step) for step in arms[arm]["steps"]], _floats(one["value"])
        band = list(zip(_floats(one["reference_low"]), values, _floats(one["reference_high"]), strict=True))
        measured = [each for each in band if all(map(math.isfinite, each))]
        above, below = sum(v > high for _, v, high in measured), sum(v < low for low, v, _ in measured)
        told.append(f"{arm} is above the band in {above} and below it in {below} of {len(measured)} batches")
        series.append(Series(name=arm, arm=arm, x=steps, y=values))
        if not series[:-1]:
            low, _, high = zip(*band, strict=True)
            mean = _floats(one["reference_mean"])
            series.insert(0, Series(name="chance", x=steps, y=mean, low=list(low), high=list(high)))
    return SeriesPlot(
        title=f"{name.replace('_', ' ').capitalize()}, batch by batch",
        x_label="optimizer step",
        y_label=AXES.get(name, name),
        series=series,
        note=f"Band: 98 of 100 independent draws. {'; '.join(told)}; "
        f"chance alone gives {0.01 * _count(held):.1f} each way.",
    )


def _count(held: dict[str, Any]) -> int:
    return max(len(one["value"]) for one in held.values())


def _permutation(each: dict[str, Any]) -> str:
    return NAMES.get(each["shuffle"], str(each["shuffle"]))


def _measures(arms: dict[str, Any], names: Sequence[str], definitions: dict[str, str]) -> Table:
    return Table(
        title="Each measure against independent draws",
        columns=["measure", "what", "arm", "permutation", "value", "chance", "±", "z", "towards"],
        rows=[
            [
                name,
                definitions[name],
                arm,
                _permutation(each),
                f"{held['value']:.3g}".replace("-", units.MINUS),
                f"{held['reference_mean']:.3g}".replace("-", units.MINUS),
                f"{held['reference_sd']:.2g}",
                "beyond measure" if held["z"] is None else units.signed(held["z"], 1),
                towards(name, _z(each, name)) if abs(_z(each, name)) > 3 else "",
            ]
            for name in names
            for arm, each in arms.items()
            if (held := each["measures"][name])
        ],
        note="±: one standard deviation of chance. Towards: where |z| > 3.",
    )


def _seed_table(arms: dict[str, Any], names: Sequence[str]) -> list[Table]:
    rows: list[list[str]] = []
    seeds = 0
    for arm, each in arms.items():
        for name in names:
            if name not in CLUMPED or (held := each["over_seeds"].get(name)) is None:
                continue
            seeds = held["seeds"]
            above, below = held["linear_above_all_feistel"], held["linear_below_all_feistel"]
            clumped, even = (above, below) if CLUMPED[name] > 0 else (below, above)
            rows.append([arm, name, f"{100 * clumped:.0f} %", f"{100 * even:.0f} %", f"{100 * (above + below):.0f} %"])
    if not rows:
        return []
    return [
        Table(
            title=f"Linear walks of {seeds} seeds that lie outside all {seeds} Feistel walks of the same data",
            columns=["data of", "measure", "more clumped", "more even", "either"],
            rows=rows,
        )
    ]


def _z(each: dict[str, Any], name: str) -> float:
    z = each["measures"][name]["z"]
    return 99.0 if z is None else float(z)


def _floats(held: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in held]
