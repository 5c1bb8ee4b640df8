"""Detect trends and jumps: growing norms, rising losses, drifting log Z, jumping gaps, slow steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from marin.training.health.curves import BLOCK, NORMAL, Array, Curve, Rows, block_scatter, curve, scatter

LEAST = 20  # fewest looks for a finding
WINDOWS = 10  # number of windows of a curve
TIMES = 3.0  # least factor: as fast as before, or as high
SHARE = 0.05  # least total growth of a norm of weights
JUMP = 8.0  # least size of a jump between two looks, in deviations
HALF = 10  # looks on either side of a jump
CLIMB = 0.01  # least rise of a loss, as a share of the loss
SURE = 6.0  # least rise of a loss, in standard errors of a window's level
STEEPEST = 0.6  # largest share of a rise between two windows; more is a step
FEWEST = 3  # least looks in a window
SLOWER = 2.0  # times the usual seconds
WASTED = 0.02  # least share of the whole time that a slow stretch must waste
LOST, LOST_WAITING = 60.0, 5.0  # likewise in seconds; the second, for stretches that wait for batches
LONGEST_GAP = 5  # most steps between two slow steps of one stretch


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A growth from ``before`` at ``step`` to ``after`` at ``end``. times: speed relative to earlier."""

    step: int
    end: int
    before: float
    after: float
    times: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Slow:
    """A slow stretch from ``step`` to ``end``. seconds, usual: of one step.

    waiting: share of the seconds spent waiting for batches if the data loader is slow, otherwise 0.
    """

    step: int
    end: int
    seconds: float
    usual: float
    waiting: float


def outgrows(norm: Curve, rate: Curve) -> Growth | None:
    """Return the growth of a norm of weights if it is out of proportion to the learning rate.

    The length of an update is about proportional to the rate, so in a healthy run the growth for each unit of rate
    slows down, also in the cooldown. The function compares the last fifth of the run with the first half.
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
    """Return the growth of a norm of gradients or updates if its last level is TIMES the lowest level or more."""
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
    """Return the norm of updates for each unit of the learning rate, because updates scale with the rate."""
    if not len(rate):
        return norm
    held: Array = np.interp(norm.step, rate.step, rate.value)
    used = held > 0
    return Curve(norm.step[used], norm.value[used] / held[used])


def rises(held: Curve) -> Growth | None:
    """Return the rise of a loss that climbs over several windows from its lowest level to the end, not in one step."""
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
    """Return (size, standard error) of a loss's change from just before a step to the end; None for too few looks.

    The function compares the last HALF looks before the step with the last HALF looks.
    """
    before, after = held.value[held.step < step][-HALF:], held.value[held.step >= step][-HALF:]
    if min(len(before), len(after)) < 3:
        return None
    noise = scatter(np.concatenate((before, after)))
    return float(after.mean() - before.mean()), noise * float(np.sqrt(1 / len(before) + 1 / len(after)))


def is_shared(size: float, error: float, of: float) -> bool | None:
    """Return whether the held-out loss shares a change of the training loss; None if this is unclear.

    size, error: the change of the held-out loss, and its standard error. of: the change of the training loss. False:
    the held-out loss stands still within its interval, or moves the other way.
    """
    along = size if of > 0 else -size
    if along > max(2 * error, abs(of) / 4):
        return True
    still = along < max(3 * error, abs(of) / 10)
    return False if still and along + 2 * error < abs(of) / 2 else None


def drifts_away(held: Curve) -> Growth | None:
    """Return the drift of a quantity that should stay near 0 and moves away after it had come close."""
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
    """Yield (step, size) of each jump: a smooth curve of looks moves at once, and stays there for the next looks."""
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
    """Return the height of the looks from ``first`` to soon after ``last`` above the looks around; None if no rise."""
    inside = (held.step > first) & (held.step <= last + HALF)
    around = held.between(first - 100, last + 200).without([(first, last + 60)])
    if not inside.any() or len(around) < 8:
        return None
    course = np.interp(held.step[inside], around.step, around.value)
    height = float((held.value[inside] - course).max())
    noise = NORMAL * float(np.median(np.abs(np.diff(around.value))))
    return height if height > JUMP * noise else None


def slow_stretches(rows: Rows) -> list[Slow]:
    """Return stretches of steps that take much longer than usual and waste much time, without steps that compile."""
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
    """Return (n,) the lowest level so far. Levels are medians over a twentieth of the run each."""
    parts = np.array_split(own, min(20, max(1, len(own) // 10)))
    level = np.minimum.accumulate([float(np.median(part)) for part in parts])
    return np.concatenate([np.full(len(part), held) for part, held in zip(parts, level, strict=True)])
