"""One metric of several arms, with each arm's difference from the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from marin.evaluation.statistics import CONFIDENCE, Estimate, detectable_effect


@dataclass(frozen=True)
class Difference:
    """One arm minus the baseline.

    contaminated: the arms, of these two, that were trained on these items. seeds: the interval covers seeds, too.
    family: the number of metrics that are judged together. corrected: the p-value, corrected for that number.
    """

    estimate: Estimate
    higher_is_better: bool
    contaminated: tuple[str, ...] = ()
    seeds: bool = False
    family: int = 1
    corrected: float | None = None

    @property
    def shown(self) -> bool:
        p = self.estimate.p if self.corrected is None else self.corrected
        return p < 1 - CONFIDENCE and not self.estimate.too_few

    @property
    def is_better(self) -> bool:
        """Return whether the value is better, even if the difference is not shown."""
        return (self.estimate.value > 0) is self.higher_is_better

    @property
    def detectable(self) -> float:
        half = (self.estimate.high - self.estimate.low) / 2
        return detectable_effect(self.estimate.se, half / self.estimate.se) if self.estimate.se else 0.0

    @property
    def verdict(self) -> str:
        """Return the difference in words that claim no more than the items show.

        A star means that one of the two arms was trained on these items."""
        star = "*" if self.contaminated else ""
        if self.shown:
            over = "over seeds and items" if self.seeds else "on these items"
            return f"{'better' if self.is_better else 'worse'} by {abs(self.estimate.value):.4f} {over}{star}"
        if self.estimate.excludes_zero and self.estimate.too_few:
            return f"no difference shown ({self.estimate.too_few}){star}"
        if self.estimate.excludes_zero:
            return f"no difference shown among {self.family} metrics{star}"
        return f"no difference shown (one of {self.detectable:.4f} would be, 4 times in 5){star}"


@dataclass(frozen=True)
class Row:
    """One metric: each arm's value, and its difference from the baseline."""

    metric: str
    unit: str
    higher_is_better: bool
    values: Mapping[str, float]  # the mean of an arm's runs
    differences: Mapping[str, Difference] = field(default_factory=dict[str, Difference])
    runs: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])  # of arms with several runs
    contaminated: Sequence[str] = ()  # arms that were trained on these items

    def as_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "unit": self.unit,
            "higher_is_better": self.higher_is_better,
            "values": dict(self.values),
            "runs": {arm: list(values) for arm, values in self.runs.items()},
            "contaminated": list(self.contaminated),
            "differences": {
                arm: {
                    **{name: held for name, held in asdict(one.estimate).items() if name != "carry"},
                    "corrected": one.corrected,
                    "family": one.family,
                    "shown": one.shown,
                    "detectable": one.detectable,
                    "contaminated": list(one.contaminated),
                    "verdict": one.verdict,
                }
                for arm, one in self.differences.items()
            },
        }
