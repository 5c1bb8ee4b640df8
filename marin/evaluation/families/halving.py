"""Successive halving: which points of a sweep go on after a rung."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from marin.evaluation.families.point import Point, in_words
from marin.evaluation.families.sweep import Member
from marin.evaluation.metric_names import is_better_lower, measure_of


def halving_report(
    members: Sequence[Member], names: Sequence[str], metric: str, keep: int, before: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """Return report.json and the headline: {"means", "kept", "cut"}, each by point in words.

    keep: points that go on. before: the reasons of earlier cuts, by point; ``cut`` holds them too. A point with a
    diverged run is cut.
    """
    turn = 1.0 if is_better_lower(metric) else -1.0
    runs: dict[Point, list[Member]] = {}
    for member in members:
        if in_words(names, member.point) not in before:
            runs.setdefault(member.point, []).append(member)
    means = {
        point: math.inf if any(one.diverged for one in of) else turn * fmean(one.metric for one in of)
        for point, of in runs.items()
    }
    ranked = sorted(means, key=lambda point: (means[point], point))
    kept = [point for point in ranked[:keep] if math.isfinite(means[point])]
    cut = dict(before)
    for place, point in enumerate(ranked, start=1):
        if point not in kept:
            lost = next((one.diverged for one in runs[point] if one.diverged), "")
            rank = f"place {place} of {len(ranked)} by {metric}, {turn * means[point]:.4g} {measure_of(metric)}"
            cut[in_words(names, point)] = f"diverged: {lost}" if lost else f"{rank}; {keep} went on"
    made = {
        "metric": metric,
        "means": {
            in_words(names, point): turn * mean if math.isfinite(mean) else None for point, mean in means.items()
        },
        "kept": [in_words(names, point) for point in kept],
        "cut": cut,
    }
    return made, [f"{len(kept)} of {len(ranked)} points go on: {'; '.join(in_words(names, point) for point in kept)}."]
