"""Compare: the arms of an experiment against a baseline, with what the evidence reports found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from marin import Context, ExecutorStep, Report, Scores
from marin.errors import BadField


class Compare(ExecutorStep[Report], op="compare", version=3):
    """Every metric by arm, with paired differences to the baseline and their intervals over items.

    arms: scores by name, one of them the baseline; of several runs that differ in their seed, all their scores: then
    values are means over runs, and the intervals say how far seeds spread.
    evidence: reports by name, whose verdicts are repeated here; a report's ``vetoes`` (by arm, tasks whose items it was
    trained on) keep those metrics from being compared.
    primary: the metrics that decide, () for all. guard: those that must not suffer. Both by name or, ending in
    "/", by prefix: "gsm/olmes/bpb", "bpb/".
    """

    arms: Mapping[str, ExecutorStep[Scores] | tuple[ExecutorStep[Scores], ...]]
    baseline: str
    evidence: Mapping[str, ExecutorStep[Report]] = field(default_factory=dict[str, ExecutorStep[Report]])
    primary: tuple[str, ...] = ()
    guard: tuple[str, ...] = ()

    def check(self) -> None:
        if self.baseline not in self.arms:
            raise BadField(f"Compare.baseline is {self.baseline!r}; wanted one of {', '.join(sorted(self.arms))}")
        if len(self.arms) < 2:
            raise BadField(f"Compare.arms holds only {self.baseline}; wanted another arm to compare with")

        for name, arm in self.arms.items():
            runs = _runs(arm)
            if not runs or len(set(runs)) < len(runs):
                raise BadField(
                    f"Compare.arms[{name!r}] is {'empty' if not runs else 'the same run twice'}; wanted the scores of "
                    "one run, or of several that differ in their seed"
                )

    def run(self, ctx: Context) -> Report:
        import json

        from marin.evaluation.comparison import report
        from marin.evaluation.results import read_results

        arms = {name: [read_results(ctx[run].directory) for run in _runs(arm)] for name, arm in self.arms.items()}
        evidence: dict[str, str] = {}
        vetoes: dict[str, set[str]] = {}
        for name, step in self.evidence.items():
            written = json.loads(ctx[step].directory.read_text("report.json"))
            if verdict := written.get("verdict") or "; ".join(ctx[step].headline):
                evidence[name] = verdict
            for arm, tasks in written.get("vetoes", {}).items():
                vetoes.setdefault(arm, set()).update(tasks)
        made, headline = report(arms, self.baseline, evidence, vetoes, self.primary, self.guard)
        ctx.out.write_text("report.json", json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Report(headline=headline)


def _runs(arm: ExecutorStep[Scores] | tuple[ExecutorStep[Scores], ...]) -> tuple[ExecutorStep[Scores], ...]:
    return arm if isinstance(arm, tuple) else (arm,)
