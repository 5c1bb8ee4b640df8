"""A loss curve that moves to another level at one step, and goes on there as it would have before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marin.training.health.curves import BLOCK, Array, Curve, block_scatter

SURE = 5.0  # |t| of a long curve; the largest over all positions stays below it in 99 runs of 100 without a shift
FEW = 5.0  # blocks; the noise of a short curve is known badly, and |t| is larger by chance
SHORTEST = 160  # steps in which a shift is looked for
LEAST = 12  # values of another curve, for a word about the same shift in it
MARGIN = 0.05  # of the curve at either end, where a shift would hang on few values
SAME = 1e-6  # of the largest singular value; curves of the course that differ by less are one
MOST = 4  # shifts of one curve


@dataclass(frozen=True)
class Shift:
    """step: the first one on the new level. size: of the shift. t: how sure, in standard errors."""

    step: int
    size: float
    t: float


def around_course(held: Curve, *beside: Curve) -> tuple[Array, Array]:
    """(n,) what the course of a loss curve leaves over, and (n, k) an orthonormal basis of that course.

    beside: curves that it may follow, too, such as the learning rate.
    """
    columns = [_course(held.step), *(_at(held.step, each)[:, None] for each in beside if len(each))]
    vectors, sizes, _ = np.linalg.svd(np.concatenate(columns, axis=1), full_matrices=False)
    basis = vectors[:, sizes > SAME * sizes[0]]
    return held.value - basis @ (basis.T @ held.value), basis


def _course(steps: Array) -> Array:
    """(n, 5) what a loss curve follows: 1, x^-¼, x^-½, x^-1, x."""
    x = steps - steps[0] + max(steps[0], 1.0) if steps[0] < BLOCK else steps
    x = np.maximum(x, 1.0)
    return np.stack([np.ones_like(x), x**-0.25, x**-0.5, 1 / x, x / x[-1]], axis=1)


def _at(steps: Array, held: Curve) -> Array:
    """(n,) a curve at these steps, as parts of its largest value."""
    values: Array = np.interp(steps, held.step, held.value)
    return values / max(float(np.abs(held.value).max()), 1e-12)


def shifts(held: Curve, *beside: Curve) -> list[Shift]:
    """All of them, in order of steps: the surest one first, then what is left of the curve on either side of it.

    beside: see ``around_course``.
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
    """The best place for a shift, however unsure; None for a curve that is too short.

    Least squares on the course of a loss curve and a step function, at every position at once.
    """
    if len(held) < SHORTEST:
        return None
    residual, basis, noise = _fitted(held, *beside)
    n, margin = len(held), max(BLOCK // 2, int(len(held) * MARGIN))
    after = np.arange(n - 1, -1, -1) + 1.0  # values from here to the end
    sums = np.cumsum(residual[::-1])[::-1]
    shared = (np.cumsum(basis[::-1], axis=0)[::-1] ** 2).sum(axis=1)
    left = np.maximum(after - shared, 1e-9)  # of the step function, what the course cannot follow
    t = sums / (noise * np.sqrt(left))
    t[:margin] = t[n - margin :] = 0
    best = int(np.argmax(np.abs(t)))
    return Shift(step=int(held.step[best]), size=float(sums[best] / left[best]), t=float(t[best]))


def size_at(held: Curve, step: int, *beside: Curve) -> tuple[float, float] | None:
    """(size, standard error) of a shift at this step, fitted as ``surest`` does; None for too few values."""
    after = held.step >= step
    if len(held) < LEAST or min(after.sum(), (~after).sum()) < 3:
        return None
    residual, basis, noise = _fitted(held, *beside)
    left = max(float(after.sum() - (basis[after].sum(axis=0) ** 2).sum()), 1e-9)
    return float(residual[after].sum()) / left, noise / float(np.sqrt(left))


def _fitted(held: Curve, *beside: Curve) -> tuple[Array, Array, float]:
    """What the course leaves over, an orthonormal basis of it, and the scatter of what it leaves."""
    residual, basis = around_course(held, *beside)
    return residual, basis, max(block_scatter(residual, _block(len(held))), 1e-12)


def _block(values: int) -> int:
    """How many neighbours of so many values are taken together, where they may depend on each other."""
    return min(BLOCK, max(5, values // 16))
