"""Spikes of a loss curve: where they are, what became of them, and how long before them the norm rose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from marin.training.health.curves import BLOCK, NORMAL, Array, Curve, block_scatter, scatter

HEIGHT = 6.0  # median absolute deviations, as standard deviations, above the median around it
FOOT = 3.0  # likewise; where a spike begins and ends
HALF = 40  # steps of that median on either side; those before alone tell a rise that does not come back
NEAR = 25  # steps between two spikes that are one
AROUND = 400  # steps on either side whose levels are compared
LEAST = 25  # of them, for a verdict
TAIL = 60  # steps after a spike, at most, that are its own
MATTERS = 0.3  # standard deviations of one step; a smaller shift is none
SURE = 3.0  # standard errors
CHUNK = 4096  # windows whose medians are taken at once
LEAD = 100  # steps before a spike in which the norm may announce it


class Became(Enum):
    """What a curve did after a spike."""

    RECOVERED = "recovered"
    PLATEAU = "new plateau"
    DIVERGED = "diverged"
    UNCLEAR = "inconclusive"


@dataclass(frozen=True, kw_only=True)
class Spike:
    """One spike, or several close to each other."""

    start: int  # first step
    end: int  # last step
    peak: int  # its highest step
    height: float  # of that, above the level around it
    became: Became
    shift: float  # of the level afterwards against before
    error: float  # standard error of that; infinite where nobody can say
    lead: int | None = None  # steps by which the norm rose earlier; None where it did not, or there is none


def spikes(
    loss: Curve, norm: Curve | None = None, changes: Sequence[int] = (), breaks: Sequence[int] = ()
) -> list[Spike]:
    """changes: steps from which the loss was meant to go on in another way; breaks: on another level.

    Levels are compared between them: close to a change, across it; never across a break.
    """
    if len(loss) < 3 * LEAST:
        return []
    excess = _excess(loss)
    spans = _spans(loss, excess)
    announced = _rises(norm) if norm is not None and len(norm) >= 3 * LEAST else None
    found: list[Spike] = []
    for start, end in spans:
        others = [span for span in spans if span != (start, end)]
        inside = (loss.step >= start) & (loss.step <= end)
        height = float(excess[inside].max())
        became, shift, error = _became(loss, (start, end), height, others, changes, breaks)
        found.append(
            Spike(
                start=start,
                end=end,
                peak=int(loss.step[inside][np.argmax(excess[inside])]),
                height=height,
                became=became,
                shift=shift,
                error=error,
                lead=None if announced is None else _lead(announced, start, end, others),
            )
        )
    return found


def _rolling(values: Array, width: int, every: int = 1) -> Array:
    """Medians of so many values, from each ``every``-th on; (0,) for too few."""
    if len(values) < width:
        return np.empty(0)
    views = np.lib.stride_tricks.sliding_window_view(values, width)[::every]
    return np.concatenate([np.median(views[at : at + CHUNK], axis=1) for at in range(0, len(views), CHUNK)])


def _medians(values: Array) -> tuple[Array, Array]:
    """Around each value, itself included, and before it; NaN before the first few."""
    n = len(values)
    around, before = np.empty(n), np.full(n, np.nan)
    if n > 2 * HALF:
        around[HALF : n - HALF] = _rolling(values, 2 * HALF + 1)
    for i in (*range(min(HALF, n)), *range(max(n - HALF, HALF), n)):
        # Symmetric at the beginning, where a curve falls fast; at the end only what came before: a last rise shows.
        half = min(HALF, i)
        around[i] = (
            np.median(values[i - half : i + half + 1]) if i < HALF else np.median(values[max(0, i - 2 * HALF) : i])
        )
    for i in range(min(BLOCK, n), min(HALF, n)):
        before[i] = np.median(values[:i])
    if n > HALF:
        before[HALF:] = _rolling(values, HALF)[:-1]
    return around, before


def _excess(held: Curve) -> Array:
    """(n,) how far each value is above the level around it, or, if that is more, above what came before it."""
    around, before = _medians(held.value)
    return np.fmax(held.value - around, held.value - before)


def _noise(held: Curve) -> Array:
    """(n,) standard deviation around each value: of the steps next to it, and of all."""
    around, _ = _medians(held.value)
    apart = np.abs(held.value - around)
    width = min(8 * HALF, len(apart))
    near = NORMAL * _rolling(apart, width, HALF // 2)
    nearest = np.clip((np.arange(len(apart)) - width // 2) // (HALF // 2), 0, len(near) - 1)
    near = near[nearest]
    return np.maximum(near, max(scatter(held.value) / 2, 1e-9))


def _spans(held: Curve, excess: Array) -> list[tuple[int, int]]:
    """(first, last) step of each spike."""
    noise = _noise(held)
    foot, high = excess > FOOT * noise, excess > HEIGHT * noise
    found: list[tuple[int, int]] = []
    for i in np.flatnonzero(high).tolist():
        first = last = i
        while first > 0 and foot[first - 1]:
            first -= 1
        while last + 1 < len(foot) and foot[last + 1]:
            last += 1
        span = (int(held.step[first]), int(held.step[last]))
        if found and span[0] - found[-1][1] <= NEAR:
            found[-1] = (found[-1][0], max(found[-1][1], span[1]))
        else:
            found.append(span)
    return found


def _became(
    loss: Curve,
    span: tuple[int, int],
    height: float,
    others: Sequence[tuple[int, int]],
    changes: Sequence[int],
    breaks: Sequence[int],
) -> tuple[Became, float, float]:
    """What became of it, how much higher the level is, and the standard error of that."""
    start, end = span
    tail = min(TAIL, 2 * (end - start) + 3, max(0, int(loss.step[-1]) - end - 2 * LEAST))
    first = max([start - AROUND, *(at for at in changes if at <= start - LEAST), *(at for at in breaks if at <= start)])
    until = min([end + 1 + AROUND, *(at for at in changes if at > end + LEAST), *(at for at in breaks if at > end)])
    before = loss.between(first, start).without(others)
    after = loss.between(end + 1 + tail, until).without(others)
    rest = loss.between(start, np.inf)
    if len(before) < LEAST:
        return Became.UNCLEAR, math.nan, math.inf
    late = before.value[-4 * LEAST :]
    noise = max(scatter(before.value), NORMAL * float(np.median(np.abs(late - np.median(late)))))
    if len(after) < LEAST:
        last = rest.value[-10:]
        high = float(np.median(last) - np.median(before.value[-LEAST:]))
        if len(rest) < BLOCK or high < HEIGHT * noise or last.min() < np.median(before.value[-LEAST:]):
            return Became.UNCLEAR, high, math.inf
        slope, unsure = _slope(rest)
        return (Became.DIVERGED if slope > SURE * unsure else Became.PLATEAU), high, math.inf
    size, error = _level(before, after)
    slope, unsure = _slope(after)
    if size > max(SURE * error, MATTERS * noise):
        rises = slope > SURE * unsure and slope * len(after) > noise
        return (Became.DIVERGED if rises or size > 30 * noise else Became.PLATEAU), size, error
    if SURE * error < max(noise, 0.02 * abs(float(np.median(before.value))), height / 4):
        return Became.RECOVERED, size, error
    return Became.UNCLEAR, size, error


def _level(before: Curve, after: Curve) -> tuple[float, float]:
    """(size, standard error) of a step between the two on one smooth course."""
    step, value = np.concatenate((before.step, after.step)), np.concatenate((before.value, after.value))
    x = step + 1.0
    late = (np.arange(len(step)) >= len(before)).astype(np.float64)
    columns = np.stack([np.ones_like(x), x**-0.5, x / x[-1], late], axis=1)
    fit = np.linalg.lstsq(columns, value, rcond=None)[0]
    residual = value - columns @ fit
    noise = max(block_scatter(residual[: len(before)]), block_scatter(residual[len(before) :]), 1e-9)
    size = float(np.linalg.pinv(columns.T @ columns)[3, 3])
    return float(fit[3]), noise * math.sqrt(size)


def _slope(held: Curve) -> tuple[float, float]:
    """(slope a step, standard error)."""
    x = held.step - held.step.mean()
    total = float((x * x).sum())
    slope = float((x * held.value).sum()) / total
    residual = held.value - held.value.mean() - slope * x
    return slope, max(block_scatter(residual), 1e-9) / math.sqrt(total)


def _rises(norm: Curve) -> Curve:
    """The steps at which the norm's logarithm is far above what it was before."""
    logs = Curve(norm.step[norm.value > 0], np.log(norm.value[norm.value > 0]))
    if len(logs) < 3 * LEAST:
        return Curve(logs.step[:0], logs.value[:0])
    high = _excess(logs) > (HEIGHT - 1) * _noise(logs)
    return Curve(logs.step[high], logs.value[high])


def _lead(risen: Curve, start: int, end: int, others: Sequence[tuple[int, int]]) -> int | None:
    """Steps from the norm's first rise to the loss's."""
    earlier = max((last for _, last in others if last < start), default=-1)
    near = risen.between(max(start - LEAD, earlier + 1), end + 1)
    return max(0, int(start - near.step[0])) if len(near) else None
