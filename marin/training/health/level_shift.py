"""Find level shifts: a loss curve moves to another level at one step, and continues there as before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marin.training.health.curves import BLOCK, Array, Curve, block_scatter

SURE = 5.0  # |t| of a long curve; in 99 of 100 runs without a shift, the largest |t| over all positions stays below
FEW = 5.0  # blocks; a short curve gives a poor estimate of its noise, so |t| is larger by chance
SHORTEST = 160  # fewest steps of a curve for a search
LEAST = 12  # fewest values of another curve, for a statement about the same shift there
MARGIN = 0.05  # of the curve at either end, where a shift would rest on few values
SAME = 1e-6  # of the largest singular value; directions of the course with less are dropped
MOST = 4  # shifts of one curve


@dataclass(frozen=True)
class Shift:
    """A shift of a curve's level. step: first step on the new level. t: the size in standard errors."""

    step: int
    size: float
    t: float


def around_course(held: Curve, *beside: Curve) -> tuple[Array, Array]:
    """Return (n,) the residual of a loss curve around its course, and (n, k) an orthonormal basis of the course.

    beside: other curves that the course may follow, such as the learning rate.
    """
    columns = [_course(held.step), *(_at(held.step, each)[:, None] for each in beside if len(each))]
    vectors, sizes, _ = np.linalg.svd(np.concatenate(columns, axis=1), full_matrices=False)
    basis = vectors[:, sizes > SAME * sizes[0]]
    return held.value - basis @ (basis.T @ held.value), basis


def _course(steps: Array) -> Array:
    """Return (n, 5) the functions that a loss curve follows: 1, x^-¼, x^-½, x^-1, x."""
    x = steps - steps[0] + max(steps[0], 1.0) if steps[0] < BLOCK else steps
    x = np.maximum(x, 1.0)
    return np.stack([np.ones_like(x), x**-0.25, x**-0.5, 1 / x, x / x[-1]], axis=1)


def _at(steps: Array, held: Curve) -> Array:
    """Return (n,) a curve's values at these steps, relative to its largest absolute value."""
    values: Array = np.interp(steps, held.step, held.value)
    return values / max(float(np.abs(held.value).max()), 1e-12)


def shifts(held: Curve, *beside: Curve) -> list[Shift]:
    """Return all shifts of a curve, in order of steps.

    The search finds the surest shift first, then searches the curve on either side. beside: see ``around_course``.
    """
    found: list[Shift] = []
    parts = [held]
    while parts and len(found) < MOST:
        part = parts.pop()
        if (shift := surest(part, *beside)) is not None and abs(shift.t) > SURE * (
            1 + FEW / (len(part) // _block(len(part)))
        ):
            found.append(shift)
            parts += [part.between(part.step[0], shift.step), part.between(shift.step, part.step[-1] + 1)]
    return sorted(found, key=lambda shift: shift.step)


def surest(held: Curve, *beside: Curve) -> Shift | None:
    """Return the best place for a shift, however unsure; None for a curve that is too short.

    Method: least squares on the course of a loss curve and a step function, at every position at once.
    """
    if len(held) < SHORTEST:
        return None
    residual, basis, noise = _fitted(held, *beside)
    n, margin = len(held), max(BLOCK // 2, int(len(held) * MARGIN))
    after = np.arange(n - 1, -1, -1) + 1.0  # values from here to the end
    sums = np.cumsum(residual[::-1])[::-1]
    shared = (np.cumsum(basis[::-1], axis=0)[::-1] ** 2).sum(axis=1)
    left = np.maximum(after - shared, 1e-9)  # the part of the step function that the course cannot follow
    t = sums / (noise * np.sqrt(left))
    t[:margin] = t[n - margin :] = 0
    best = int(np.argmax(np.abs(t)))
    return Shift(step=int(held.step[best]), size=float(sums[best] / left[best]), t=float(t[best]))


def size_at(held: Curve, step: int, *beside: Curve) -> tuple[float, float] | None:
    """Return (size, standard error) of a shift at this step, fitted as in ``surest``; None for too few values."""
    after = held.step >= step
    if len(held) < LEAST or min(after.sum(), (~after).sum()) < 3:
        return None
    residual, basis, noise = _fitted(held, *beside)
    left = max(float(after.sum() - (basis[after].sum(axis=0) ** 2).sum()), 1e-9)
    return float(residual[after].sum()) / left, noise / float(np.sqrt(left))


def _fitted(held: Curve, *beside: Curve) -> tuple[Array, Array, float]:
    """Return the residual around the course, an orthonormal basis of the course, and the residual's scatter."""
    residual, basis = around_course(held, *beside)
    return residual, basis, max(block_scatter(residual, _block(len(held))), 1e-12)


def _block(values: int) -> int:
    """Return the block size for a curve of ``values`` values, whose neighbours may depend on each other."""
    return min(BLOCK, max(5, values // 16))
