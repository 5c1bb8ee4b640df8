"""What a page shows of a ladder: loss against compute with the fitted curve, its backtest, and the table of rungs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from marin.evaluation.families.in_flops import in_flops
from marin.evaluation.metric_names import in_words as metric_in_words
from marin.evaluation.metric_names import measure_of
from marin.report.section import (
    Block,
    Bold,
    Cell,
    Column,
    Curves,
    Page,
    Row,
    Section,
    Series,
    Table,
    Tag,
    Text,
    Tone,
)
from marin.report.words import fixed, signed
from marin.store.files.directory import Directory
from marin.store.numbers import write_count
from operators.ladder import LadderReport
from operators.rungs import Rung

DIGITS = 4

type Made = Mapping[str, Any]


def section(step: LadderReport, output: Directory, page: Page) -> Section:
    made = json.loads(output.read_text("report.json"))
    recipes: Mapping[str, Made] = made["recipes"]
    doubtful = made["verdict"] == "INCONCLUSIVE"
    blocks: list[Block] = [
        _curve(made),
        *([_apart(made)] if made.get("apart") else []),
        *(_table(step, made, name) for name in recipes),
        *([_by_size(made)] if any("prediction" in each["sizes"] for each in recipes.values()) else []),
        *(_accuracy(name, found) for name, found in made["tasks"].items()),
        *(Text(sentence) for sentence in made["notes"]),
        Text(
            "In simulations of known laws, 95 % intervals held 92 to 99 % of the time. They assume that the "
            "same law goes on beyond the largest rung; the backtest checks this for one rung only."
        ),
    ]
    return Section(
        title=f"Ladder: {' against '.join(recipes) if len(recipes) > 1 else 'the loss of a larger run'}",
        answer=made["answer"],
        more=made["more"][1:] if doubtful else made["more"],
        next=made["more"][:1] if doubtful else (),
        doubts=[f"{_of(name, recipes)}{each['doubt']}." for name, each in recipes.items() if each["doubt"]],
        picture=_picture(made),
        blocks=blocks,
    )


def _of(name: str, recipes: Mapping[str, Made]) -> str:
    return f"{name}: " if len(recipes) > 1 else ""


def _picture(made: Made) -> Table:
    """The prediction and the backtest of each recipe."""
    rows: list[Row] = []
    for name, each in made["recipes"].items():
        found, test = each["prediction"], each["backtest"]
        if test is not None:
            state = Tag("inside", Tone.GOOD) if test["holds"] else Tag("missed", Tone.BAD)
            predicted = test["predicted"]
            rows.append([_row(name, made, f"{in_flops(test['compute'])} FLOPs, backtest"), _ranged(predicted),
                         fixed(test["measured"], DIGITS), state])  # fmt: skip
        if found is not None:
            state = Tag("in doubt", Tone.OPEN) if each["doubt"] else Tag("predicted", Tone.GOOD)
            rows.append([_row(name, made, f"{in_flops(made['target'])} FLOPs, target"), _ranged(found), "", state])
    return Table(
        title=f"{metric_in_words(made['metric'])}, {measure_of(made['metric'])}",
        columns=[Column(""), Column("predicted (95 % interval)"), Column("measured"), Column("")],
        rows=rows,
    )


def _row(name: str, made: Made, text: str) -> str:
    return f"{_of(name, made['recipes'])}{text}"


def _ranged(found: Made) -> str:
    return f"{fixed(found['value'], DIGITS)} ({fixed(found['low'], DIGITS)} to {fixed(found['high'], DIGITS)})"


def _curve(made: Made) -> Curves:
    """Loss against compute: the curve with its band, the rungs, the backtest and the target."""
    series: list[Series] = []
    places: list[float] = [math.log10(made["target"])]
    for name, each in made["recipes"].items():
        of, band = _of(name, made["recipes"]), each["band"]
        if band:
            series.append(
                Series(
                    name=f"{of}fit",
                    x=[math.log10(place["flops"]) for place in band],
                    y=[place["value"] for place in band],
                    low=[place["low"] for place in band],
                    high=[place["high"] for place in band],
                )
            )
        x = [math.log10(rung["flops"]) for rung in each["rungs"]]
        places += x
        series.append(Series(name=f"{of}rungs", x=x, y=[rung["mean"] for rung in each["rungs"]], dots=True))
        if (test := each["backtest"]) is not None:
            series.append(Series(name=f"{of}backtest", x=[math.log10(test["compute"])], y=[test["predicted"]["value"]]))
        if (found := each["prediction"]) is not None:
            series.append(Series(name=f"{of}target", x=[math.log10(made["target"])], y=[found["value"]]))
    return Curves(
        title=f"{metric_in_words(made['metric'])} against compute",
        x="FLOPs (logarithmic)",
        y=measure_of(made["metric"]),
        series=series,
        ticks=_decades(min(places), max(places)),
        note="The band holds 95 % of single runs if the fitted law goes on. The backtest's dot is the prediction of "
        "the largest rung from the smaller ones.",
    )


def _apart(made: Made) -> Curves:
    """The difference of two recipes against compute."""
    first, second = made["recipes"]
    found = made["apart"]
    places = [math.log10(each["flops"]) for each in found]
    return Curves(
        title=f"{second} − {first} against compute",
        x="FLOPs (logarithmic)",
        y=measure_of(made["metric"]),
        series=[
            Series(name=f"{second} − {first}", x=places, y=[each["value"] for each in found],
                   low=[each["low"] for each in found], high=[each["high"] for each in found])
        ],
        ticks=_decades(min(places), max(places)),
        line=0.0,
        note="Difference of the fitted curves, with a 95 % interval at each place.",
    )  # fmt: skip


def _decades(low: float, high: float) -> dict[float, str]:
    """Whole powers of ten within; of less than two, the ends."""
    whole = {float(each): f"1e{each}" for each in range(math.ceil(low), math.floor(high) + 1)}
    return whole if len(whole) > 1 else {low: in_flops(10**low), high: in_flops(10**high)}


def _table(step: LadderReport, made: Made, name: str) -> Table:
    """What the rule made of each rung, and what it reached."""
    members = [each for each in step.members if each.recipe == name]
    reached = {rung["flops"]: rung for rung in made["recipes"][name]["rungs"]}
    seeds = sorted({each.seed for each in members})
    sizes = {each.rung: each for each in members}
    rows: list[Row] = []
    for rung, each in sorted(sizes.items(), key=lambda pair: (pair[0].flops, pair[0].spread)):
        found = reached.get(each.flops) if rung.spread == 1 else None
        runs = [fixed(found["runs"][str(seed)], DIGITS) if found else "" for seed in seeds]
        rows.append(
            [*_size(rung), Bold(fixed(found["mean"], DIGITS)) if found else "", *(runs if len(seeds) > 1 else ())]
        )
    blank = [""] * (1 + (len(seeds) if len(seeds) > 1 else 0))
    rows.append([*_size(step.large, "target: "), *blank])
    return Table(
        title=f"Rungs of {name}" if len(made["recipes"]) > 1 else "Rungs",
        columns=[
            Column("FLOPs"),
            Column("width"),
            Column("layers"),
            Column("parameters", hint="of layers and output head, which a token meets in a matrix product"),
            Column("tokens"),
            Column("batch", hint="sequences"),
            Column("steps"),
            Column("peak rate"),
            Column("tokens × rule", hint="tokens a parameter, as a multiple of the rule's"),
            Column(f"mean {measure_of(made['metric'])}" if len(seeds) > 1 else measure_of(made["metric"])),
            *(Column(f"seed {seed}") for seed in seeds if len(seeds) > 1),
        ],
        rows=rows,
        note=f"Rule: {step.rule}." if step.rule else "",
    )


def _size(rung: Rung, before: str = "") -> list[Cell]:
    return [
        f"{before}{in_flops(rung.flops)}",
        f"{rung.shape.hidden:,}",
        str(rung.shape.layers),
        write_count(rung.parameters),
        write_count(rung.tokens),
        f"{rung.batch:,}",
        f"{rung.steps:,}",
        f"{rung.peak_lr:.3g}",
        f"{rung.spread:g}",
    ]


def _by_size(made: Made) -> Table:
    """The law of parameters and tokens."""
    rows: list[Row] = []
    for name, each in made["recipes"].items():
        found = each["sizes"]
        if "prediction" not in found:
            continue
        rows.append(
            [name, *(f"{found[key]:.3g}" for key in ("e", "a", "alpha", "b", "beta")), _ranged(found["prediction"]),
             write_count(found["best_parameters"]), write_count(found["best_tokens"])]
        )  # fmt: skip
    return Table(
        title="Loss by parameters N and tokens D: E + A / N^α + B / D^β",
        columns=[
            Column("recipe"),
            *(Column(each) for each in ("E", "A", "α", "B", "β")),
            Column("at the target (95 % interval)"),
            Column("best parameters", hint="for the target's FLOPs, by this law"),
            Column("best tokens"),
        ],
        rows=rows,
        note="Hoffmann et al. 2022. A and B are poorly determined; compare predictions.",
    )


def _accuracy(name: str, found: Mapping[str, Made]) -> Curves:
    """Accuracy against loss: the second step of a task's prediction."""
    series: list[Series] = []
    for recipe, each in found.items():
        of = f"{recipe}: " if len(found) > 1 else ""
        points = sorted(each["points"], key=lambda point: point["loss"])
        series.append(Series(name=f"{of}runs", x=_each(points, "loss"), y=_each(points, "accuracy"), dots=True))
        if each["curve"]:
            series.append(Series(name=f"{of}fit", x=_each(each["curve"], "loss"), y=_each(each["curve"], "accuracy")))
    one = next(iter(found.values()))
    told = "Dashed line: the accuracy of a guess."
    for recipe, each in found.items():
        if test := each["backtest"]:
            of = f" of {recipe}" if len(found) > 1 else ""
            error = signed(test["predicted"]["value"] - test["measured"], 3)
            inside = "inside" if test["holds"] else "outside of"
            told += f" Backtest{of} at the largest rung: error {error}, {inside} its interval."
    return Curves(
        title=f"{metric_in_words(name)} against its loss",
        x=metric_in_words(one["loss"]),
        y="accuracy",
        series=series,
        line=one["floor"],
        note=told,
    )


def _each(rows: Sequence[Made], key: str) -> list[float]:
    return [row[key] for row in rows]
