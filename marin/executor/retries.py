"""Retries of a step whose processes died or stood still: as long as it makes progress."""

from __future__ import annotations

from dataclasses import dataclass, field

from marin.executor.job import Outcome

LIMIT = 3  # attempts after the first that begin no further on than the one before


@dataclass
class Retries:
    """The retries of one run. Preemptions do not count: nobody caused them, and they cost only time."""

    _lost: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])

    def another(self, identity: str, outcome: Outcome) -> bool:
        """Return whether a step may be tried again after a lost attempt."""
        before, count = self._lost.get(identity, (-1.0, 0))
        count = 1 if outcome.began_at > before else count + 1
        self._lost[identity] = (max(before, outcome.began_at), count)
        return count <= LIMIT
