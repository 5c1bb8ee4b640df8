"""The section of a sweep on the page: the metric against the value, the points, and a heat map of two parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from marin.evaluation.metric_names import in_words as metric_in_words
from marin.evaluation.metric_names import is_better_lower, measure_of
from marin.report.section import Block, Bold, Cell, Column, Curves, Page, Row, Section, Series, Shade, Table, Tag, Tone
from marin.report.words import fixed
from marin.store.files.directory import Directory
from operators.sweep import SweepReport

DIGITS = 4
TONES = {"BEST": Tone.GOOD, "SELECTED": Tone.PLAIN, "FLAT": Tone.OPEN, "INCONCLUSIVE": Tone.OPEN}

type Made = Mapping[str, Any]


def section(step: SweepReport, output: Directory, page: Page) -> Section:
    made = json.loads(output.read_text("report.json"))
    open_question = made["verdict"] == "INCONCLUSIVE"
    one = len(made["parameters"]) == 1
    blocks: list[Block] = [_curve(made, 0)] if one else [_heat_map(made), _curve(made, 0), _curve(made, 1)]
    return Section(
        title=f"Sweep: {' and '.join(made['parameters'])}",
        answer=made["answer"],
        more=made["more"][1:] if open_question else made["more"],
        next=made["more"][:1] if open_question else (),
        picture=_points(made),
        blocks=blocks,
    )


def _points(made: Made) -> Table:
    seeds = sorted({seed for each in made["points"] for seed in each["runs"]}, key=int)
    rows: list[Row] = []
    for each in made["points"]:
        best = each["point"] == made["best"]
        if each["diverged"]:
            state: Cell = Tag("diverged", Tone.BAD)
        elif each["cut"]:
            state = Tag("cut", Tone.PLAIN)
        elif best:
            state = Tag("best", TONES[made["verdict"]])
        else:
            state = "not shown to be worse" if each["point"] in made["as_good"] else ""
        mean = "—" if each["mean"] is None else fixed(each["mean"], DIGITS)
        values = [f"{value:g}" for value in each["point"]]
        per_seed = [fixed(each["runs"][seed], DIGITS) if seed in each["runs"] else "—" for seed in seeds]
        rows.append([*values, Bold(mean) if best else mean, *(per_seed if len(seeds) > 1 else ()), state])
    metric = made["metric"]
    better = "lower" if is_better_lower(metric) else "higher"
    return Table(
        title=f"{metric_in_words(metric)}, {measure_of(metric)}; {better} is better",
        columns=[
            *(Column(name) for name in made["parameters"]),
            Column("mean" if len(seeds) > 1 else "value"),
            *((Column(f"seed {seed}") for seed in seeds) if len(seeds) > 1 else ()),
            Column(""),
        ],
        rows=rows,
    )


def _curve(made: Made, place: int) -> Curves:
    """The metric against one parameter: of several, along the line through the best point."""
    name, best = made["parameters"][place], made["best"]
    axis = made["axes"][name]
    along = [
        each
        for each in made["points"]
        if each["mean"] is not None and all(each["point"][at] == best[at] for at in range(len(best)) if at != place)
    ]
    x = [_position(each["point"][place], geometric=axis["geometric"]) for each in along]
    seeds = sorted({seed for each in along for seed in each["runs"]}, key=int)
    series = [Series(name="mean", x=x, y=[each["mean"] for each in along])]
    if len(seeds) > 1:
        series += [
            Series(
                name=f"seed {seed}",
                x=[at for at, each in zip(x, along, strict=True) if seed in each["runs"]],
                y=[each["runs"][seed] for each in along if seed in each["runs"]],
                dots=True,
            )
            for seed in seeds
        ]
    fixed_at = ", ".join(f"{other} {best[at]:g}" for at, other in enumerate(made["parameters"]) if at != place)
    return Curves(
        title=f"{metric_in_words(made['metric'])} against {name}{f' (at {fixed_at})' if fixed_at else ''}",
        x=f"{name}{' (logarithmic)' if axis['geometric'] else ''}",
        y=measure_of(made["metric"]),
        series=series,
        ticks={_position(value, geometric=axis["geometric"]): f"{value:g}" for value in axis["values"]},
        note=_about(name, axis),
    )


def _about(name: str, axis: Mapping[str, Any]) -> str:
    found = axis["minimum"]
    if found is None:
        return "No quadratic with a minimum fits these points."
    lowest = f"A quadratic through the best value and its neighbours is lowest at {name} {found['value']:.2g}"
    if found["low"] is None or found["high"] is None:
        return f"{lowest}. These runs do not bound its place."
    return f"{lowest}, 95 % interval {found['low']:.2g} to {found['high']:.2g}."


def _position(value: float, *, geometric: bool) -> float:
    return math.log10(value) if geometric else value


def _heat_map(made: Made) -> Table:
    """The mean of each point of two parameters, darker where it is better."""
    rows, columns = (made["axes"][name]["values"] for name in made["parameters"])
    by_point = {tuple(each["point"]): each for each in made["points"]}
    means = [each["mean"] for each in by_point.values() if each["mean"] is not None]
    low, high = min(means), max(means)
    lower = is_better_lower(made["metric"])

    def cell(point: tuple[float, float]) -> Cell:
        each = by_point.get(point)
        if each is None or each["mean"] is None:
            return "—" if each is None else "diverged" if each["diverged"] else "cut"
        share = (each["mean"] - low) / (high - low) if high > low else 0.0
        return Shade(fixed(each["mean"], DIGITS), 1 - share if lower else share)

    first, second = made["parameters"]
    return Table(
        title=f"{metric_in_words(made['metric'])} by {first} (rows) and {second} (columns); darker is better",
        columns=[Column(f"{first} \\ {second}"), *(Column(f"{value:g}") for value in columns)],
        rows=[[f"{value:g}", *(cell((value, other)) for other in columns)] for value in rows],
    )
