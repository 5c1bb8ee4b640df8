"""Data that scripts draw on a page, as JSON in the page; and the scripts and styles themselves."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import accumulate, pairwise
from typing import Any, cast

from markupsafe import Markup

from marin.report.page.trainings import Stretch, Training
from marin.report.section import Curves, Mark
from marin.report.words import grouped
from marin.store.redaction import redacted

LEVEL = 6  # of compression; 9 takes six times as long for 1 % less
PLAIN = 2_000  # characters of JSON; longer JSON is compressed
MOST_POINTS = 40_000  # of all runs of a figure together: 0.8 MB; a screen has some 1,000 beside one another
NAMED = 3  # arms that an event names; with more, it gives their number
SCRIPTS = (
    "static/uPlot-1.6.32.iife.min.js",
    "static/dagre-3.1.3.min.js",
    *(f"templates/{name}.js" for name in ("page", "figure", "graph", "steps")),
)
STYLES = ("static/uPlot-1.6.32.min.css", "templates/figures.css")
PANELS = {
    "loss": "loss (nats per token)",
    "learning_rate": "learning rate",
    "grad_norm": "gradient norm",
    "tokens_per_second": "tokens/s",
}


def packed(value: Any) -> Markup:
    """Return JSON for a script element of type application/json. Long JSON becomes a string: base64 of its gzip.

    NaN and infinity become null, numbers have 5 digits. Credentials are removed here, because no later search can find
    them in compressed text.
    """
    text = json.dumps(_plain(value), separators=(",", ":"), allow_nan=False)
    if len(text) <= PLAIN:
        return Markup(text.replace("<", "\\u003c"))
    return Markup(f'"{base64.b64encode(gzip.compress(text.encode(), LEVEL, mtime=0)).decode()}"')


def _plain(value: Any) -> Any:
    match value:
        case str():
            return redacted(value)
        case None | bool() | int():
            return value
        case float():
            return _number(value)
        case Mapping():
            return {redacted(str(key)): _plain(each) for key, each in cast("Mapping[Any, Any]", value).items()}
        case Iterable():
            return [_plain(each) for each in cast("Iterable[Any]", value)]
        case _:
            return _number(float(value))


def _number(value: float) -> float | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() else short


@cache
def script() -> str:
    """Return every script of a page in one text, so that a policy can allow it by its digest."""
    return "\n".join(_file(name).partition("//# sourceMappingURL")[0] for name in SCRIPTS)


@cache
def style() -> str:
    return "\n".join(_file(name) for name in STYLES)


def _file(name: str) -> str:
    return resources.files("marin.report.page").joinpath(name).read_text(encoding="utf-8")


def training(
    runs: Sequence[Training], phases: Sequence[Stretch], arms: Sequence[str], marks: Sequence[Mark] = ()
) -> dict[str, Any]:
    """Return the figure of training curves; {} without a point. marks: in addition to the events of the runs."""
    runs = [run for run in runs if run.rows]
    if not runs:
        return {}
    hours, tokens = _hours(runs), [run.column("tokens") for run in runs]
    axes = ["step", *(["tokens"] if all(tokens) else []), *(["hours"] if all(hours) else [])]
    drawn = [
        curve(
            run.arm or run.name,
            list(arms).index(run.arm) if run.arm in arms else None,
            {name: x for name, x in (("step", run.column("step")), ("tokens", of), ("hours", taken)) if name in axes},
            {text: values for name, text in PANELS.items() if (values := run.column(name))},
            MOST_POINTS // len(runs),
        )
        for run, of, taken in zip(runs, tokens, hours, strict=True)
    ]
    panels = [text for text in PANELS.values() if any(text in run["y"] for run in drawn)]
    return {
        "axes": axes,
        "panels": panels,
        "runs": drawn,
        "phases": [phase._asdict() for phase in phases],
        "marks": _marks(runs, marks),
        "is_training": True,
    }


def curve(
    name: str, colour: int | None, x: Mapping[str, Sequence[float]], y: Mapping[str, Sequence[float]], most: int
) -> dict[str, Any]:
    """Return a run in a figure of trainings. colour: number of its arm. x: by axis, as differences; y: by panel.

    A run of more than ``most`` points is thinned: each two points are the least and the largest value of a stretch, in
    their order. ``mean`` is the mean of the stretch, for running means. stride: how many points one stands for.
    """
    count = len(next(iter(x.values())))
    if count <= most:
        return {"name": name, "colour": colour, "x": {axis: _differences(at) for axis, at in x.items()}, "y": y}
    cuts = [index * count // (most // 2) for index in range(most // 2 + 1)]
    spans = list(pairwise(cuts))
    thin = {panel: [_of_stretch(values[start:end]) for start, end in spans] for panel, values in y.items()}
    return {
        "name": name,
        "colour": colour,
        "stride": count / (2 * len(spans)),
        "x": {
            axis: _differences([at[index] for start, end in spans for index in (start, (start + end) // 2)])
            for axis, at in x.items()
        },
        "y": {panel: [value for ends, _ in found for value in ends] for panel, found in thin.items()},
        "mean": {panel: [value for _, mean in found for value in (mean, mean)] for panel, found in thin.items()},
    }


def _of_stretch(values: Sequence[float]) -> tuple[tuple[float, float], float]:
    finite = [(value, index) for index, value in enumerate(values) if math.isfinite(value)]
    if not finite:
        return (math.nan, math.nan), math.nan
    first, second = sorted((min(finite), max(finite)), key=lambda found: found[1])
    return (first[0], second[0]), math.fsum(value for value, _ in finite) / len(finite)


def _differences(values: Sequence[float]) -> list[float]:
    """Return the first value, then the increase to each next one: a third of the bytes.

    Sums stay right to a hundredth of a step.
    """
    span = (values[-1] - values[0]) / len(values)
    digits = 2 - math.floor(math.log10(span)) if span > 0 else 6
    rounded = [round(value, max(digits, 0)) for value in values]
    return [rounded[0], *(round(after - before, max(digits, 0)) for before, after in pairwise(rounded))]


def _hours(runs: Sequence[Training]) -> list[list[float]]:
    """Return the hours at which each step of each run ended, counted from the beginning of the first run behind it."""
    found: list[list[float]] = []
    for run in runs:
        earlier = [
            taken
            for other, taken in zip(runs, found, strict=False)
            if not other.arm and other.rows[-1]["step"] < run.rows[0]["step"]
        ]
        before = max((taken[-1] for taken in earlier if taken), default=0.0)
        hours = [seconds / 3600 if math.isfinite(seconds) else 0.0 for seconds in run.column("seconds")]
        found.append(list(accumulate(hours, initial=before))[1:])
    return found


def _marks(runs: Sequence[Training], more: Sequence[Mark]) -> list[dict[str, Any]]:
    """Return each mark once. A mark that not all arms have begins with the names of those that do."""
    of = {run.name: run.arm for run in runs}
    every = [*(mark for run in runs for mark in run.events), *more]
    said = [((mark.step, mark.text, mark.bad), of[mark.run]) for mark in every if mark.run in of]
    arms, found = set(of.values()) - {""}, list[dict[str, Any]]()
    for (step, text, bad), whose in sorted(grouped(said).items(), key=lambda item: item[0][0]):
        who = list(dict.fromkeys(whose))
        named = ", ".join(who) if len(who) <= NAMED else f"{len(who)} of {len(arms)} runs"
        found.append({"step": step, "text": f"{named}: {text}" if all(who) and set(who) != arms else text, "bad": bad})
    return found


def lines(block: Curves, arms: Sequence[str]) -> dict[str, Any]:
    """Return a figure of any curves. If no series belongs to an arm, the series take the arms' colours in turn."""
    named = list(arms) if any(one.arm in arms for one in block.series) else [one.name for one in block.series]
    drawn: list[dict[str, Any]] = []
    for one in block.series:
        key = one.arm if one.arm in named else one.name
        colour = named.index(key) if key in named else None
        run = {"name": one.name, "colour": colour, "x": {block.x: one.x}, "y": {block.y: one.y}, "dots": one.dots}
        if len(one.x):
            drawn.append(run | ({"low": one.low, "high": one.high} if one.low and one.high else {}))
    return {
        "axes": [block.x],
        "panels": [block.y],
        "runs": drawn,
        "ticks": list(block.ticks.items()),
        "line": block.line,
    }
