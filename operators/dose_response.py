"""DoseResponse: find how often a run must read test items until each detector of contamination notices."""

from __future__ import annotations

from collections.abc import Mapping

from marin import Context, ExecutorStep, Report, Scores
from marin.errors import BadField


class DoseResponse(ExecutorStep[Report], op="dose-response", version=1):
    """Every detector at every dose and seed, with its false alarms on runs that read no test item.

    parent: scores of the checkpoint from which all runs continue. doses: scores of each seed, by the number of times
    that the run read the leaked items; 0 for clean runs. exposure: the Exposure of each seed, for every dose but 0.
    members: the task of test items, some of them leaked. reference: the task of items from the same source, never
    trained on.
    """

    parent: ExecutorStep[Scores]
    doses: Mapping[int, tuple[ExecutorStep[Scores], ...]]
    exposure: Mapping[int, tuple[ExecutorStep[Report], ...]]
    members: str = "gsm"
    reference: str = "gsm_reference"

    def check(self) -> None:
        if 0 not in self.doses or len(self.doses) < 2:
            raise BadField(
                f"DoseResponse.doses are {', '.join(map(str, sorted(self.doses)))}; wanted 0, for the runs that read "
                "no test item, and at least one more dose"
            )
        counted = {dose: len(runs) for dose, runs in self.exposure.items()}
        wanted = {dose: len(runs) for dose, runs in self.doses.items() if dose}
        if counted != wanted:
            raise BadField(
                f"DoseResponse.exposure has seeds {counted} by dose; wanted one for each run that read items: {wanted}"
            )

    def run(self, ctx: Context) -> Report:
        import json

        from marin.evaluation.contamination import Sets
        from marin.evaluation.dose import dose_report
        from marin.evaluation.exposure import read_reads
        from marin.evaluation.results import read_results

        made = dose_report(
            read_results(ctx[self.parent].directory),
            {dose: [read_results(ctx[run].directory) for run in runs] for dose, runs in self.doses.items()},
            {dose: [read_reads(ctx[run].directory) for run in runs] for dose, runs in self.exposure.items()},
            Sets(self.members, self.reference),
        )
        ctx.out.write_text("report.json", json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Report(headline=[made["verdict"]])
