"""One metric of several arms, and how far each arm is from the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from marin.evaluation.statistics import Estimate, detectable_effect


@dataclass(frozen=True)
class Difference:
    """One arm minus the baseline. shown: the 95 % interval excludes zero.

    contaminated: which of the two arms were trained on these items; then neither is better. seeds: whether the interval
    says how far seeds spread.
    """

    estimate: Estimate
    higher_is_better: bool
    contaminated: tuple[str, ...] = ()
    seeds: bool = False

    @property
    def shown(self) -> bool:
        return self.estimate.excludes_zero

    @property
    def detectable(self) -> float:
        half = (self.estimate.high - self.estimate.low) / 2
        return detectable_effect(self.estimate.se, half / self.estimate.se) if self.estimate.se else 0.0

    @property
    def verdict(self) -> str:
        """In words; never more than items can say."""
        if self.contaminated:
            return f"not comparable, trained on these items: {' and '.join(self.contaminated)}"
        if not self.shown:
            return f"no difference shown (one of {self.detectable:.4f} would be, 4 times in 5)"
        better = (self.estimate.value > 0) is self.higher_is_better
        over = "over seeds and items" if self.seeds else "on these items"
        return f"{'better' if better else 'worse'} by {abs(self.estimate.value):.4f} {over}"


@dataclass(frozen=True)
class Row:
    """One metric: each arm's value, and each other arm's difference to the baseline."""

    metric: str
    unit: str
    higher_is_better: bool
    values: Mapping[str, float]  # the mean of an arm's runs
    differences: Mapping[str, Difference] = field(default_factory=dict[str, Difference])
    runs: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])  # where there are several

    def as_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "unit": self.unit,
            "higher_is_better": self.higher_is_better,
            "values": dict(self.values),
            "runs": {arm: list(values) for arm, values in self.runs.items()},
            "differences": {
                arm: {
                    **asdict(one.estimate),
                    "shown": one.shown,
                    "detectable": one.detectable,
                    "contaminated": list(one.contaminated),
                    "verdict": one.verdict,
                }
                for arm, one in self.differences.items()
            },
        }
