"""Mappings from an optimizer step to a value that holds from that step on, for stages and batch schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from marin.errors import BadField


def active_within[V](at: Mapping[int, V], first: int, end: int) -> dict[int, V]:
    """Return the values that hold in steps first … end - 1, each by the first of these steps at which it holds."""
    return {max(step, first): held for step, held in sorted(at.items()) if step < end}


def check_steps(what: str, at: Mapping[int, object]) -> None:
    """Raise BadField unless every key is an optimizer step and the first key is 0."""
    if not at:
        raise BadField(f"{what}: the mapping is empty; add at least an entry for step 0")
    for step in at:
        if type(step) is not int or step < 0:
            raise BadField(f"{what}: {step!r} is not an optimizer step; wanted an integer ≥ 0")
    if next(iter(at)) != 0:
        raise BadField(f"{what}: the first entry is for step {next(iter(at))}; add an entry for step 0")


def scaled_steps[V](what: str, at: Mapping[int, V], divisor: int) -> dict[int, V]:
    """Return the entries with every step divided and rounded down. Raises BadField if two entries get one step."""
    if divisor < 1:
        raise BadField(f"{what}: the step divisor is {divisor}, wanted at least 1")
    scaled: dict[int, V] = {}
    for step, held in at.items():
        if step // divisor in scaled:
            raise BadField(f"{what}: step {step} divided by {divisor} falls on a step that already has an entry")
        scaled[step // divisor] = held
    return scaled


def active_from(what: str, starts: Iterable[int], step: int) -> int:
    """Return the last of the ascending starts that is ≤ step. Raises BadField for a step below 0."""
    if step < 0:
        raise BadField(f"{what}: step {step} was requested; steps start at 0")
    ordered = tuple(starts)
    return ordered[bisect_right(ordered, step) - 1]
