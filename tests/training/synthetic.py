"""Loss curves whose truth is known: a power law with noise, and what is put into it. Shapes: n steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from marin.training.health.curves import Curve
from marin.training.health.level_shift import shifts
from marin.training.health.order import waves
from marin.training.health.spikes import Became, spikes

STEPS, NOISE = 2000, 0.03  # nats
Array = npt.NDArray[np.float64]
STEP: Array = np.arange(STEPS, dtype=np.float64)


def noise(rng: np.random.Generator, persistence: float, steps: int = STEPS) -> Array:
    """Of deviation NOISE; persistence: correlation of neighbours."""
    fresh = rng.normal(0, NOISE * np.sqrt(1 - persistence**2), steps)
    made = np.empty(steps)
    made[0] = rng.normal(0, NOISE)
    for i in range(1, steps):
        made[i] = persistence * made[i - 1] + fresh[i]
    return made


def healthy(rng: np.random.Generator, persistence: float) -> Array:
    return 2 + 3 * (STEP + 1) ** -0.5 + noise(rng, persistence)


def spiked(rng: np.random.Generator, persistence: float, became: Became) -> tuple[Array, int]:
    """(losses, where the spike begins), half a nat high, falling back within 15 steps where it does."""
    at = int(rng.integers(500, 1500))
    since = STEP - at
    after, fall = since >= 0, 0.5 * np.exp(-np.maximum(since, 0) / 15)
    losses = healthy(rng, persistence)
    if became is Became.DIVERGED:
        return losses + after * np.minimum(3, 0.3 + 0.01 * np.maximum(since, 0)), at
    losses = losses + after * (fall + (0.08 if became is Became.PLATEAU else 0))
    return (losses[: at + 30] if became is Became.UNCLEAR else losses), at


def rates(runs: int, persistence: float, seed: int = 0) -> dict[str, float]:
    """Shares of so many runs, false alarms as their number a run."""
    rng = np.random.default_rng(seed)
    found: dict[str, float] = {}
    for name, count in _false_alarms(rng, runs, persistence):
        found[name] = count / runs
    for became in Became:
        right = 0
        for _ in range(runs):
            losses, at = spiked(rng, persistence, became)
            seen = [each for each in spikes(_curve(losses)) if abs(each.start - at) < 20]
            right += len(seen) == 1 and seen[0].became is became
        found[f"spike {became.value}"] = right / runs
    hits = 0
    for _ in range(runs):
        losses, at = healthy(rng, persistence), int(rng.integers(300, 1700))
        losses[at:] += NOISE
        hits += any(abs(each.step - at) < 60 for each in shifts(_curve(losses)))
    found["shift of one deviation"] = hits / runs
    return found


def leads(runs: int, lead: int, seed: int = 0) -> list[int | None]:
    """By how many steps the norm was said to rise earlier, where it rose ``lead`` steps earlier."""
    rng = np.random.default_rng(seed)
    found: list[int | None] = []
    for _ in range(runs):
        losses, at = spiked(rng, 0, Became.RECOVERED)
        norm = np.exp(rng.normal(np.log(0.2), 0.15, STEPS))
        norm[at - lead : at + 10] *= 4
        found += [each.lead for each in spikes(_curve(losses), _curve(norm)) if abs(each.start - at) < 20]
    return found


def _false_alarms(rng: np.random.Generator, runs: int, persistence: float) -> Iterator[tuple[str, int]]:
    curves = [_curve(healthy(rng, persistence)) for _ in range(runs)]
    yield "false spikes", sum(len(spikes(each)) for each in curves)
    yield "false shifts", sum(len(shifts(each)) for each in curves)
    if not persistence:
        yield "false orders", sum(waves(each) is not None for each in curves)


def _curve(values: Any) -> Curve:
    return Curve(STEP[: len(values)], values)
