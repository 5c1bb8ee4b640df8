"""CompareTrainings: compare the metrics of trainings step by step: losses, norms, held-out text."""

from __future__ import annotations

from collections.abc import Mapping

from marin import Checkpoint, Context, ExecutorStep, Report
from marin.errors import BadField
from marin.training.readings import Reading


class CompareTrainings(ExecutorStep[Report], op="compare-trainings"):
    """Readings of each arm's metrics, with the difference to the baseline and its 95 % interval over steps.

    arms: trainings or milestones by name. baseline: one of the arms. readings: by the name that the page shows.
    Each arm is one run, and an interval over the steps of one run says nothing about other seeds.
    Raises NothingScored for a metric that is missing at the steps of a reading.
    """

    arms: Mapping[str, ExecutorStep[Checkpoint]]
    baseline: str
    readings: Mapping[str, Reading]

    def check(self) -> None:
        if self.baseline not in self.arms:
            raise BadField(
                f"CompareTrainings.baseline is {self.baseline!r}; wanted one of {', '.join(sorted(self.arms))}"
            )
        if not self.readings:
            raise BadField("CompareTrainings.readings is empty; name at least one Reading")

    def run(self, ctx: Context) -> Report:
        import json

        from marin.training.metrics import read_metrics
        from marin.training.reading_report import report

        metrics = {name: read_metrics(ctx[arm].directory) for name, arm in self.arms.items()}
        made, headline = report(metrics, self.baseline, self.readings)
        ctx.out.write_text("report.json", json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Report(headline=headline)
