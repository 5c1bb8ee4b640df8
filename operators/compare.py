"""Compare: compare the arms of an experiment with a baseline, and repeat the findings of the evidence reports."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from marin import Context, ExecutorStep, Report, Scores, since
from marin.errors import BadField
from marin.evaluation.published_models import MODELS
from operators.measured import measured_by


class Compare(ExecutorStep[Report], op="compare", version=6):
    """Every metric by arm, with paired differences to the baseline and their intervals over items.

    arms: scores by name; one arm is the baseline. For an arm of several runs that differ in their seed, give the scores
    of all its runs: values are then means over runs, and the intervals say how far seeds spread.
    evidence: reports by name; the comparison repeats their verdicts. If a report's ``vetoes`` (arm → tasks) say that an
    arm was trained on a task's items, the arm's numbers for this task bear a star, and the answer says what they are
    worth.
    primary: the metrics that decide, () for all. guard: the metrics that must not suffer. Both hold names or, ending in
    "/", prefixes: "gsm/olmes/bpb", "bpb/". Differences are corrected for the number of metrics in each (Holm).
    published: names of models in marin.evaluation.published_models; the page shows their numbers too. beyond: the
    question that runs of this size cannot answer, and the size that can; the answer ends with this text.
    """

    arms: Mapping[str, ExecutorStep[Scores] | tuple[ExecutorStep[Scores], ...]]
    baseline: str
    evidence: Mapping[str, ExecutorStep[Report]] = field(default_factory=dict[str, ExecutorStep[Report]])
    primary: tuple[str, ...] = ()
    guard: tuple[str, ...] = ()
    published: tuple[str, ...] = since(5, default=())
    beyond: str = since(5, default="")

    def check(self) -> None:
        if self.baseline not in self.arms:
            raise BadField(f"Compare.baseline is {self.baseline!r}; wanted one of {', '.join(sorted(self.arms))}")
        if len(self.arms) < 2:
            raise BadField(f"Compare.arms holds only {self.baseline}; wanted another arm to compare with")

        for name in self.published:
            if name not in MODELS:
                near = difflib.get_close_matches(name, MODELS, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(MODELS)}"
                raise BadField(f"Compare.published names {name!r}, for which marin knows no numbers; {hint}")

        for name, arm in self.arms.items():
            runs = _runs(arm)
            if not runs or len(set(runs)) < len(runs):
                raise BadField(
                    f"Compare.arms[{name!r}] is {'empty' if not runs else 'the same run twice'}; wanted the scores of "
                    "one run, or of several that differ in their seed"
                )

        measured = measured_by(_runs(self.arms[self.baseline])[:1])
        if measured is not None:
            for what, names in (("primary", self.primary), ("guard", self.guard)):
                for name in names:
                    measured.must_hold(f"Compare.{what}", name)

    def run(self, ctx: Context) -> Report:
        import json

        from marin.evaluation.comparison import report
        from marin.evaluation.results import read_results

        arms = {name: [read_results(ctx[run].directory) for run in _runs(arm)] for name, arm in self.arms.items()}
        evidence: dict[str, str] = {}
        read: dict[str, dict[str, str]] = {}
        for name, step in self.evidence.items():
            written = json.loads(ctx[step].directory.read_text("report.json"))
            if verdict := written.get("verdict") or "; ".join(ctx[step].headline):
                evidence[name] = verdict
            for arm, tasks in written.get("vetoes", {}).items():
                read.setdefault(arm, {}).update({task: _told(written, arm, task) for task in tasks})
        made, headline = report(arms, self.baseline, evidence, read, self.primary, self.guard)
        if same := self._same_as_baseline(ctx):
            said = f"{', '.join(same[:-1])} and {same[-1]} are the same model: they read the same text."
            answer: list[str] = made["answer"]
            made |= {"same": said, "answer": [said, *answer] if len(same) < len(self.arms) else [said]}
            headline = [*made["answer"], *headline[len(answer) :]]
        if self.beyond:
            headline.insert(len(made["answer"]), self.beyond)
            made["answer"].append(self.beyond)
        made["published"] = {
            name: {"source": MODELS[name].source, "scores": dict(MODELS[name].scores), "read": dict(MODELS[name].read)}
            for name in self.published
        }
        ctx.out.write_text("report.json", json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Report(headline=headline)

    def _same_as_baseline(self, ctx: Context) -> list[str]:
        """Return the baseline and the arms that share its scores as one output; empty if no arm does."""
        outputs = {name: [ctx[run].directory.url for run in _runs(arm)] for name, arm in self.arms.items()}
        same = [name for name in self.arms if name != self.baseline and outputs[name] == outputs[self.baseline]]
        return [self.baseline, *same] if same else []


def _told(written: Mapping[str, Any], arm: str, task: str) -> str:
    """Return in words how many of the task's items the arm read, if the report counted them."""
    counted = written.get("exposure", {}).get(arm) if written.get("members") == task else None
    if counted is None or not counted["items"]:
        return "its test items"
    return f"{counted['items']} of its {counted['of']} test items"


def _runs(arm: ExecutorStep[Scores] | tuple[ExecutorStep[Scores], ...]) -> tuple[ExecutorStep[Scores], ...]:
    return arm if isinstance(arm, tuple) else (arm,)
