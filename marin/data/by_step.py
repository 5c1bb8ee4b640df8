"""What holds from which optimizer step on: the mappings behind stages and batch schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from marin.errors import BadField


def active_within[V](at: Mapping[int, V], first: int, end: int) -> dict[int, V]:
    """What a schedule holds in the optimizer steps first … end - 1, by the first of them from which it holds."""
    return {max(step, first): held for step, held in sorted(at.items()) if step < end}


def check_steps(what: str, at: Mapping[int, object]) -> None:
    """Raises BadField unless every key is an optimizer step and the first of them is 0."""
    if not at:
        raise BadField(f"{what}: empty; the first entry is for step 0")
    for step in at:
        if type(step) is not int or step < 0:
            raise BadField(f"{what}: {step!r} is not an optimizer step; wanted an integer from 0")
    if next(iter(at)) != 0:
        raise BadField(f"{what}: the first entry is for step {next(iter(at))}; say what holds from step 0")


def scaled_steps[V](what: str, at: Mapping[int, V], divisor: int) -> dict[int, V]:
    """With every step divided and rounded down. Raises BadField if two of them fall on one."""
    if divisor < 1:
        raise BadField(f"{what}: the step divisor is {divisor}, wanted at least 1")
    scaled: dict[int, V] = {}
    for step, held in at.items():
        if step // divisor in scaled:
            raise BadField(f"{what}: step {step} divided by {divisor} falls on a step that is already set")
        scaled[step // divisor] = held
    return scaled


def active_from(what: str, starts: Iterable[int], step: int) -> int:
    """The last of the ascending starts that is not after the step. Raises BadField for a step below 0."""
    if step < 0:
        raise BadField(f"{what}: step {step} was asked for; steps start at 0")
    ordered = tuple(starts)
    return ordered[bisect_right(ordered, step) - 1]
