"""Mixtures of sources, the stages of a run, and the batch schedule: values, checked when built.

A source is anything hashable: in experiments a step that makes Tokens, in tests a string. Weights
are shares of sequences. Steps are optimizer steps; batches are counted in sequences.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from enum import Enum

from marin.errors import BadField
from marin.steps.value import value

MAX_BLOCK = 1 << 20  # sequences: a block is laid out whole, so it must stay small


def source_name(source: object) -> str:
    """What people call a source: its label, else its name, else its text."""
    return str(getattr(source, "label", "") or getattr(source, "name", "") or source)


@value("shuffle")
class Shuffle(Enum):
    """How each source is walked.

    LINEAR: an affine map of the index, the same in every epoch. FEISTEL: a Feistel network, new keys each epoch.
    """

    _value_: str
    LINEAR = "linear"
    FEISTEL = "feistel"


@value("mixture")
class Mixture[S]:
    """Share of each source. Positive, sum to 1: use ``mixture`` to normalise, ``blend`` to combine."""

    weights: Mapping[S, float]

    def __post_init__(self) -> None:
        if not self.weights:
            raise BadField("a mixture has no sources; give at least one, e.g. mixture({web: 0.9, code: 0.1})")
        for source, weight in self.weights.items():
            if isinstance(weight, bool) or not math.isfinite(weight) or weight <= 0:
                raise BadField(
                    f"mixture: the weight of {source_name(source)} is {weight!r}, wanted a positive number; "
                    "leave out a source that should not be used"
                )
        total = math.fsum(self.weights.values())
        if abs(total - 1) > 1e-9:
            raise BadField(f"mixture: the weights sum to {total!r}, wanted 1; mixture({{…}}) normalises them")
        object.__setattr__(self, "weights", {s: float(w) for s, w in self.weights.items()})

    @property
    def sources(self) -> tuple[S, ...]:
        return tuple(self.weights)

    def by_name(self) -> dict[str, float]:
        """Shares by source name, largest first: what a table prints."""
        named = ((source_name(source), weight) for source, weight in self.weights.items())
        return dict(sorted(named, key=lambda pair: (-pair[1], pair[0])))


def mixture[S](weights: Mapping[S, float]) -> Mixture[S]:
    """A mixture with shares proportional to ``weights``, in any unit (tokens, percent). Raises BadField."""
    for source, weight in weights.items():
        if isinstance(weight, bool) or not math.isfinite(weight) or weight <= 0:
            raise BadField(f"mixture: the weight of {source_name(source)} is {weight!r}, wanted a positive number")
    total = math.fsum(weights.values())
    return Mixture({source: weight / total for source, weight in weights.items()})


def blend[S](*parts: tuple[float, Mixture[S]]) -> Mixture[S]:
    """``blend((0.7, pretraining), (0.3, high_quality))``: a mixture of mixtures.

    A source in several parts gets the sum of its shares. Raises BadField if the shares do not sum to 1.
    """
    if any(isinstance(share, bool) or not math.isfinite(share) or share <= 0 for share, _ in parts):
        raise BadField(f"blend: the shares are {[share for share, _ in parts]}, wanted positive numbers")
    for _, part in parts:
        if not isinstance(part, Mixture):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadField(f"blend: {part!r} is no mixture; write mixture({{…: 1.0}}) around a single source")
    total = math.fsum(share for share, _ in parts)
    if abs(total - 1) > 1e-9:
        raise BadField(f"blend: the shares sum to {total!r}, wanted 1, e.g. blend((0.7, a), (0.3, b))")
    terms: dict[S, list[float]] = {}
    for share, part in parts:
        for source, weight in part.weights.items():
            terms.setdefault(source, []).append(share * weight)
    return mixture({source: math.fsum(shares) for source, shares in terms.items()})


@value("stages")
class Stages[S]:
    """Which mixture from which optimizer step on: ``Stages({0: pretraining, 160: cooldown})``."""

    at: Mapping[int, Mixture[S]]

    def __post_init__(self) -> None:
        _check_steps("stages", self.at)

    @property
    def starts(self) -> tuple[int, ...]:
        """First optimizer step of each stage, ascending."""
        return tuple(self.at)

    @property
    def sources(self) -> tuple[S, ...]:
        """Every source of every stage, once, in order of first appearance."""
        return tuple(dict.fromkeys(source for held in self.at.values() for source in held.weights))

    def active(self, step: int) -> Mixture[S]:
        """The mixture that batch ``step`` is drawn from."""
        return self.at[_active("stages", self.starts, step)]

    def scaled(self, *, steps: int) -> Stages[S]:
        """The same stages with every first step divided by ``steps`` and rounded down."""
        return Stages(_scaled_steps("stages", self.at, steps))


@value("batch_schedule")
class BatchSchedule:
    """Global batch from which optimizer step on: ``BatchSchedule({0: 8192, 18_500: 7680, 21_010: 8192})``."""

    at: Mapping[int, int]

    def __post_init__(self) -> None:
        _check_steps("batch schedule", self.at)
        for step, size in self.at.items():
            if type(size) is not int or size <= 0:
                raise BadField(f"batch schedule: the batch from step {step} is {size!r}, wanted a positive integer")

    @property
    def starts(self) -> tuple[int, ...]:
        """Optimizer steps at which the batch size is set, ascending."""
        return tuple(self.at)

    def batch(self, step: int) -> int:
        """Sequences in the batch of one optimizer step."""
        return self.at[_active("batch schedule", self.starts, step)]

    def sequences_before(self, step: int) -> int:
        """Sequences consumed when ``step`` optimizer steps are done: where batch ``step`` begins."""
        if step < 0:
            raise BadField(f"batch schedule: step {step} was asked for; steps start at 0")
        ends = (*self.starts[1:], step)
        return sum(
            max(0, min(end, step) - start) * self.at[start] for start, end in zip(self.starts, ends, strict=True)
        )

    def step_of(self, sequence: int) -> int:
        """The optimizer step whose batch holds global sequence number ``sequence``."""
        if sequence < 0:
            raise BadField(f"batch schedule: sequence {sequence} was asked for; sequences start at 0")
        start = max(start for start in self.starts if self.sequences_before(start) <= sequence)
        return start + (sequence - self.sequences_before(start)) // self.at[start]

    def tokens(self, seq_len: int, first: int, end: int) -> int:
        """Tokens in the batches of optimizer steps first … end - 1."""
        if end < first:
            raise BadField(f"batch schedule: tokens from step {first} to {end}: the end must not come first")
        return (self.sequences_before(end) - self.sequences_before(first)) * seq_len

    def scaled(self, *, steps: int, batch: int) -> BatchSchedule:
        """A schedule for a smaller run: first steps divided by ``steps``, batches by ``batch``.

        First steps are rounded down. Batches are rounded to the nearest integer, halves up. Raises
        BadField if two entries fall on one step or a batch becomes 0.
        """
        if batch < 1:
            raise BadField(f"batch schedule: the batch divisor is {batch}, wanted at least 1")
        rounded = {step: (2 * size + batch) // (2 * batch) for step, size in self.at.items()}
        return BatchSchedule(_scaled_steps("batch schedule", rounded, steps))


def active_within[V](at: Mapping[int, V], first: int, end: int) -> dict[int, V]:
    """What a schedule holds in the optimizer steps first … end - 1, by the first of them from which it holds."""
    return {max(step, first): held for step, held in sorted(at.items()) if step < end}


def _check_steps(what: str, at: Mapping[int, object]) -> None:
    if not at:
        raise BadField(f"{what}: empty; the first entry is for step 0")
    for step in at:
        if type(step) is not int or step < 0:
            raise BadField(f"{what}: {step!r} is not an optimizer step; wanted an integer from 0")
    if next(iter(at)) != 0:
        raise BadField(f"{what}: the first entry is for step {next(iter(at))}; say what holds from step 0")


def _scaled_steps[V](what: str, at: Mapping[int, V], divisor: int) -> dict[int, V]:
    if divisor < 1:
        raise BadField(f"{what}: the step divisor is {divisor}, wanted at least 1")
    scaled: dict[int, V] = {}
    for step, held in at.items():
        if step // divisor in scaled:
            raise BadField(f"{what}: step {step} divided by {divisor} falls on a step that is already set")
        scaled[step // divisor] = held
    return scaled


def _active(what: str, starts: Iterable[int], step: int) -> int:
    if step < 0:
        raise BadField(f"{what}: step {step} was asked for; steps start at 0")
    ordered = tuple(starts)
    return ordered[bisect_right(ordered, step) - 1]
