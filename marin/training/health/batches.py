"""Measure the distance of a run's batches from independent draws, beside the values that chance alone would give.

marin compares every measure with simulated runs. A simulated run draws the same number of sequences from each source in
each batch, each epoch of a source in a uniformly random order. A run can depart from this in two directions: clumped
(sequences of a batch are neighbours) or too even (sequences of a batch avoid each other).

Arrays: n draws, T batches, S sources; a cell is one source in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.data.order import DataOrder
from marin.errors import BadField

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
GroupOf = Callable[[int, I64], I64]
"""(source number, sequences) → the number of each sequence's group: its document, block or shard."""

NEAR = 1 / 32  # two sequences are near if they are closer than this part of their source
PARTS = 32  # equal parts of a source, for coverage
CLASSES = 64  # divisor of the measure "remainder"
WINDOWS = 8  # coverage is counted over this many windows of consecutive batches
LARGEST_SHUFFLED = 1 << 20  # longer sources are simulated by draws with replacement, because repeats are rare

MEASURES: Mapping[str, str] = {
    "same_group": "pairs of one source in one batch that come from one document (or block)",
    "near": "pairs of one source in one batch that lie within 1/32 of their source",
    "discrepancy": "Cramér-von Mises distance of a batch's positions in a source from uniform, mean over cells",
    "mean_position": "variance of a cell's mean position, relative to independent draws",
    "parity": "pairs of one source in one batch whose numbers are both even or both odd",
    "remainder": "pairs of one source in one batch whose numbers have the same remainder by 64",
    "phase": "correlation of a source's mean position between consecutive batches",
    "coverage": "32nds of the sources that eighths of the run touch",
}
IN_WORDS: Mapping[str, str] = {
    "same_group": "sequences of one document in a batch",
    "near": "neighbours in a batch",
    "discrepancy": "unevenness of a batch over its sources",
    "mean_position": "wandering of where a batch lies",
    "parity": "sequences of one parity in a batch",
    "remainder": "sequences of one remainder by 64 in a batch",
    "phase": "likeness of consecutive batches",
    "coverage": "parts of the sources that are touched",
}
PER_BATCH = ("same_group", "near", "discrepancy", "mean_position", "parity", "remainder")


@dataclass(frozen=True, kw_only=True)
class Draws:
    """The sequences that a run read. batch: (n,) 0 … T-1, ascending. source, sequence: (n,).

    lengths: (S,) sequences in each source. before: (S,) draws of each source before the first batch.
    """

    batch: I64
    source: I64
    sequence: I64
    lengths: I64
    before: I64

    @property
    def batches(self) -> int:
        return int(self.batch[-1]) + 1


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measure of the run against its reference. percentile: share of simulated runs below (ties half)."""

    value: float
    reference_mean: float
    reference_sd: float
    z: float
    percentile: float


@dataclass(frozen=True, kw_only=True)
class Series:
    """A measure for every batch, (T,) each, with the middle 98 % of its simulated values."""

    value: list[float]
    reference_mean: list[float]
    reference_low: list[float]
    reference_high: list[float]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All measures of a run and of its batches, by measure name."""

    run: dict[str, Measured]
    per_batch: dict[str, Series]


def measures(draws: Draws, group_of: GroupOf) -> tuple[dict[str, float], dict[str, F64]]:
    """Return each of MEASURES for the run, and each of PER_BATCH for every batch, (T,)."""
    sources = len(draws.lengths)
    cell = draws.batch * sources + draws.source
    group = np.empty_like(draws.sequence)
    for source in range(sources):
        mine = draws.source == source
        group[mine] = group_of(source, draws.sequence[mine])
    series = _per_batch(draws, cell, group)
    deviation = _mean_deviation(draws, cell)
    run = {name: float(np.mean(series[name])) for name in PER_BATCH}
    run["phase"] = _phase(deviation)
    run["coverage"] = _coverage(draws)
    return run, series


def compare(draws: Draws, group_of: GroupOf, *, seed: int, simulations: int = 200) -> Comparison:
    """Return the run's measures beside their reference distributions from ``simulations`` runs of independent draws."""
    if simulations < 20:
        raise BadField(f"compare: {simulations} simulated runs say nothing about a tail, wanted at least 20")
    rng = np.random.default_rng(seed)
    observed, series = measures(draws, group_of)
    runs: dict[str, list[float]] = {name: [] for name in MEASURES}
    rows: dict[str, list[F64]] = {name: [] for name in PER_BATCH}
    for _ in range(simulations):
        simulated, per_batch = measures(independent(draws, rng), group_of)
        for name, number in simulated.items():
            runs[name].append(number)
        for name in PER_BATCH:
            rows[name].append(per_batch[name])
    per_batch_series: dict[str, Series] = {}
    for name in PER_BATCH:
        table = np.array(rows[name])
        low, high = np.quantile(table, (0.01, 0.99), axis=0)
        per_batch_series[name] = Series(
            value=series[name].tolist(),
            reference_mean=table.mean(axis=0).tolist(),
            reference_low=low.tolist(),
            reference_high=high.tolist(),
        )
    return Comparison(run={name: against(observed[name], runs[name]) for name in MEASURES}, per_batch=per_batch_series)


def against(value: float, reference: Sequence[float]) -> Measured:
    """Return a number's place among reference numbers. z is 0 if all reference numbers equal the number."""
    held = np.asarray(reference)
    mean, sd = float(held.mean()), float(held.std(ddof=1))
    away = value - mean
    z = away / sd if sd > 0 else (0.0 if away == 0 else float(np.copysign(np.inf, away)))
    percentile = float((held < value).mean() + (held == value).mean() / 2)
    return Measured(value=value, reference_mean=mean, reference_sd=sd, z=z, percentile=percentile)


def independent(draws: Draws, rng: np.random.Generator) -> Draws:
    """Return the same batches and sources with independently drawn sequences, each epoch without repeats."""
    sequence = np.empty_like(draws.sequence)
    for source, length in enumerate(draws.lengths.tolist()):
        mine = np.flatnonzero(draws.source == source)
        if length > LARGEST_SHUFFLED:
            sequence[mine] = rng.integers(0, length, mine.size)
            continue
        skip = int(draws.before[source]) % length
        epochs = -(-(skip + mine.size) // length)
        order: list[I64] = [rng.permutation(length) for _ in range(epochs)]
        if order:
            sequence[mine] = np.concatenate(order)[skip : skip + mine.size]
    return Draws(batch=draws.batch, source=draws.source, sequence=sequence, lengths=draws.lengths, before=draws.before)


def _per_batch(draws: Draws, cell: I64, group: I64) -> dict[str, F64]:
    batches, sources = draws.batches, len(draws.lengths)
    cells = batches * sources

    def pairs_alike(kind: I64) -> F64:
        """Return (T,) the number of pairs of one cell that are of one kind."""
        codes, held = np.unique(cell * (int(kind.max()) + 1) + kind, return_counts=True)
        of_cell = codes // (int(kind.max()) + 1)
        return np.bincount(of_cell // sources, weights=held * (held - 1) / 2, minlength=batches)

    # Cells lie apart by more than any distance within a cell, so a window never reaches into the next cell.
    apart = 2 * int(draws.lengths.max()) + 2
    order = np.argsort(cell * apart + draws.sequence, kind="stable")
    keys = (cell * apart + draws.sequence)[order]
    reach = np.maximum(1, (draws.lengths * NEAR).astype(np.int64))[draws.source[order]]
    pairs = np.searchsorted(keys, keys + reach, side="right") - np.arange(keys.size) - 1
    near = np.bincount(draws.batch[order], weights=pairs.astype(float), minlength=batches)

    size = np.bincount(cell, minlength=cells)
    sorted_cell = cell[order]
    rank = np.arange(keys.size) - (np.cumsum(size) - size)[sorted_cell]
    position = (draws.sequence[order] + 0.5) / draws.lengths[draws.source[order]]
    off = ((2 * rank + 1) / (2 * size[sorted_cell]) - position) ** 2
    used = size > 0
    statistic = np.bincount(sorted_cell, weights=off, minlength=cells)
    statistic[used] += 1 / (12 * size[used])
    cells_used = used.reshape(batches, sources).sum(axis=1)
    discrepancy = statistic.reshape(batches, sources).sum(axis=1) / cells_used

    deviation = _mean_deviation(draws, cell)
    mean_position = (deviation**2).sum(axis=1) / cells_used
    return {
        "same_group": pairs_alike(group),
        "near": near,
        "discrepancy": discrepancy,
        "mean_position": mean_position,
        "parity": pairs_alike(draws.sequence % 2),
        "remainder": pairs_alike(draws.sequence % CLASSES),
    }


def _mean_deviation(draws: Draws, cell: I64) -> F64:
    """Return (T, S) each cell's mean position, in standard deviations under independence; 0 for an empty cell."""
    batches, sources = draws.batches, len(draws.lengths)
    size = np.bincount(cell, minlength=batches * sources).reshape(batches, sources)
    position = (draws.sequence + 0.5) / draws.lengths[draws.source]
    total = np.bincount(cell, weights=position, minlength=batches * sources).reshape(batches, sources)
    filled = np.maximum(size, 1)
    return np.where(size > 0, (total / filled - 0.5) * np.sqrt(12 * filled), 0.0)


def _phase(deviation: F64) -> float:
    scale = float((deviation**2).sum())
    return float((deviation[:-1] * deviation[1:]).sum()) / scale if scale else 0.0


def _coverage(draws: Draws) -> float:
    """Return the share of (window, source, part) that the run touches."""
    windows = min(WINDOWS, draws.batches)
    window = draws.batch * windows // draws.batches
    part = draws.sequence * PARTS // draws.lengths[draws.source]
    sources = len(draws.lengths)
    touched = np.unique((window * sources + draws.source) * PARTS + part).size
    return touched / (windows * np.unique(draws.source).size * PARTS)


def draws_of(order: DataOrder[Any], steps: Sequence[int]) -> Draws:
    """Return the sequences that a data order reads in these optimizer steps, in order."""
    read = [order.batch_at(step) for step in steps]
    return Draws(
        batch=np.repeat(np.arange(len(steps)), [len(source) for source, _ in read]),
        source=np.concatenate([source for source, _ in read]),
        sequence=np.concatenate([sequence for _, sequence in read]),
        lengths=order.lengths,
        before=order.draws_before(order.batch.sequences_before(steps[0])),
    )
