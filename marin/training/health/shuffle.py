"""The evidence about one run's data order, as JSON-able data for a report and its page."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, cast

import numpy as np

from marin.data.mixture import Shuffle
from marin.data.order import DataOrder
from marin.training.health.batches import MEASURES, Draws, GroupOf, compare, draws_of, measures

CONSECUTIVE = 8  # batches measured in a row where a run is too long to measure whole
FAR = 5.0  # |z| beyond which a measure is called out


def measured_steps(first: int, end: int, batches: int) -> list[int]:
    """At most ``batches`` optimizer steps: all of them, or evenly spaced stretches of consecutive ones."""
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
    """What optimizer steps first … end - 1 draw, how that compares with chance, and with other seeds.

    Keys: shuffle, seed, first, end, steps, sources, starved, measures (name → value, reference_mean,
    reference_sd, z, percentile), per_batch (name → value, reference_mean, reference_low,
    reference_high, by step), over_seeds (name → quantiles of LINEAR and FEISTEL over ``seeds`` seeds
    and the share of linear seeds outside all of Feistel's). Numbers carry 6 digits; an infinite z is null.
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
    """One sentence about an arm's run_evidence: how many measures are far from chance, and the farthest."""
    measured: dict[str, dict[str, float | None]] = evidence["measures"]
    z = {each: math.inf if held["z"] is None else held["z"] for each, held in measured.items()}
    far = [each for each in z if abs(z[each]) > FAR]
    farthest = max(z, key=lambda each: abs(z[each]))
    held = measured[farthest]
    return (
        f"{name} ({evidence['shuffle']}): {len(far)} of {len(measured)} measures of its batches are further than "
        f"z = {FAR:g} from independent draws; the farthest, {farthest}, is {held['value']:.3g} where chance gives "
        f"{held['reference_mean']:.3g} ± {held['reference_sd']:.2g} (z {z[farthest]:+.1f})"
    )


def rounded(data: Any) -> Any:
    """The same JSON-able data with floats at 6 significant digits and non-finite ones as None."""
    if isinstance(data, float):
        return float(f"{data:.6g}") if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: rounded(held) for key, held in cast(dict[str, Any], data).items()}
    if isinstance(data, (list, tuple)):
        return [rounded(held) for held in cast(list[Any], data)]
    return data


def _sources(order: DataOrder[Any], first: int, end: int) -> list[dict[str, Any]]:
    """Per source: what was meant and what is drawn, over the whole of the steps."""
    counts, epochs = order.effective_counts(first, end), order.epochs(end)
    total = sum(counts.values())
    meant: dict[Any, float] = dict.fromkeys(order.sources, 0.0)
    starts = order.stages.starts
    for stage, next_stage in zip(starts, (*starts[1:], end), strict=True):
        start, stop = max(first, stage), min(end, next_stage)
        if start < stop:
            share = (order.batch.sequences_before(stop) - order.batch.sequences_before(start)) / total
            for source, weight in order.stages.at[stage].weights.items():
                meant[source] += share * weight
    return [
        {
            "name": name,
            "sequences": int(length),
            "drawn": counts[source],
            "share": counts[source] / total,
            "meant": meant[source],
            "epochs": epochs[source],
        }
        for source, name, length in zip(order.sources, order.names, order.lengths, strict=True)
    ]


def _over_seeds(
    order: DataOrder[Any], steps: list[int], group_of: GroupOf, drawn: Draws, seeds: int
) -> dict[str, dict[str, Any]]:
    found: dict[Shuffle, dict[str, list[float]]] = {}
    for shuffle in Shuffle:
        found[shuffle] = {name: [] for name in MEASURES}
        for seed in range(seeds):
            run, _ = measures(draws_of(order.redrawn(shuffle, seed), steps), group_of)
            for name, number in run.items():
                found[shuffle][name].append(number)
    this_run, _ = measures(drawn, group_of)
    table: dict[str, dict[str, Any]] = {}
    for name in MEASURES:
        linear, feistel = (np.array(found[shuffle][name]) for shuffle in (Shuffle.LINEAR, Shuffle.FEISTEL))
        table[name] = {
            "seeds": seeds,
            "this_run": this_run[name],
            "linear": np.quantile(linear, (0, 0.25, 0.5, 0.75, 1)).tolist(),
            "feistel": np.quantile(feistel, (0, 0.25, 0.5, 0.75, 1)).tolist(),
            "linear_above_all_feistel": float((linear > feistel.max()).mean()),
            "linear_below_all_feistel": float((linear < feistel.min()).mean()),
        }
    return table
