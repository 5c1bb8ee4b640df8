"""Detect batches that are not drawn independently, from the losses of consecutive steps. Shapes: n steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from marin.training.health.curves import NORMAL, Curve
from marin.training.health.level_shift import around_course

SHORTEST = 80  # steps
LAGS = 8
SURE = 6.0  # least z of the largest of LAGS correlations
STRONG = 0.3  # least correlation that matters


@dataclass(frozen=True)
class Wave:
    """The strongest correlation between losses. lag: steps apart. pattern: in words."""

    lag: int
    correlation: float
    z: float
    pattern: str


def waves(held: Curve, *beside: Curve) -> Wave | None:
    """Return the strongest correlation, or None if losses scatter independently around their course.

    Losses of independent batches scatter independently. The course is a loss curve's course; outliers are cut to five
    deviations. z = r·√n. beside: see ``around_course``.
    """
    n = len(held)
    if n < SHORTEST:
        return None
    residual, _ = around_course(held, *beside)
    residual -= np.median(residual)
    limit = 5 * NORMAL * float(np.median(np.abs(residual)))
    residual = np.clip(residual, -limit, limit)
    total = float((residual * residual).sum())
    if not total:
        return None
    correlations = [float((residual[:-lag] * residual[lag:]).sum()) / total for lag in range(1, LAGS + 1)]
    strong = np.abs(correlations)
    lag = int(np.argmax(strong >= 0.9 * strong.max())) + 1  # the first lag that is about as strong as the strongest
    found = correlations[lag - 1]
    z = abs(found) * math.sqrt(n)
    if z < SURE or abs(found) < STRONG:
        return None
    period = 2 * lag if found < 0 else lag
    stretches = found > 0 and correlations[0] > 0
    return Wave(lag, found, z, "similar ones come in stretches" if stretches else f"they repeat every {period} steps")
