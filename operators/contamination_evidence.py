"""ContaminationEvidence: find the checkpoints that were trained on test items, and the prompt format of the items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from marin import Context, ExecutorStep, Report, Scores
from marin.errors import BadField


class ContaminationEvidence(ExecutorStep[Report], op="contamination-evidence", version=4):
    """Member gaps, their difference over formats, and fragility of one format against another, for every arm.

    parent: scores of the checkpoint from which the arms continued. arms: scores by name. clean: the arm with which the
    others are compared, besides the parent. members: the task of test items. reference: the task of items from the same
    source that no training read; "" if there is none. All scores hold both tasks, in one prompt format or more.
    exposure: by arm, the Exposure that counted the members that the arm read. Then read members are compared with
    unread ones, which needs no reference.
    """

    parent: ExecutorStep[Scores]
    arms: Mapping[str, ExecutorStep[Scores]]
    clean: str
    members: str = "gsm"
    reference: str = "gsm_reference"
    exposure: Mapping[str, ExecutorStep[Report]] = field(default_factory=dict[str, ExecutorStep[Report]])

    def check(self) -> None:
        if self.clean not in self.arms:
            raise BadField(
                f"ContaminationEvidence.clean is {self.clean!r}; wanted one of {', '.join(sorted(self.arms))}"
            )
        if self.members == self.reference:
            raise BadField(f"ContaminationEvidence: members and reference are both {self.members!r}; use two tasks")
        if strange := sorted(set(self.exposure) - set(self.arms)):
            raise BadField(
                f"ContaminationEvidence.exposure names {', '.join(strange)}; wanted names of arms, which are "
                f"{', '.join(sorted(self.arms))}"
            )

    def run(self, ctx: Context) -> Report:
        import json

        from marin.evaluation.contamination import Sets, report
        from marin.evaluation.exposure import read_reads
        from marin.evaluation.results import read_results
        from marin.evaluation.verdict import contamination_verdict

        arms = {name: read_results(ctx[step].directory) for name, step in self.arms.items()}
        parent = read_results(ctx[self.parent].directory)
        exposure = {name: read_reads(ctx[step].directory) for name, step in self.exposure.items()}
        made, headline = report(arms, parent, self.clean, Sets(self.members, self.reference), exposure)
        made["finding"], made["verdict"] = contamination_verdict(made)
        ctx.out.write_text("report.json", json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Report(headline=headline)
