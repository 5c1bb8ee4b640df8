"""Learning rate schedules by optimizer step, counted over all phases of a run."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from marin.errors import BadField
from marin.steps.value import since, value


@value("ramp_shape")
class Shape(Enum):
    """The shape of a ramp from the rate ``a`` to ``b``; ``t`` is the share of the way, 0 … 1.

    INVERSE_SQRT decays from the first step of the ramp on (Vaswani et al. 2017, with warmup as its first step).
    Levanter's ``inv_sqrt`` has a timescale instead: 10,000 steps by default.
    """

    _value_: str
    LINEAR = "linear"  # a + (b - a)·t
    COSINE = "cosine"  # b + (a - b)·(1 + cos πt)/2
    INVERSE = "inv"  # a / ((a/b - 1)·t + 1); b must not be 0
    INVERSE_SQRT = "inv_sqrt"  # a·√(first step / step), not below b; from step 1 on


@value("rewarmup")
class Rewarmup:
    """A fall to the schedule's floor at step ``at``, and a climb back to the peak in ``steps`` steps."""

    at: int
    steps: int


@value("decay")
class Decay:
    """A decay from the peak at step ``start`` to the floor at step ``end``."""

    start: int
    end: int
    shape: Shape = since(2, default=Shape.LINEAR)


@value("cycles")
class Cycles:
    """WSD-S cycles of ``length`` steps: hold, then fall to the floor in the last ``decay`` steps of each cycle.

    until: the last cycle ends at this step or before. rewarmup: steps back to the peak, 0 for a jump.
    Source: Wen et al. 2024, arXiv 2410.05192; the 8B's first 660,000 steps.
    """

    length: int
    decay: int
    until: int
    rewarmup: int = 0
    shape: Shape = Shape.LINEAR


class Ramp(NamedTuple):
    """A change of the rate from step ``start`` to ``end``. The last value holds until the next ramp."""

    start: int
    end: int
    first: float
    last: float
    shape: Shape = Shape.LINEAR

    def rate(self, step: int) -> float:
        if self.end <= self.start:
            return self.last
        done = min(max((step - self.start) / (self.end - self.start), 0.0), 1.0)
        if self.shape is Shape.COSINE:
            return self.last + (self.first - self.last) * (1 + math.cos(math.pi * done)) / 2
        if self.shape is Shape.INVERSE:
            return self.first / ((self.first / self.last - 1) * done + 1)
        if self.shape is Shape.INVERSE_SQRT:
            return max(self.last, self.first * math.sqrt(self.start / min(max(step, self.start), self.end)))
        return self.first + (self.last - self.first) * done


@value("schedule")
class Schedule:
    """A learning rate schedule: warmup, hold, cycles, re-warmups, decay, as fractions of the peak rate.

    warmup: steps from 0 to the peak. floor: lowest fraction, at which re-warmups begin and the decay ends.
    Raises BadField for ramps that overlap or cannot be computed.

    WSD: ``Schedule(warmup, decay=Decay(start, end))``. Cosine, or inverse square root, after the warmup:
    ``Decay(warmup, end, Shape.COSINE)``, ``Shape.INVERSE_SQRT``. WSD-S: ``cycles=Cycles(…)``.
    """

    warmup: int = 0
    rewarmups: tuple[Rewarmup, ...] = ()
    decay: Decay | None = None
    floor: float = 0.0
    cycles: Cycles | None = since(2, default=None)

    def __post_init__(self) -> None:
        if self.warmup < 0 or not 0 <= self.floor <= 1:
            raise BadField(f"schedule: warmup {self.warmup} and floor {self.floor}; wanted >= 0 and 0 … 1")
        if (made := self.cycles) is not None and not 0 < made.decay <= made.length - made.rewarmup <= made.length:
            raise BadField(
                f"schedule: cycles of {made.length} steps cannot hold {made.rewarmup} of rewarmup and {made.decay} of "
                "decay; wanted a decay of at least 1, and both together no longer than a cycle"
            )
        ramps = self.ramps()
        for ramp in ramps[1:]:
            if ramp.end < ramp.start or (ramp.end == ramp.start and ramp.first != ramp.last):
                raise BadField(f"schedule: a ramp from step {ramp.start} to {ramp.end}; the end must come later")
            if ramp.shape is Shape.INVERSE and not ramp.last:
                raise BadField("schedule: an inverse decay never reaches 0; give a floor, 0.1 say")
            if ramp.shape is Shape.INVERSE_SQRT and not ramp.start:
                raise BadField("schedule: an inverse square root cannot begin at step 0; begin where a warmup ends")
        for earlier, later in pairwise(ramps):
            if later.start < earlier.end:
                raise BadField(
                    f"schedule: the ramp from step {later.start} begins before the one that ends at {earlier.end}; "
                    "ramps must not overlap"
                )

    def ramps(self) -> list[Ramp]:
        """Return all ramps in order; the first ramp starts at step 0."""
        made = [Ramp(0, self.warmup, 0.0 if self.warmup else 1.0, 1.0), *self._cycle_ramps()]
        made += [Ramp(again.at, again.at + again.steps, self.floor, 1.0) for again in self.rewarmups]
        if self.decay is not None:
            made.append(Ramp(self.decay.start, self.decay.end, 1.0, self.floor, self.decay.shape))
        return made

    def _cycle_ramps(self) -> Iterator[Ramp]:
        if (made := self.cycles) is None:
            return
        for end in range(made.length, made.until + 1, made.length):
            yield Ramp(end - made.decay, end, 1.0, self.floor, made.shape)
            if end < made.until:
                yield Ramp(end, end + made.rewarmup, self.floor if made.rewarmup else 1.0, 1.0)

    def learning_rate(self, step: int, peak: float) -> float:
        """Return the rate of the update after ``step`` steps, which makes them ``step`` + 1."""
        ramps = self.ramps()
        return peak * ramps[bisect_right([ramp.start for ramp in ramps], step) - 1].rate(step)
