"""Loss curves whose truth is known: a power law with noise and added faults. Shapes: n steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from marin.training.health.curves import Curve
from marin.training.health.findings import Finding, Kind, findings
from marin.training.health.level_shift import shifts
from marin.training.health.order import waves
from marin.training.health.spikes import Fate, spikes

STEPS, NOISE = 2000, 0.03  # nats
Array = npt.NDArray[np.float64]
STEP: Array = np.arange(STEPS, dtype=np.float64)


def noise(rng: np.random.Generator, persistence: float, steps: int = STEPS) -> Array:
    """Draw noise of standard deviation NOISE. persistence: the correlation of neighbouring steps."""
    fresh = rng.normal(0, NOISE * np.sqrt(1 - persistence**2), steps)
    made = np.empty(steps)
    made[0] = rng.normal(0, NOISE)
    for i in range(1, steps):
        made[i] = persistence * made[i - 1] + fresh[i]
    return made


def healthy(rng: np.random.Generator, persistence: float) -> Array:
    return 2 + 3 * (STEP + 1) ** -0.5 + noise(rng, persistence)


def spiked(rng: np.random.Generator, persistence: float, became: Fate) -> tuple[Array, int]:
    """(losses, where the spike begins), half a nat high, falling back within 15 steps where it does."""
    at = int(rng.integers(500, 1500))
    since = STEP - at
    after, fall = since >= 0, 0.5 * np.exp(-np.maximum(since, 0) / 15)
    losses = healthy(rng, persistence)
    if became is Fate.DIVERGED:
        return losses + after * np.minimum(3, 0.3 + 0.01 * np.maximum(since, 0)), at
    losses = losses + after * (fall + (0.08 if became is Fate.PLATEAU else 0))
    return (losses[: at + 30] if became is Fate.UNCLEAR else losses), at


def rates(runs: int, persistence: float, seed: int = 0) -> dict[str, float]:
    """Shares of so many runs, false alarms as their number a run."""
    rng = np.random.default_rng(seed)
    found: dict[str, float] = {}
    for name, count in _false_alarms(rng, runs, persistence):
        found[name] = count / runs
    for became in Fate:
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
        losses, at = spiked(rng, 0, Fate.RECOVERED)
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


def courses(names: Iterable[str], runs: int, seed: int = 0) -> dict[str, float]:
    """Shares of whole runs of which marin says the right thing, by what happens to them."""
    found: dict[str, float] = {}
    for name in names:
        rng = np.random.default_rng(seed)
        make, is_right = COURSES[name]
        found[name] = sum(is_right(findings(make(rng))) for _ in range(runs)) / runs
    return found


def _rows(rng: np.random.Generator, rate: Array, training: Array, held_out: Array) -> list[dict[str, Any]]:
    """Lines of a run of this learning rate; its update norms follow the rate, and every tenth step is looked at."""
    course = 2 + 3 * (STEP + 1) ** -0.5 + 0.15 * (rate - 1)
    losses, updates = course + training + noise(rng, 0), 0.1 * rate * np.exp(rng.normal(0, 0.05, STEPS))
    looked = course + held_out + rng.normal(0, 0.003, STEPS)
    turns = np.diff(rate, prepend=rate[0])
    phases = ["rewarmup" if turn > 0 else "decay" if turn < 0 else "hold" for turn in turns.tolist()]
    rows: list[dict[str, Any]] = []
    for at in range(STEPS):
        row: dict[str, Any] = {"step": at, "loss": losses[at], "learning_rate": rate[at], "update_norm": updates[at]}
        row |= {"grad_norm": float(np.exp(rng.normal(-1, 0.1))), "phase": phases[at]}
        if at and phases[at] != phases[at - 1]:
            row["changed"] = [f"learning rate: {phases[at - 1]} → {phases[at]}"]
        if at % 10 == 9:
            row |= {"held_out/macro_loss": looked[at], "held_out/log_z": 0.5 + rng.normal(0, 0.05)}
        rows.append(row)
    return rows


def _cooled() -> Array:
    """Held for the first half, then down to a hundredth."""
    return np.interp(STEP, [0, STEPS / 2, STEPS], [1.0, 1.0, 0.01])


def _climb(rng: np.random.Generator, size: float) -> Array:
    """From somewhere in the middle to the end, in a straight line or ever faster."""
    at = int(rng.integers(1000, 1500))
    return size * np.clip((STEP - at) / (STEPS - at), 0, 1) ** float(rng.choice([1, 2]))


def _creeps(rng: np.random.Generator, training: float, held_out: float) -> list[dict[str, Any]]:
    climb = _climb(rng, 1)
    return _rows(rng, _cooled() if rng.random() < 0.5 else np.ones(STEPS), training * climb, held_out * climb)


def _memorizes(rng: np.random.Generator) -> list[dict[str, Any]]:
    return _rows(rng, np.ones(STEPS), 0 * STEP, _climb(rng, 0.3))


def _rewarmed(rng: np.random.Generator) -> list[dict[str, Any]]:
    at = int(rng.integers(600, 1400))
    return _rows(rng, np.interp(STEP, [0, at, at + 100], [0.1, 0.1, 1.0]), 0 * STEP, 0 * STEP)


def _cosine(rng: np.random.Generator) -> list[dict[str, Any]]:
    rate = np.minimum((STEP + 1) / 100, 0.5 + 0.5 * np.cos(np.pi * np.clip((STEP - 100) / (STEPS - 100), 0, 1)))
    return _rows(rng, np.maximum(rate, float(rng.choice([0, 0.1]))), 0 * STEP, 0 * STEP)


def _blames_data(found: list[Finding]) -> bool:
    return any("not the weights" in each.sentence() for each in found)


def _both(found: list[Finding]) -> bool:
    return any("the held-out loss with it" in each.text for each in found) and not _blames_data(found)


def _held_out_alone(found: list[Finding]) -> bool:
    return any("training loss does not" in each.text for each in found) and not _blames_data(found)


def _calm(found: list[Finding]) -> bool:
    return not any(each.ill or each.kind in (Kind.SHIFT, Kind.ORDER) for each in found)


COURSES: dict[str, tuple[Callable[[np.random.Generator], list[dict[str, Any]]], Callable[[list[Finding]], bool]]] = {
    "both creep up by .25": (lambda rng: _creeps(rng, 0.25, 0.25), _both),
    "both creep up by .1": (lambda rng: _creeps(rng, 0.1, 0.1), _both),
    "training alone creeps by .25": (lambda rng: _creeps(rng, 0.25, 0), _blames_data),
    "held-out alone rises by .3": (_memorizes, _held_out_alone),
    "rewarm by 10": (_rewarmed, _calm),
    "cosine": (_cosine, _calm),
}
