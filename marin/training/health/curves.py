"""The input of the detectors: metrics of metrics.jsonl as arrays, and their scatter. Shapes: n rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Rows = Sequence[Mapping[str, Any]]

NORMAL = 1.4826  # median absolute deviation → standard deviation of a normal variable
BLOCK = 20  # steps to average into one value if neighbours may depend on each other


@dataclass(frozen=True)
class Curve:
    """A metric by optimizer step. step: optimizer step of each value. value: finite values."""

    step: Array
    value: Array

    def __len__(self) -> int:
        return len(self.step)

    def between(self, first: float, end: float) -> Curve:
        """Return the part with first <= step < end."""
        inside = (self.step >= first) & (self.step < end)
        return Curve(self.step[inside], self.value[inside])

    def without(self, spans: Sequence[tuple[int, int]]) -> Curve:
        """Return the curve without the steps of these spans. A span includes its last step."""
        kept = np.ones(len(self), np.bool_)
        for first, last in spans:
            kept &= (self.step < first) | (self.step > last)
        return Curve(self.step[kept], self.value[kept])


def curve(rows: Rows, name: str) -> Curve:
    """Return the finite values of one metric."""
    found = [(row["step"], row[name]) for row in rows if isinstance(row.get(name), int | float)]
    points = np.array([point for point in found if math.isfinite(point[1])], np.float64).reshape(-1, 2)
    return Curve(points[:, 0], points[:, 1])


def changes_of(rows: Rows) -> dict[int, list[str]]:
    """Return the planned changes, by step."""
    return {row["step"]: list(row["changed"]) for row in rows if row.get("changed")}


def scatter(values: Array) -> float:
    """Return the standard deviation of noise around a slow course, from differences of neighbours.

    Outliers count little.
    """
    if len(values) < 3:
        return 0.0
    return float(NORMAL * np.median(np.abs(np.diff(values))) / math.sqrt(2))


def block_scatter(values: Array, block: int = BLOCK) -> float:
    """Return the scatter of one value as it counts for a mean of many values that depend on their neighbours."""
    count = len(values) // block
    if count < 4:
        return scatter(values)
    means = values[: count * block].reshape(count, block).mean(axis=1)
    return max(scatter(means) * math.sqrt(block), scatter(values) / 2)
