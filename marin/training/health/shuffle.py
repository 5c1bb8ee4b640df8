"""Collect the evidence about one run's data order, as JSON-able data for a report and its page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from marin.data.mixture import Shuffle
from marin.data.order import DataOrder
from marin.training.health.batches import (
    IN_WORDS,
    MEASURES,
    Draws,
    GroupOf,
    compare,
    draws_of,
    independent,
    measures,
)

CONSECUTIVE = 8  # batches to measure in a row if a run is too long to measure whole
TRUE_SHUFFLE = "true shuffle"  # among the permutations of over_seeds
FAR = 5.0  # |z| beyond which a measure is called out


def measured_steps(first: int, end: int, batches: int) -> list[int]:
    """Return at most ``batches`` optimizer steps: all steps, or evenly spaced stretches of consecutive steps."""
    if end - first <= batches:
        return list(range(first, end))
    stretch = min(CONSECUTIVE, batches)
    starts = np.linspace(first, end - stretch, batches // stretch).astype(int)
    return sorted({step for start in starts.tolist() for step in range(start, start + stretch)})


def run_evidence(
    order: DataOrder[Any],
    first: int,
    end: int,
    group_of: GroupOf,
    *,
    batches: int,
    simulations: int,
    seeds: int,
    seed: int,
) -> dict[str, Any]:
    """Return the draws of the optimizer steps first … end - 1, compared with chance and with other seeds.

    Keys: shuffle, seed, first, end, steps, sources, starved, measures (name → value, reference_mean,
    reference_sd, z, percentile), per_batch (name → value, reference_mean, reference_low,
    reference_high, by step), over_seeds (name → walks, above, below). walks: quantiles of each permutation and of true
    shuffles over ``seeds`` seeds. above, below: the share of each permutation's seeds beyond all true shuffles. Numbers
    carry 6 digits; an infinite z is null.
    """
    steps = measured_steps(first, end, batches)
    draws = draws_of(order, steps)
    compared = compare(draws, group_of, seed=seed, simulations=simulations)
    return rounded(
        {
            "shuffle": order.shuffle.name,
            "seed": order.seed,
            "first": first,
            "end": end,
            "steps": steps,
            "sources": _sources(order, first, end),
            "starved": [asdict(each) for each in order.starved(first, end)],
            "measures": {name: asdict(measured) for name, measured in compared.run.items()},
            "per_batch": {name: asdict(series) for name, series in compared.per_batch.items()},
            "over_seeds": _over_seeds(order, steps, group_of, draws, seeds) if seeds else {},
        }
    )


def headline(name: str, evidence: dict[str, Any]) -> str:
    """Return one sentence about an arm's run_evidence: the number of measures far from chance, and the farthest."""
    measured: dict[str, dict[str, float | None]] = evidence["measures"]
    z = {each: math.inf if held["z"] is None else held["z"] for each, held in measured.items()}
    far = [each for each in z if abs(z[each]) > FAR]
    farthest = max(z, key=lambda each: abs(z[each]))
    held = measured[farthest]
    return (
        f"{name} ({evidence['shuffle']}): {len(far)} of {len(measured)} measures of its batches are more than "
        f"{FAR:g} standard deviations from independent draws; the farthest, {IN_WORDS[farthest]}, is "
        f"{held['value']:.3g} where chance gives {held['reference_mean']:.3g} ± {held['reference_sd']:.2g}"
    )


def rounded(data: Any) -> Any:
    """Return the JSON-able data with floats at 6 significant digits, and None for non-finite floats."""
    if isinstance(data, float):
        return float(f"{data:.6g}") if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: rounded(held) for key, held in cast(dict[str, Any], data).items()}
    if isinstance(data, (list, tuple)):
        return [rounded(held) for held in cast(list[Any], data)]
    return data


def _sources(order: DataOrder[Any], first: int, end: int) -> list[dict[str, Any]]:
    """Return, for each source, the intended and the actual draws over all steps."""
    counts, epochs = order.effective_counts(first, end), order.epochs(end)
    total = sum(counts.values())
    meant = order.meant_counts(first, end)
    return [
        {
            "name": name,
            "sequences": int(length),
            "drawn": counts[source],
            "share": counts[source] / total,
            "meant": meant[source] / total,
            "epochs": epochs[source],
        }
        for source, name, length in zip(order.sources, order.names, order.lengths, strict=True)
    ]


def _over_seeds(
    order: DataOrder[Any], steps: list[int], group_of: GroupOf, drawn: Draws, seeds: int
) -> dict[str, dict[str, Any]]:
    def measured(walk: Callable[[int], Draws]) -> dict[str, NDArray[np.float64]]:
        runs = [measures(walk(seed), group_of)[0] for seed in range(seeds)]
        return {name: np.array([run[name] for run in runs]) for name in MEASURES}

    walks = {
        shuffle.value: measured(lambda seed, shuffle=shuffle: draws_of(order.redrawn(shuffle, seed), steps))
        for shuffle in Shuffle
    }
    true = measured(lambda seed: independent(drawn, np.random.default_rng(seed)))
    this_run, _ = measures(drawn, group_of)
    return {
        name: {
            "seeds": seeds,
            "this_run": this_run[name],
            "walks": {
                kind: np.quantile(found[name], (0, 0.25, 0.5, 0.75, 1)).tolist()
                for kind, found in (*walks.items(), (TRUE_SHUFFLE, true))
            },
            "above": {kind: float((found[name] > true[name].max()).mean()) for kind, found in walks.items()},
            "below": {kind: float((found[name] < true[name].min()).mean()) for kind, found in walks.items()},
        }
        for name in MEASURES
    }
