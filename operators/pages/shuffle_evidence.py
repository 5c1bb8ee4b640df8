"""Write the section on shuffling: this run against chance and other seeds, measure by measure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from marin.report.section import (
    Block,
    Column,
    Curves,
    Finding,
    Heading,
    Interval,
    Page,
    Row,
    Section,
    Series,
    Table,
    Text,
)
from marin.report.words import minus, signed
from marin.store.files.directory import Directory
from marin.training.health.batches import IN_WORDS
from marin.training.health.shuffle import TRUE_SHUFFLE
from marin.training.health.shuffle_verdict import BEYOND, CLUMPED, NAMES, towards
from operators.shuffle_evidence import ShuffleEvidence

BATCH_PLOTS = 2
DISTINCT = 8  # with fewer values, a batch-by-batch plot shows only small integers
AXES = {
    "same_group": "pairs per batch",
    "near": "pairs per batch",
    "discrepancy": "distance from uniform (0 to 1)",
    "mean_position": "variance ÷ that of chance",
    "parity": "pairs per batch",
    "remainder": "pairs per batch",
}

type Arms = dict[str, dict[str, Any]]


def section(step: ShuffleEvidence, output: Directory, page: Page) -> Section:
    report = json.loads(output.read_text("report.json"))
    arms: Arms = report["arms"]
    definitions: dict[str, str] = report["measures"]
    names = sorted(definitions, key=lambda name: -max(abs(_z(arm, name)) for arm in arms.values()))
    linear = any(arm["shuffle"] == "LINEAR" for arm in arms.values())
    sided = [name for name in names if name in CLUMPED]
    walked = sorted({str(arm["shuffle"]).lower() for arm in arms.values()}, key=lambda kind: kind != "linear")
    kinds = [*walked, TRUE_SHUFFLE]
    blocks: list[Block] = [
        Text(
            "The batches of a run can differ from independent draws in two ways: they are too clumped (sequences of "
            "a batch are neighbours) or too even (sequences of a batch avoid each other)."
        ),
        *(Text(_at_size(spread)) for spread in report.get("spread", [])),
        _departures(arms, [*sided, *(name for name in names if name not in sided)], definitions),
    ]
    for label, arm in arms.items():
        if arm["over_seeds"] and (arm["shuffle"] == "LINEAR" or not linear):
            blocks.append(_seeds(label, arm, kinds, sided))
    blocks += [curves for name in names if (curves := _by_batch(arms, name)) is not None][:BATCH_PLOTS]
    return Section(
        title=f"Correlated batches: {'does the linear permutation cause them' if linear else 'are there any'}?",
        finding=Finding(report["finding"]),
        verdict=report["verdict"],
        blocks=blocks,
    )


def _at_size(spread: dict[str, Any]) -> str:
    """Return in words the effect of the permutations on a source of another size, over many seeds and without text."""
    walks: dict[str, dict[str, float]] = spread["walks"]
    told = "; ".join(
        f"{_named(kind)} {walk['clumped_batches']:.1%} more clumped (in {walk['clumped_seeds']:.1%} of seeds) and "
        f"{walk['even_batches']:.1%} more even"
        for kind, walk in sorted(walks.items(), key=lambda walk: [*map(str.lower, NAMES), TRUE_SHUFFLE].index(walk[0]))
    )
    return (
        f"Simulated at another size: a source of {spread['length']:,} sequences in files of {spread['block']:,}, with "
        f"{spread['draws']:,} sequences in a batch and {spread['seeds']} seeds of each permutation. The share of "
        f"batches that are more clumped, or more even, than 99.9 % of a true shuffle's batches: {told}. The most "
        f"clumped linear batch holds {walks['linear']['most']:.0f} times as many pairs of one file as chance gives."
    )


def _named(kind: str) -> str:
    return NAMES.get(kind.upper(), kind)


def _departures(arms: Arms, names: Sequence[str], definitions: dict[str, str]) -> Table:
    """Return a table of each measure against independent draws, arm by arm."""
    rows: list[Row] = []
    for name in names:
        rows.append(Heading(f"{IN_WORDS[name]}: {definitions[name]}"))
        for label, arm in arms.items():
            measure = arm["measures"][name]
            z, side = _z(arm, name), CLUMPED.get(name, 0)
            departure = Interval(value=max(min(z * side, BEYOND), -BEYOND), arm=label) if side else signed(z, 1)
            chance = f"{minus(f'{measure["reference_mean"]:.3g}')} ± {measure['reference_sd']:.2g}"
            told = towards(name, z) if abs(z) > 3 else ""
            rows.append(
                [f"{label} ({_named(str(arm['shuffle']))})", departure, minus(f"{measure['value']:.3g}"), chance, told]
            )
    far = {label: sum(abs(_z(arm, name)) > 5 for name in names) for label, arm in arms.items()}
    counts = ", ".join(f"{label} {count} of {len(names)}" for label, count in far.items())
    return Table(
        title="These runs against independent draws",
        columns=[
            Column("arm"),
            Column("← too even, too clumped → (standard deviations of chance)", digits=1),
            Column("value"),
            Column("chance", hint="mean and one standard deviation of independent draws"),
            Column("towards", hint="beyond 3 standard deviations"),
        ],
        rows=rows,
        note=f"Measures more than 5 standard deviations from chance: {counts}.",
    )


def _seeds(label: str, arm: dict[str, Any], kinds: Sequence[str], names: Sequence[str]) -> Table:
    """Return the permutations' ranges over other seeds, in standard deviations of chance, clumped to the right."""
    rows: list[Row] = []
    seeds = wider = measures = 0
    for name in names:
        over, chance = arm["over_seeds"].get(name), arm["measures"][name]
        if over is None or not chance["reference_sd"]:
            continue
        seeds, measures = over["seeds"], measures + 1
        rows.append(Heading(IN_WORDS[name]))
        widths: list[float] = []
        others = [kind for kind in map(str.lower, NAMES) if kind in over["above"] and kind not in kinds]
        for kind in [*kinds[:-1], *others, kinds[-1]]:
            outside = _outside(over, kind, CLUMPED[name]) if kind in over["above"] else ""
            if kind not in over["walks"]:
                rows.append([_named(kind), "", outside])
                continue
            ends = (over["walks"][kind][at] for at in (0, 2, -1))
            first, median, last = (
                CLUMPED[name] * (end - chance["reference_mean"]) / chance["reference_sd"] for end in ends
            )
            low, high = sorted((first, last))
            rows.append([_named(kind), Interval(value=median, low=low, high=high), outside])
            widths.append(high - low)
        wider += widths[0] > 1.5 * widths[-1]
    return Table(
        title=f"Spread over {seeds} seeds of each permutation on {label}'s data",
        columns=[
            Column("permutation"),
            Column("← too even, too clumped → (standard deviations of chance)", digits=1, ranges=True),
            Column("outside all true shuffles", hint="share of the seeds"),
        ],
        rows=rows,
        note=f"Dot: median; bar: from lowest to highest. The {_named(kinds[0])} range is over 1.5 times as wide as "
        f"true shuffles' in {wider} of {measures} measures.",
        folded=True,
    )


def _by_batch(arms: Arms, name: str) -> Curves | None:
    """Return a measure batch by batch over the band of independent draws; None for counts too small to plot."""
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
    return Curves(
        title=f"{IN_WORDS[name][0].upper()}{IN_WORDS[name][1:]}, batch by batch",
        x="optimizer step",
        y=AXES.get(name, name),
        series=series,
        note=f"Band: 98 of 100 independent draws. {'; '.join(counts)}; chance alone gives {0.01 * most:.1f} each way.",
    )


def _outside(over: dict[str, Any], kind: str, side: int) -> str:
    """Return the shares in words: "16 % clumped, 66 % even"."""
    clumped, even = (over["above"][kind], over["below"][kind])[::side]
    told = [f"{100 * share:.0f} % {word}" for share, word in ((clumped, "clumped"), (even, "even")) if share]
    return ", ".join(told) or "none"


def _z(arm: dict[str, Any], name: str) -> float:
    z = arm["measures"][name]["z"]
    return BEYOND if z is None else float(z)


def _floats(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]
