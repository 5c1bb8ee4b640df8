"""Draw the page of a mixture search: shares with their refits, bounds, held-out predictions, and the models' errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from marin.evaluation.metric_names import in_words
from marin.report.section import (
    Block,
    Bold,
    Cell,
    Column,
    Curves,
    Interval,
    Page,
    Row,
    Section,
    Series,
    Share,
    Table,
    Tag,
    Text,
    Tone,
)
from marin.report.words import fixed
from marin.store.files.directory import Directory
from operators.mixture_search import BEST_PROXY, NATURAL, OPTIMUM, FindMixture

DIGITS = 4

type Made = Mapping[str, Any]


def section(step: FindMixture, output: Directory, page: Page) -> Section:
    made = json.loads(output.read_text("report.json"))
    unclear = made["verdict"] == "INCONCLUSIVE"
    return Section(
        title="Mixture search: which shares?",
        answer=made["answer"],
        more=made["more"][1:] if unclear else made["more"],
        next=made["more"][:1] if unclear else (),
        picture=_shares(made),
        blocks=[
            _bounds(made),
            _objective(made),
            _held_out(made),
            _errors(made),
            Text(f"To use the mixture: {made['paste']}"),
        ],
    )


def _shares(made: Made) -> Table:
    rows: list[Row] = []
    for name, one in _by_optimum(made):
        shares = Interval(value=100 * one["optimum"], low=100 * one["low"], high=100 * one["high"], scale="shares")
        rows.append([name, Share(value=one["natural"]), shares])
    return Table(
        title=f"Shares in percent of sequences, with the range of {made['refits']} refits",
        columns=[
            Column("source"),
            Column("natural", digits=1),
            Column("optimum" if made["verdict"] == "FOUND" else "optimum, not kept", digits=1, ranges=True),
        ],
        rows=rows,
        note="The range holds 95 % of the optima of models that were fitted again to proxies drawn with replacement.",
    )


def _bounds(made: Made) -> Table:
    kept = made["verdict"] == "FOUND"
    rows: list[Row] = []
    for name, one in _by_optimum(made):
        bound = "" if one["bound"] >= 1 else f"{one['bound']:.1%}"
        at_bound = kept and one["bound"] < 1 and one["optimum"] >= one["bound"] - 1e-3
        low, high = one["sampled"]
        rows.append([name, f"{low:.1%}", f"{high:.1%}", Tag(bound, Tone.OPEN) if at_bound else bound])
    return Table(
        title="Bounds of the search",
        columns=[
            Column("source"),
            Column("smallest in a proxy"),
            Column("largest in a proxy"),
            Column("at most", hint="the largest share that a target run may read without more epochs"),
        ],
        rows=rows,
    )


def _by_optimum(made: Made) -> list[tuple[str, dict[str, Any]]]:
    """Return the sources, the largest share of the optimum first."""
    return sorted(made["sources"].items(), key=lambda each: (-each[1]["optimum"], each[0]))


def _objective(made: Made) -> Table:
    names = {NATURAL: "natural", BEST_PROXY: "best proxy", OPTIMUM: "optimum"}
    measured = [each["actual"] for each in made["proxies"]]
    actual = {NATURAL: fixed(measured[0], DIGITS), BEST_PROXY: fixed(min(measured), DIGITS), OPTIMUM: "—"}

    def row(key: str) -> list[Cell]:
        predicted = fixed(made["predicted"][key], DIGITS)
        return [names[key], Bold(predicted) if key == OPTIMUM else predicted, actual[key]]

    return Table(
        title="Objective: the weighted metrics; lower is better",
        columns=[Column("mixture"), Column("predicted"), Column("measured, one seed")],
        rows=[row(key) for key in names],
        note="The best of many proxies is best partly by luck. The validation trains all three with new seeds.",
    )


def _held_out(made: Made) -> Curves:
    """Plot the held-out prediction of each proxy against its measurement."""
    pairs = sorted((each["actual"], each["predicted"]) for each in made["proxies"])
    actual = [pair[0] for pair in pairs]
    found = made["held_out"]
    return Curves(
        title="Held-out proxies: predicted against measured",
        x="measured objective",
        y="objective",
        series=[
            Series(name="predicted", x=actual, y=[pair[1] for pair in pairs], dots=True),
            Series(name="measured", x=actual, y=actual),
        ],
        note=f"Each prediction is by a fit without that proxy. Rank correlation {found['rank']:.2f}, error "
        f"{found['error']:.2g}, {found['of_spread']:.0%} of the spread of the proxies.",
    )


def _errors(made: Made) -> Block:
    rows: list[Row] = []
    for metric, found in made["models"].items():
        for name, one in found["errors"].items():
            state: Cell = Tag("chosen", Tone.GOOD) if name == found["chosen"] else ""
            rows.append(
                [in_words(metric), name, f"{one['rank']:.2f}", f"{one['error']:.3g}", f"{one['of_spread']:.0%}", state]
            )
    return Table(
        title="Models on held-out proxies",
        columns=[
            Column("metric"),
            Column("model"),
            Column("rank correlation"),
            Column("error", hint="root mean squared, in the unit of the metric"),
            Column("error of spread", hint="error over the standard deviation of the metric over proxies"),
            Column(""),
        ],
        rows=rows,
        note="Chosen: the simplest model whose error is within a standard error of the least.",
    )
