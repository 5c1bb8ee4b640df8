"""The learning rate at each optimizer step, counted over all phases of a run."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from marin.errors import BadField
from marin.steps.value import value


@value("rewarmup")
class Rewarmup:
    """Fall to the schedule's floor at step ``at`` and climb back to the peak in ``steps`` steps."""

    at: int
    steps: int


@value("decay")
class Decay:
    """From the peak at step ``start`` down to the floor, reached at step ``end``."""

    start: int
    end: int


class Ramp(NamedTuple):
    """A straight line from step ``start`` to ``end``; its last value holds until the next ramp."""

    start: int
    end: int
    first: float
    last: float


@value("schedule")
class Schedule:
    """Linear warmup, hold, re-warmups, linear decay, as fractions of the peak rate.

    warmup: steps from 0 to the peak. floor: lowest fraction, where re-warmups begin and the decay ends.
    Raises BadField for ramps that overlap.
    """

    warmup: int = 0
    rewarmups: tuple[Rewarmup, ...] = ()
    decay: Decay | None = None
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.warmup < 0 or not 0 <= self.floor <= 1:
            raise BadField(f"schedule: warmup {self.warmup} and floor {self.floor}; wanted >= 0 and 0 … 1")
        ramps = self.ramps()
        for ramp in ramps[1:]:
            if ramp.end <= ramp.start:
                raise BadField(f"schedule: a ramp from step {ramp.start} to {ramp.end}; the end must come later")
        for earlier, later in pairwise(ramps):
            if later.start < earlier.end:
                raise BadField(
                    f"schedule: the ramp from step {later.start} begins before the one that ends at {earlier.end}; "
                    "ramps must not overlap"
                )

    def ramps(self) -> list[Ramp]:
        """All ramps in order; the first starts at step 0."""
        made = [Ramp(0, self.warmup, 0.0 if self.warmup else 1.0, 1.0)]
        made += [Ramp(again.at, again.at + again.steps, self.floor, 1.0) for again in self.rewarmups]
        if self.decay is not None:
            made.append(Ramp(self.decay.start, self.decay.end, 1.0, self.floor))
        return made

    def learning_rate(self, step: int, peak: float) -> float:
        """The rate of the update that turns ``step`` steps done into ``step`` + 1."""
        ramps = self.ramps()
        ramp = ramps[bisect_right([ramp.start for ramp in ramps], step) - 1]
        done = min(max((step - ramp.start) / max(ramp.end - ramp.start, 1), 0.0), 1.0) if ramp.end > ramp.start else 1.0
        return peak * (ramp.first + (ramp.last - ramp.first) * done)
