"""Find spikes of a loss curve: their steps, their aftermath, and the time by which a rise of the norm preceded them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from marin.training.health.curves import BLOCK, NORMAL, Array, Curve, block_scatter, scatter

HEIGHT = 6.0  # least height above the median around, in standard deviations (from median absolute deviations)
FOOT = 3.0  # likewise; a spike begins and ends at this height
HALF = 40  # steps on either side for that median; a rise that stays high shows against the steps before alone
NEAR = 25  # two spikes at most so many steps apart are one
AROUND = 400  # steps on either side for the comparison of levels
LEAST = 25  # of these steps, for a verdict
TAIL = 60  # most steps after a spike that still belong to the spike
MATTERS = 0.3  # standard deviations of one step; a smaller shift does not count
SURE = 3.0  # standard errors
CHUNK = 4096  # windows whose medians are computed at once
LEAD = 100  # steps before a spike in which a rise of the norm may announce the spike


class Fate(Enum):
    """The course of a curve after a spike."""

    RECOVERED = "recovered"
    PLATEAU = "new plateau"
    DIVERGED = "diverged"
    UNCLEAR = "inconclusive"


@dataclass(frozen=True, kw_only=True)
class Spike:
    """One spike, or several close to each other."""

    start: int  # first step
    end: int  # last step
    peak: int  # the step with the highest loss
    height: float  # of the peak above the level around it
    became: Fate
    shift: float  # level after the spike minus level before
    error: float  # standard error of the shift; infinite if unknown
    lead: int | None = None  # steps by which the norm rose earlier; None if the norm did not rise, or is not known


def spikes(
    loss: Curve, norm: Curve | None = None, changes: Sequence[int] = (), breaks: Sequence[int] = ()
) -> list[Spike]:
    """Return all spikes of a loss curve.

    changes: steps of planned changes. breaks: steps of planned changes that may move the loss to another level. The
    comparison of levels before and after a spike never crosses a break. It crosses a change only near the spike.
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
    """Return medians of ``width`` values from every ``every``-th value on; (0,) for too few values."""
    if len(values) < width:
        return np.empty(0)
    views = np.lib.stride_tricks.sliding_window_view(values, width)[::every]
    return np.concatenate([np.median(views[at : at + CHUNK], axis=1) for at in range(0, len(views), CHUNK)])


def _medians(values: Array) -> tuple[Array, Array]:
    """Return the medians around each value (the value included), and before each value (NaN for the first few)."""
    n = len(values)
    around, before = np.empty(n), np.full(n, np.nan)
    if n > 2 * HALF:
        around[HALF : n - HALF] = _rolling(values, 2 * HALF + 1)
    for i in (*range(min(HALF, n)), *range(max(n - HALF, HALF), n)):
        # Symmetric at the beginning, where a curve falls fast. At the end, only earlier values: so a last rise shows.
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
    """Return (n,) each value's height above the level around it or above the level before it, whichever is more."""
    around, before = _medians(held.value)
    return np.fmax(held.value - around, held.value - before)


def _noise(held: Curve) -> Array:
    """Return (n,) the standard deviation around each value, at least half of the whole curve's."""
    around, _ = _medians(held.value)
    apart = np.abs(held.value - around)
    width = min(8 * HALF, len(apart))
    near = NORMAL * _rolling(apart, width, HALF // 2)
    nearest = np.clip((np.arange(len(apart)) - width // 2) // (HALF // 2), 0, len(near) - 1)
    near = near[nearest]
    return np.maximum(near, max(scatter(held.value) / 2, 1e-9))


def _spans(held: Curve, excess: Array) -> list[tuple[int, int]]:
    """Return (first, last) step of each spike."""
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
) -> tuple[Fate, float, float]:
    """Return the aftermath of a spike, the shift of the level, and the shift's standard error."""
    start, end = span
    tail = min(TAIL, 2 * (end - start) + 3, max(0, int(loss.step[-1]) - end - 2 * LEAST))
    first = max([start - AROUND, *(at for at in changes if at <= start - LEAST), *(at for at in breaks if at <= start)])
    until = min([end + 1 + AROUND, *(at for at in changes if at > end + LEAST), *(at for at in breaks if at > end)])
    before = loss.between(first, start).without(others)
    after = loss.between(end + 1 + tail, until).without(others)
    rest = loss.between(start, np.inf)
    if len(before) < LEAST:
        return Fate.UNCLEAR, math.nan, math.inf
    late = before.value[-4 * LEAST :]
    noise = max(scatter(before.value), NORMAL * float(np.median(np.abs(late - np.median(late)))))
    if len(after) < LEAST:
        last = rest.value[-10:]
        high = float(np.median(last) - np.median(before.value[-LEAST:]))
        if len(rest) < BLOCK or high < HEIGHT * noise or last.min() < np.median(before.value[-LEAST:]):
            return Fate.UNCLEAR, high, math.inf
        slope, unsure = _slope(rest)
        return (Fate.DIVERGED if slope > SURE * unsure else Fate.PLATEAU), high, math.inf
    size, error = _level(before, after)
    slope, unsure = _slope(after)
    if size > max(SURE * error, MATTERS * noise):
        rises = slope > SURE * unsure and slope * len(after) > noise
        return (Fate.DIVERGED if rises or size > 30 * noise else Fate.PLATEAU), size, error
    if SURE * error < max(noise, 0.02 * abs(float(np.median(before.value))), height / 4):
        return Fate.RECOVERED, size, error
    return Fate.UNCLEAR, size, error


def _level(before: Curve, after: Curve) -> tuple[float, float]:
    """Return (size, standard error) of a step between two parts of one smooth course."""
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
    """Return (slope a step, standard error)."""
    x = held.step - held.step.mean()
    total = float((x * x).sum())
    slope = float((x * held.value).sum()) / total
    residual = held.value - held.value.mean() - slope * x
    return slope, max(block_scatter(residual), 1e-9) / math.sqrt(total)


def _rises(norm: Curve) -> Curve:
    """Return the steps at which the norm's logarithm is far above its level around or before."""
    logs = Curve(norm.step[norm.value > 0], np.log(norm.value[norm.value > 0]))
    if len(logs) < 3 * LEAST:
        return Curve(logs.step[:0], logs.value[:0])
    high = _excess(logs) > (HEIGHT - 1) * _noise(logs)
    return Curve(logs.step[high], logs.value[high])


def _lead(risen: Curve, start: int, end: int, others: Sequence[tuple[int, int]]) -> int | None:
    """Return the steps from the norm's first rise to the loss's rise; None if the norm did not rise."""
    earlier = max((last for _, last in others if last < start), default=-1)
    near = risen.between(max(start - LEAD, earlier + 1), end + 1)
    return max(0, int(start - near.step[0])) if len(near) else None
