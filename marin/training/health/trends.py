"""Norms that grow, log Z that drifts, gaps that jump, steps that take longer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from marin.training.health.curves import BLOCK, NORMAL, Array, Curve, Rows, block_scatter, curve, scatter

LEAST = 20  # looks, for a word about them
WINDOWS = 10  # that a curve is cut into
TIMES = 3.0  # as fast as before, or as high
SHARE = 0.05  # by which a norm of weights must grow in all
JUMP = 8.0  # deviations, of a difference between two looks
HALF = 10  # looks on either side of a jump
CLIMB = 0.01  # of a loss that it must rise by
SURE = 6.0  # standard errors of a window's level that it must rise by
STEEPEST = 0.6  # of a rise that may lie between two windows; more is a step
FEWEST = 3  # looks a window
SLOWER = 2.0  # times the usual seconds
WASTED = 0.02  # of all the time must be lost before a stretch counts
LOST, LOST_WAITING = 60.0, 5.0  # seconds likewise; of stretches that went into waiting for batches
LONGEST_GAP = 5  # steps between two slow ones of one stretch


@dataclass(frozen=True, kw_only=True)
class Growth:
    """From ``before`` at ``step`` to ``after`` at ``end``; times: as fast as earlier."""

    step: int
    end: int
    before: float
    after: float
    times: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Slow:
    """Steps ``step`` to ``end``. seconds, usual: of one step. waiting: share of them for batches, if that is slow."""

    step: int
    end: int
    seconds: float
    usual: float
    waiting: float


def outgrows(norm: Curve, rate: Curve) -> Growth | None:
    """Growth of a norm of weights that is out of proportion to the learning rate.

    An update is about as long as the rate is high, so growth for each unit of rate slows down in a healthy run, also
    in its cooldown. The last fifth is compared with the first half.
    """
    if len(norm) < LEAST or not len(rate):
        return None
    edges = np.linspace(0, len(norm) - 1, WINDOWS + 1).astype(int)
    every = np.arange(float(norm.step[0]), float(norm.step[-1]) + 1, dtype=np.float64)
    rates: Array = np.interp(every, rate.step, rate.value).astype(np.float64)
    paths = np.concatenate((np.zeros(1), rates.cumsum()))
    along = paths[(norm.step - norm.step[0]).astype(int)]
    moved = np.maximum(np.diff(along[edges]), 1e-12)
    speeds = np.diff(np.log(norm.value[edges])) / moved
    earlier, late = speeds[1 : WINDOWS // 2], speeds[-2:]
    first = int(edges[-3])
    grown = norm.value[-1] / norm.value[first] - 1
    usual = max(float(np.median(earlier)), SHARE / float(along[-1] or 1.0))
    times = float(late.min()) / usual
    if grown < SHARE or times < TIMES:
        return None
    return Growth(
        step=int(norm.step[first]), end=int(norm.step[-1]), before=float(norm.value[first]),
        after=float(norm.value[-1]), times=times,
    )  # fmt: skip


def multiplies(norm: Curve) -> Growth | None:
    """A norm of gradients or updates whose level is some times what it was at its lowest, and stays there."""
    if len(norm) < 10 * WINDOWS:
        return None
    edges = np.linspace(0, len(norm), 2 * WINDOWS + 1).astype(int)
    levels = np.array([np.median(norm.value[a:b]) for a, b in pairwise(edges)])
    last = float(levels[-2:].min())
    lowest = int(np.argmin(levels[2:-2])) + 2
    low = float(levels[lowest])
    if low <= 0 or last < TIMES * low:
        return None
    return Growth(step=int(norm.step[edges[lowest]]), end=int(norm.step[-1]), before=low, after=last)


def relative(norm: Curve, rate: Curve) -> Curve:
    """The norm of updates for each unit of the learning rate: an optimizer makes them as long as the rate is high."""
    if not len(rate):
        return norm
    held: Array = np.interp(norm.step, rate.step, rate.value)
    used = held > 0
    return Curve(norm.step[used], norm.value[used] / held[used])


def rises(held: Curve) -> Growth | None:
    """A loss that climbs, over several windows, from its lowest level, and is still up at its end; no single step."""
    windows = min(2 * WINDOWS, len(held) // FEWEST)
    if windows < WINDOWS:
        return None
    edges = np.linspace(0, len(held), windows + 1).astype(int)
    levels = np.array([held.value[a:b].mean() for a, b in pairwise(edges)])
    width = len(held) // windows
    error = block_scatter(held.value, min(BLOCK, width)) / float(np.sqrt(width))
    lowest = int(np.argmin(levels))
    before, after = float(levels[lowest]), float(levels[-1])
    climbed = np.diff(levels[lowest:])
    if after - before < max(CLIMB * abs(before), SURE * error) or climbed.max() > STEEPEST * (after - before):
        return None
    return Growth(step=int(held.step[edges[lowest]]), end=int(held.step[-1]), before=before, after=after)


def change(held: Curve, step: int) -> tuple[float, float] | None:
    """(size, standard error) of what a loss gained from around a step until its end; None for too few looks."""
    before, after = held.value[held.step < step][-HALF:], held.value[held.step >= step][-HALF:]
    if min(len(before), len(after)) < 3:
        return None
    noise = scatter(np.concatenate((before, after)))
    return float(after.mean() - before.mean()), noise * float(np.sqrt(1 / len(before) + 1 / len(after)))


def is_shared(size: float, error: float, of: float) -> bool | None:
    """Whether held-out text sees a change of the training loss; None where that cannot be told.

    size, error: how far the held-out loss moved meanwhile, and the standard error. of: how far the training loss did.
    False: it stands still within its interval, or goes the other way.
    """
    along = size if of > 0 else -size
    if along > max(2 * error, abs(of) / 4):
        return True
    still = along < max(3 * error, abs(of) / 10)
    return False if still and along + 2 * error < abs(of) / 2 else None


def drifts_away(held: Curve) -> Growth | None:
    """A quantity that should stay near 0 and goes away from it, after it had come close."""
    if len(held) < LEAST:
        return None
    edges = np.linspace(0, len(held), WINDOWS + 1).astype(int)
    levels = np.array([np.median(held.value[a:b]) for a, b in pairwise(edges)])
    lowest = int(np.argmin(levels))
    before, after = float(levels[lowest]), float(levels[-1])
    rises = bool((np.diff(levels[max(lowest, WINDOWS - 4) :]) > 0).all())
    if after < 1.5 * before + 0.5 or not rises:
        return None
    return Growth(step=int(held.step[edges[lowest]]), end=int(held.step[-1]), before=before, after=after)


def jumps(held: Curve) -> Iterator[tuple[int, float]]:
    """(step, size) where a smooth curve of looks moves at once, and stays there for the looks that follow."""
    if len(held) < LEAST:
        return
    differences = np.diff(held.value)
    overall = scatter(differences) / np.sqrt(3 / 2)  # neighbouring differences share a look
    for at in range(HALF, len(differences) - 2):
        near = np.concatenate((differences[max(0, at - HALF) : at], differences[at + 1 : at + 1 + HALF]))
        usual = float(np.median(near))
        noise = max(NORMAL * float(np.median(np.abs(near - usual))), overall, 1e-6)
        size = float(differences[at]) - usual
        back = float(held.value[at + 1 : at + 4].mean() - held.value[at]) - 2 * usual
        if abs(size) > JUMP * noise and back * size > 0 and abs(back) > abs(size) / 2:
            yield int(held.step[at + 1]), size


def bump(held: Curve, first: int, last: int) -> float | None:
    """How far the looks from one step to soon after another rise above those around them; None where they do not."""
    inside = (held.step > first) & (held.step <= last + HALF)
    around = held.between(first - 100, last + 200).without([(first, last + 60)])
    if not inside.any() or len(around) < 8:
        return None
    course = np.interp(held.step[inside], around.step, around.value)
    height = float((held.value[inside] - course).max())
    noise = NORMAL * float(np.median(np.abs(np.diff(around.value))))
    return height if height > JUMP * noise else None


def slow_stretches(rows: Rows) -> list[Slow]:
    """Steps that take much longer than usual and cost the run something; not what a process or a new batch compiles."""
    seconds, paused, loader = (curve(rows, name) for name in ("seconds", "paused_seconds", "loader_seconds"))
    if len(seconds) < LEAST or len(seconds) != len(rows):
        return []
    own = seconds.value - (paused.value if len(paused) == len(rows) else 0.0)
    waited = loader.value if len(loader) == len(rows) else np.zeros(len(rows))
    compiled = np.array(["process" in row or any("batch" in text for text in row.get("changed", ())) for row in rows])
    usual = _usual(own)
    total = float(np.where(compiled, 0.0, own).sum())
    found: list[Slow] = []
    for part, least, waits in ((waited, LOST_WAITING, True), (own - waited, LOST, False)):
        excess = np.where(compiled, 0.0, part - _usual(part))
        slow = np.flatnonzero(excess > (SLOWER - 1) * usual)
        for group in np.split(slow, np.flatnonzero(np.diff(slow) > LONGEST_GAP) + 1) if len(slow) else ():
            first, last = int(group[0]), int(group[-1])
            inside = slice(first, last + 1)
            if float(excess[inside].sum()) < max(WASTED * total, 5 * float(usual[first]), least):
                continue
            found.append(
                Slow(
                    step=int(seconds.step[first]),
                    end=int(seconds.step[last]),
                    seconds=float(own[inside].mean()),
                    usual=float(usual[first]),
                    waiting=float(min(waited[inside].sum() / own[inside].sum(), 1.0)) if waits else 0.0,
                )
            )
    return found


def _usual(own: Array) -> Array:
    """(n,) the lowest level until then: medians of a twentieth of the run each."""
    parts = np.array_split(own, min(20, max(1, len(own) // 10)))
    level = np.minimum.accumulate([float(np.median(part)) for part in parts])
    return np.concatenate([np.full(len(part), held) for part, held in zip(parts, level, strict=True)])
