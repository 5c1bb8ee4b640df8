"""Reading: a number from a training's metrics, to compare between arms."""

from __future__ import annotations

from marin.errors import BadField
from marin.steps.value import value


@value("reading", kw_only=True)
class Reading:
    """The mean of ``metric`` over the rows of the optimizer steps first … end - 1 that have it.

    minus: another metric, subtracted in each row. since: (first, end) of earlier steps, whose mean is subtracted, so
    that the reading is the growth since then.
    """

    metric: str
    first: int
    end: int
    minus: str = ""
    since: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for first, end in (self.since or (self.first, self.end), (self.first, self.end)):
            if not 0 <= first < end:
                raise BadField(f"reading of {self.metric}: steps {first} to {end}; wanted an end after the first")
