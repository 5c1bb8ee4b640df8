"""The report of a sweep: which value is best, whether the grid is wide enough, and which runs diverged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from marin.errors import NothingScored
from marin.evaluation.families.curve import LEVEL, Noise, as_good, is_geometric, minimum, noise
from marin.evaluation.families.point import Point, in_words
from marin.evaluation.metric_names import is_better_lower, measure_of, task_of

WINDOW = 0.05  # share of a run's steps whose mean loss stands for its end, and for the lowest loss
GIVEN_BACK = 0.5  # share of what a run had learned; a run that ends with less than the rest has diverged


@dataclass(frozen=True, kw_only=True)
class Member:
    """One run of a sweep. point: the value of each parameter. diverged: how it diverged, "" for a run that did not."""

    point: Point
    seed: int
    metric: float
    diverged: str = ""


def has_diverged(losses: Sequence[float]) -> bool:
    """Return whether a run gave back half of what it had learned: its loss at the end against its lowest and its first.

    losses: of each optimizer step. Means over WINDOW of the steps are compared, so that one spike is no divergence.
    """
    width = max(1, round(WINDOW * len(losses)))
    means = [fmean(losses[at : at + width]) for at in range(len(losses) - width + 1)]
    if not means:
        return False
    lowest = min(means)
    return means[-1] - lowest > GIVEN_BACK * max(losses[0] - lowest, 0.0) > 0


def sweep_report(
    members: Sequence[Member], names: Sequence[str], metric: str, rungs: Sequence[Mapping[str, Any]] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return report.json and the headline of a sweep over one or two parameters.

    names: of the parameters, in the order of ``Member.point``. metric: as evaluations name it; where higher is better,
    curves are fitted to its negative. rungs: the reports of successive halving (marin.evaluation.families.halving).
    Raises NothingScored if no point, or without halving fewer than two, reached its end without divergence.
    """
    turn = 1.0 if is_better_lower(metric) else -1.0
    points = sorted({member.point for member in members})
    runs = {point: sorted((one for one in members if one.point == point), key=lambda one: one.seed) for point in points}
    cut: Mapping[str, str] = rungs[-1]["cut"] if rungs else {}
    lost = {point: why for point in points if (why := next((one.diverged for one in runs[point] if one.diverged), ""))}
    whole = [point for point in points if point not in lost and in_words(names, point) not in cut]
    if len(whole) < (1 if rungs else 2):
        raise NothingScored(
            f"{len(lost)} of {len(points)} points diverged; a sweep needs two that reach their end. Try lower values"
        )
    means = {point: fmean(_metric(one, metric) for one in runs[point]) for point in whole}
    seeds = min(len(runs[point]) for point in whole)
    table = {point: [turn * one.metric for one in runs[point][:seeds]] for point in whole}
    found = noise(list(table.values()))
    best = min(whole, key=lambda point: turn * means[point])
    may = as_good([fmean(row) for row in table.values()], found, seeds)
    axes = {name: _axis(place, best, points, table) for place, name in enumerate(names)}
    read = _Read(
        names, metric, best, [point for point, good in zip(whole, may, strict=True) if good], means, found, axes
    )
    verdict, answer, more = _selected(read, cut) if rungs else _decision(read)
    if lost:
        more.append(f"Diverged: {'; '.join(in_words(names, point) for point in lost)}.")
    made: dict[str, Any] = {
        "parameters": list(names),
        "metric": metric,
        "seeds": seeds,
        "verdict": verdict,
        "answer": answer,
        "more": more,
        "best": list(best),
        "as_good": [list(point) for point in read.equal],
        "deviation": found.deviation if found.freedom else None,
        "p": found.p if found.freedom else None,
        "axes": axes,
        "points": [
            {
                "point": list(point),
                "mean": means.get(point),
                "diverged": lost.get(point, ""),
                "cut": cut.get(in_words(names, point), ""),
                "runs": {str(one.seed): one.metric for one in runs[point]},
            }
            for point in points
        ],
        "rungs": [dict(each["means"]) for each in rungs],
    }
    return made, [answer, *more]


@dataclass(frozen=True)
class _Read:
    """What the runs show. equal: points not shown to be worse than the best. axes: by parameter."""

    names: Sequence[str]
    metric: str
    best: Point
    equal: Sequence[Point]
    means: Mapping[Point, float]
    noise: Noise
    axes: Mapping[str, Mapping[str, Any]]

    @property
    def best_in_words(self) -> str:
        return in_words(self.names, self.best)

    @property
    def value(self) -> str:
        return f"{task_of(self.metric)}: {self.means[self.best]:.4g} {measure_of(self.metric)}"


def _metric(member: Member, name: str) -> float:
    if not math.isfinite(member.metric):
        raise NothingScored(f"{name} at {member.point}, seed {member.seed}, is {member.metric}; evaluate it again")
    return member.metric


def _axis(place: int, best: Point, points: Sequence[Point], table: Mapping[Point, Sequence[float]]) -> dict[str, Any]:
    """Return what a parameter shows along the line through the best point: its minimum, and whether that is an edge."""
    tried = sorted({point[place] for point in points})
    others = [at for at in range(len(best)) if at != place]
    along = sorted(point for point in table if all(point[at] == best[at] for at in others))
    geometric = is_geometric(tried)
    found = minimum([point[place] for point in along], [table[point] for point in along], geometric=geometric)
    edge = {tried[0]: "lowest", tried[-1]: "highest"}.get(best[place], "")
    return {
        "values": tried,
        "geometric": geometric,
        "edge": edge,
        "next": _beyond(tried, edge, geometric=geometric) if edge else None,
        "minimum": None if found is None else {"value": found.value, "low": found.low, "high": found.high},
    }


def _beyond(tried: Sequence[float], edge: str, *, geometric: bool) -> float:
    """Return the next value beyond an edge, by the step of the grid there."""
    outer, inner = (tried[0], tried[1]) if edge == "lowest" else (tried[-1], tried[-2])
    value = outer * outer / inner if geometric else 2 * outer - inner
    return float(f"{value:.2g}")


def _decision(read: _Read) -> tuple[str, str, list[str]]:
    """Return the verdict in a word, the answer in a sentence, and further sentences."""
    more = [sentence for name in read.names if (sentence := _about_minimum(name, read.axes[name]))]
    if read.noise.freedom and read.noise.p > LEVEL:
        spread = f"Runs that differ only in their seed have a standard deviation of {read.noise.deviation:.2g}."
        answer = f"FLAT: no value is shown to differ from the others (F test, p = {read.noise.p:.2g})."
        return "FLAT", answer, [f"{read.best_in_words} is best. {spread}", *more]
    for name in read.names:
        if side := read.axes[name]["edge"]:
            answer = f"INCONCLUSIVE: the best value is the {side} {name} that was tried ({read.value})."
            wider = f"Add {name} {read.axes[name]['next']:g} and run again; marin trains only the new runs."
            return "INCONCLUSIVE", answer, [wider, *more]
    if not read.noise.freedom:
        answer = f"INCONCLUSIVE: {read.best_in_words} is best ({read.value}), but one seed does not show the noise."
        return "INCONCLUSIVE", answer, ["Give seeds=2 or more and run again; marin trains only the new runs.", *more]
    others = [in_words(read.names, point) for point in read.equal if point != read.best]
    if others:
        more.insert(0, f"Not shown to be worse: {'; '.join(others)}.")
    for place, name in enumerate(read.names):
        ends = {min(read.axes[name]["values"]), max(read.axes[name]["values"])}
        if outer := sorted({point[place] for point in read.equal} & ends):
            more.append(f"{name} {outer[0]:g} is at the edge and not shown to be worse: the best may lie beyond it.")
    return "BEST", f"BEST: {read.best_in_words} ({read.value}).", more


def _selected(read: _Read, cut: Mapping[str, str]) -> tuple[str, str, list[str]]:
    """As ``_decision``, for successive halving, which chooses and does not test."""
    answer = f"SELECTED: {read.best_in_words} ({read.value}) by successive halving."
    return "SELECTED", answer, [f"{len(cut)} points were cut on the way. Early scores chose them; no test did."]


def _about_minimum(name: str, axis: Mapping[str, Any]) -> str:
    found = axis["minimum"]
    if found is None or axis["edge"]:
        return ""
    lowest = f"The fitted curve is lowest at {name} {found['value']:.2g}"
    if found["low"] is None or found["high"] is None:
        return f"{lowest}; these runs do not bound its place."
    return f"{lowest} (95 % interval {found['low']:.2g} to {found['high']:.2g})."
