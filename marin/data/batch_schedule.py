"""BatchSchedule: how many sequences a batch has, by optimizer step."""

from __future__ import annotations

from collections.abc import Mapping

from marin.data.by_step import active_from, check_steps, scaled_steps
from marin.errors import BadField
from marin.steps.value import value


@value("batch_schedule")
class BatchSchedule:
    """The global batch size from each optimizer step on: ``BatchSchedule({0: 8192, 18_500: 7680, 21_010: 8192})``."""

    at: Mapping[int, int]

    def __post_init__(self) -> None:
        check_steps("batch schedule", self.at)
        for step, size in self.at.items():
            if type(size) is not int or size <= 0:
                raise BadField(f"batch schedule: the batch from step {step} is {size!r}, wanted a positive integer")

    @property
    def starts(self) -> tuple[int, ...]:
        """Return the optimizer steps at which the batch size is set, ascending."""
        return tuple(self.at)

    def batch(self, step: int) -> int:
        """Return the number of sequences in the batch of one optimizer step."""
        return self.at[active_from("batch schedule", self.starts, step)]

    def sequences_before(self, step: int) -> int:
        """Return the sequences consumed by the first ``step`` optimizer steps: the start of batch ``step``."""
        if step < 0:
            raise BadField(f"batch schedule: step {step} was requested; steps start at 0")
        ends = (*self.starts[1:], step)
        return sum(
            max(0, min(end, step) - start) * self.at[start] for start, end in zip(self.starts, ends, strict=True)
        )

    def step_of(self, sequence: int) -> int:
        """Return the optimizer step whose batch holds global sequence number ``sequence``."""
        if sequence < 0:
            raise BadField(f"batch schedule: sequence {sequence} was requested; sequences start at 0")
        start = max(start for start in self.starts if self.sequences_before(start) <= sequence)
        return start + (sequence - self.sequences_before(start)) // self.at[start]

    def tokens(self, seq_len: int | Mapping[int, int], first: int, end: int) -> int:
        """Return the tokens in the batches of optimizer steps first … end - 1.

        seq_len: of every sequence, or a mapping from the step at which each length begins. Its first step is 0.
        """
        if end < first:
            raise BadField(f"batch schedule: cannot count tokens from step {first} to {end}: end must not come first")
        lengths = seq_len if isinstance(seq_len, Mapping) else {0: seq_len}
        return sum(
            (self.sequences_before(min(stop, end)) - self.sequences_before(max(start, first))) * length
            for (start, length), stop in zip(lengths.items(), [*[*lengths][1:], end], strict=True)
            if max(start, first) < min(stop, end)
        )

    def scaled(self, *, steps: int, batch: int) -> BatchSchedule:
        """Return a schedule for a smaller run: first steps divided by ``steps``, batches by ``batch``.

        First steps are rounded down. Batches are rounded to the nearest integer, halves up. Raises
        BadField if two entries get one step or a batch becomes 0.
        """
        if batch < 1:
            raise BadField(f"batch schedule: the batch divisor is {batch}, wanted at least 1")
        rounded = {step: (2 * size + batch) // (2 * batch) for step, size in self.at.items()}
        return BatchSchedule(scaled_steps("batch schedule", rounded, steps))
