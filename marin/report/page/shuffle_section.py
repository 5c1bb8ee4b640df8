"""The section on shuffling, from its report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from marin.report.page import units
from marin.report.page.model import (
    Evidence,
    Finding,
    Interval,
    IntervalPlot,
    Plot,
    Series,
    SeriesPlot,
    Table,
)
from marin.training.health.batches import IN_WORDS
from marin.training.health.shuffle import TRUE_SHUFFLE
from marin.training.health.shuffle_verdict import BEYOND, CLUMPED, NAMES, towards

BATCH_PLOTS = 2
DISTINCT = 8  # a batch-by-batch plot of fewer values is a plot of small integers
AXES = {
    "same_group": "pairs per batch",
    "near": "pairs per batch",
    "discrepancy": "distance from uniform (0 to 1)",
    "mean_position": "variance ÷ that of chance",
    "parity": "pairs per batch",
    "remainder": "pairs per batch",
}

type Arms = dict[str, dict[str, Any]]


def shuffle_section(report: dict[str, Any]) -> Evidence:
    """Verdict, this run against chance and other seeds, the measures that vary by batch, and all numbers."""
    arms: Arms = report["arms"]
    definitions: dict[str, str] = report["measures"]
    names = sorted(definitions, key=lambda name: -max(abs(_z(arm, name)) for arm in arms.values()))
    linear = any(arm["shuffle"] == "LINEAR" for arm in arms.values())
    sided = [name for name in names if name in CLUMPED]
    walked = sorted({str(arm["shuffle"]).lower() for arm in arms.values()}, key=lambda kind: kind != "linear")
    kinds = [*walked, TRUE_SHUFFLE]
    plots: list[Plot] = [_departures(arms, sided)]
    for label, arm in arms.items():
        if arm["over_seeds"] and (arm["shuffle"] == "LINEAR" or not linear):
            plots.append(_seeds_plot(label, arm, kinds, sided))
    plots += [plot for name in names if (plot := _batch_plot(arms, name)) is not None][:BATCH_PLOTS]
    return Evidence(
        title=f"Shuffle: {'does the linear walk correlate its' if linear else 'are there correlated'} batches?",
        finding=Finding(report["finding"]),
        verdict=report["verdict"],
        paragraphs=[
            "A walk can miss independent draws in two ways: its batches are too clumped (sequences of a batch are "
            "neighbours) or too even (they avoid each other).",
            *(_at_size(spread) for spread in report.get("spread", [])),
        ],
        plots=plots,
        tables=[_measures(arms, names, definitions), *_seed_table(arms, sided)],
    )


def _at_size(spread: dict[str, Any]) -> str:
    """What the permutations do to a source of another size, over many seeds, walked without its text."""
    walks: dict[str, dict[str, float]] = spread["walks"]
    told = "; ".join(
        f"{_named(kind)} {walk['clumped_batches']:.1%} more clumped (in {walk['clumped_seeds']:.1%} of seeds) and "
        f"{walk['even_batches']:.1%} more even"
        for kind, walk in sorted(walks.items(), key=lambda walk: [*map(str.lower, NAMES), TRUE_SHUFFLE].index(walk[0]))
    )
    return (
        f"At another size: a source of {spread['length']:,} sequences in files of {spread['block']:,}, "
        f"{spread['draws']:,} of them in a batch, walked with {spread['seeds']} seeds. Batches beyond 99.9 % of a true "
        f"shuffle's: {told}. The most clumped linear batch holds {walks['linear']['most']:.0f} times the pairs of one "
        "file that chance gives."
    )


def _named(kind: str) -> str:
    return NAMES.get(kind.upper(), kind)


def _departures(arms: Arms, names: Sequence[str]) -> IntervalPlot:
    far = {label: sum(abs(_z(arm, name)) > 5 for name in names) for label, arm in arms.items()}
    rows: list[Interval] = []
    for name in names:
        for label, arm in arms.items():
            z = max(min(_z(arm, name) * CLUMPED[name], BEYOND), -BEYOND)
            rows.append(Interval(label=f"{IN_WORDS[name]}: {label}", value=z, arm=label))
    counts = ", ".join(f"{label} {count} of {len(names)}" for label, count in far.items())
    return IntervalPlot(
        title="These runs against independent draws",
        x_label="← too even, too clumped → (standard deviations of chance)",
        rows=rows,
        digits=1,
        note=f"Measures more than 5 standard deviations from chance: {counts}.",
    )


def _seeds_plot(label: str, arm: dict[str, Any], kinds: Sequence[str], names: Sequence[str]) -> IntervalPlot:
    """Ranges of these permutations over other seeds, in standard deviations of chance, clumped to the right."""
    rows: list[Interval] = []
    seeds = wider = 0
    for name in names:
        over, chance = arm["over_seeds"].get(name), arm["measures"][name]
        if over is None or not chance["reference_sd"]:
            continue
        seeds = over["seeds"]
        widths: list[float] = []
        for kind in kinds:
            ends = (over["walks"][kind][at] for at in (0, 2, -1))
            first, median, last = (
                CLUMPED[name] * (end - chance["reference_mean"]) / chance["reference_sd"] for end in ends
            )
            low, high = sorted((first, last))
            text = f"{IN_WORDS[name]}: {_named(kind)}"
            rows.append(Interval(label=text, value=median, low=low, high=high, arm=kind))
            widths.append(high - low)
        wider += widths[0] > 1.5 * widths[-1]
    return IntervalPlot(
        title=f"One seed is luck: {seeds} seeds of each permutation on {label}'s data",
        x_label="← too even, too clumped → (standard deviations of chance)",
        rows=rows,
        digits=1,
        ranges=True,
        note=f"Dot: median; bar: from lowest to highest. The {_named(kinds[0])} range is over 1.5 times as wide as "
        f"true shuffles' in {wider} of {len(rows) // len(kinds)} measures.",
    )


def _batch_plot(arms: Arms, name: str) -> SeriesPlot | None:
    """A measure batch by batch over the band of independent draws; None for counts too small to read so."""
    measured = {label: arm["per_batch"][name] for label, arm in arms.items() if name in arm["per_batch"]}
    if len({value for batches in measured.values() for value in batches["value"]}) < DISTINCT:
        return None
    series: list[Series] = []
    counts: list[str] = []
    for label, batches in measured.items():
        x = [float(step) for step in arms[label]["steps"]]
        low, y, high = (_floats(batches[key]) for key in ("reference_low", "value", "reference_high"))
        if not series:
            series.append(Series(name="chance", x=x, y=_floats(batches["reference_mean"]), low=low, high=high))
        series.append(Series(name=label, arm=label, x=x, y=y))
        finite = [each for each in zip(low, y, high, strict=True) if all(map(math.isfinite, each))]
        above, below = sum(value > top for _, value, top in finite), sum(value < bottom for bottom, value, _ in finite)
        counts.append(f"{label} is above the band in {above} and below it in {below} of {len(finite)} batches")
    most = max(len(batches["value"]) for batches in measured.values())
    return SeriesPlot(
        title=f"{IN_WORDS[name][0].upper()}{IN_WORDS[name][1:]}, batch by batch",
        x_label="optimizer step",
        y_label=AXES.get(name, name),
        series=series,
        note=f"Band: 98 of 100 independent draws. {'; '.join(counts)}; chance alone gives {0.01 * most:.1f} each way.",
    )


def _measures(arms: Arms, names: Sequence[str], definitions: dict[str, str]) -> Table:
    def row(name: str, label: str, arm: dict[str, Any]) -> list[str]:
        measure = arm["measures"][name]
        return [
            IN_WORDS[name],
            definitions[name],
            label,
            NAMES.get(arm["shuffle"], str(arm["shuffle"])),
            f"{measure['value']:.3g}".replace("-", units.MINUS),
            f"{measure['reference_mean']:.3g}".replace("-", units.MINUS),
            f"{measure['reference_sd']:.2g}",
            "beyond measure" if measure["z"] is None else units.signed(measure["z"], 1),
            towards(name, _z(arm, name)) if abs(_z(arm, name)) > 3 else "",
        ]

    return Table(
        title="Each measure against independent draws",
        columns=["measure", "what", "arm", "permutation", "value", "chance", "±", "departure", "towards"],
        rows=[row(name, label, arm) for name in names for label, arm in arms.items()],
        note="±: one standard deviation of chance. Departure: of the value from chance, in these. Towards: beyond 3.",
    )


def _seed_table(arms: Arms, names: Sequence[str]) -> Iterator[Table]:
    rows: list[list[str]] = []
    seeds = 0
    kinds: list[str] = []
    for label, arm in arms.items():
        for name in names:
            if (over := arm["over_seeds"].get(name)) is None:
                continue
            seeds, kinds = over["seeds"], [kind for kind in map(str.lower, NAMES) if kind in over["above"]]
            rows.append([label, IN_WORDS[name], *(_outside(over, kind, CLUMPED[name]) for kind in kinds)])
    if rows:
        yield Table(
            title=f"Walks of {seeds} seeds that lie outside all {seeds} true shuffles of the same data",
            columns=["data of", "measure", *map(_named, kinds)],
            rows=rows,
        )


def _outside(over: dict[str, Any], kind: str, side: int) -> str:
    """ "16 % clumped, 66 % even"."""
    clumped, even = (over["above"][kind], over["below"][kind])[::side]
    told = [f"{100 * share:.0f} % {word}" for share, word in ((clumped, "clumped"), (even, "even")) if share]
    return ", ".join(told) or "none"


def _z(arm: dict[str, Any], name: str) -> float:
    z = arm["measures"][name]["z"]
    return BEYOND if z is None else float(z)


def _floats(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]
