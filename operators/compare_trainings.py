"""CompareTrainings: what the metrics of trainings say while they run: losses, norms, held-out text, step by step."""

from __future__ import annotations

from collections.abc import Mapping

from marin import Checkpoint, Context, ExecutorStep, Report
from marin.errors import BadField
from marin.training.readings import Reading


class CompareTrainings(ExecutorStep[Report], op="compare-trainings"):
    """Readings of each arm's metrics, with the difference to the baseline and its 95 % interval over steps.

    arms: trainings by name, or milestones of them. baseline: one of the arms. readings: by what a page calls them.
    An interval over the steps of one run an arm says nothing of other seeds.
    Raises NothingScored for a metric that is not there at the steps that a reading names.
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
