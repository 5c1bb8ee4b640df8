"""Judge: decide on each candidate of a microannealing from the evaluations of all its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from math import isclose
from typing import Any, cast

from marin import Checkpoint, Context, ExecutorStep, Report, Scores, execution
from marin.errors import BadField
from marin.steps.step import identity_fields
from operators.measured import must_be_measured
from operators.train import Milestone, Train, trained_by

NEAR = 0.02  # share of a learning rate that one step of a schedule may change
# The fields in which two arms of one seed may differ: the mixture, and the gates that go with it.
MIXTURE = frozenset({"data", "allow_starved", "max_epochs", "gates"})

type Runs = Mapping[str, tuple[tuple[ExecutorStep[Scores], ...], ...]]


class Judge(ExecutorStep[Report], op="judge", version=3):
    """Adopt, reject, equivalent or inconclusive: a verdict on each candidate, from tasks. Loss is reported apart.

    arms: by name, the evaluations of each seed's run; all arms list seeds in the same order. control: the arm on the
    usual mixture. primary: the task metrics that decide, by name or, ending in "/", by prefix. Examples: Evaluate has
    "gsm/olmes/bpb", EvaluateTasks "mmlu/acc". margin: gains and losses smaller than this do not matter, in the unit of
    the metrics. guard: the most that a metric of tasks or loss may lose, by name or prefix ("bpb/"); a candidate is
    adopted only if it is shown to lose no more.
    references: by task, evaluated items of the same source that no training reads. If test items became easier for a
    candidate than these, that is contamination. evidence: reports whose ``vetoes`` name the tasks that an arm was
    trained on. inspections: by arm, an Inspect of its batches. earlier: arms of earlier microannealings of this family
    of checkpoints, to estimate the spread of seeds. tokens, chip_hours: of one run, to price further runs.
    Raises BadField for arms that differ in more than the mixture, for seeds that share an order of data, and for runs
    that begin at a learning rate other than their checkpoint's last.
    """

    control: str
    arms: Runs
    primary: tuple[str, ...]
    margin: float
    tokens: int
    guard: Mapping[str, float] = field(default_factory=dict[str, float])
    references: Mapping[str, str] = field(default_factory=dict[str, str])
    evidence: Mapping[str, ExecutorStep[Report]] = field(default_factory=dict[str, ExecutorStep[Report]])
    inspections: Mapping[str, ExecutorStep[Report]] = field(default_factory=dict[str, ExecutorStep[Report]])
    earlier: tuple[Runs, ...] = ()
    chip_hours: float | None = execution(default=None)

    def check(self) -> None:
        if self.control not in self.arms or len(self.arms) < 2:
            raise BadField(
                f"Judge.control is {self.control!r}, arms are {', '.join(sorted(self.arms)) or 'none'}; wanted the "
                "control and a candidate: without a control, you cannot tell the effect of the data from the cooldown's"
            )
        if not self.primary:
            raise BadField("Judge.primary is empty; before anything runs, name the task metrics that decide")
        if not self.margin > 0:
            raise BadField(f"Judge.margin is {self.margin}; wanted the smallest difference that matters, above 0")
        for name, may_lose in self.guard.items():
            if not may_lose > 0:
                raise BadField(f"Judge.guard[{name!r}] is {may_lose}; wanted the most that it may lose, above 0")
        must_be_measured("Judge", self.arms[self.control][0], self.primary, self.guard, self.references)
        for runs in (self.arms, *self.earlier):
            control = runs.get(self.control) or next(iter(runs.values()))
            _must_be_seeds(control)
            for arm, seeds in runs.items():
                _must_match(arm, seeds, control)
            _must_go_on(_training(control[0]))

    def run(self, ctx: Context) -> Report:
        import json

        from marin.evaluation.adoption_report import Judged, report
        from marin.evaluation.metric_names import task_of
        from marin.evaluation.results import RESULTS_FILE, Results, read_results
        from marin.evaluation.samples import read_logged

        def read(runs: Runs) -> dict[str, list[Results]]:
            """Return by arm the joined results of each run's evaluations."""
            joined: dict[str, list[Results]] = {}
            for arm, seeds in runs.items():
                there = [[ctx[scores].directory for scores in seed] for seed in seeds]
                parts = [[read_results(one) for one in of_seed if one.exists(RESULTS_FILE)] for of_seed in there]
                joined[arm] = [
                    Results(
                        {key: held for one in of_seed for key, held in one.items.items()},
                        {key: held for one in of_seed for key, held in one.documents.items()},
                        groups={key: held for one in of_seed for key, held in one.groups.items()},
                    )
                    for of_seed in parts
                ]
            return joined

        flags: dict[str, list[str]] = {}
        for name, step in sorted(self.evidence.items()):
            for arm, tasks in json.loads(ctx[step].directory.read_text("report.json")).get("vetoes", {}).items():
                flags.setdefault(arm, []).append(f"contamination: trained on items of {', '.join(tasks)} ({name})")
        inspected = {
            arm: json.loads(ctx[step].directory.read_text("report.json")) for arm, step in self.inspections.items()
        }
        for arm, found in _found_in_batches(inspected, self.control).items():
            flags.setdefault(arm, []).extend(found)
        logged = {
            arm: [[read_logged(ctx[one].directory) for one in seed] for seed in seeds]
            for arm, seeds in self.arms.items()
        }
        guesses = {name: chance for one in logged[self.control][0] for name, chance in one.chances.items()}
        judged = Judged(
            control=self.control,
            primary=self.primary,
            margin=self.margin,
            chances=_chances(self.arms[self.control][0])
            | {task_of(name): chance for name, chance in guesses.items()}
            | guesses,
            references=self.references,
            evidence=flags,
            tokens=self.tokens,
            guard=self.guard,
            chip_hours=self.chip_hours,
            groups={task: of for one in logged[self.control][0] for task, of in one.groups.items()},
        )
        items = {
            arm: [{name: of for one in seed for name, of in one.scores.items()} for seed in seeds]
            for arm, seeds in logged.items()
        }
        made, headline = report(read(self.arms), judged, [read(runs) for runs in self.earlier], items)
        ctx.out.write_text("report.json", json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n")
        ctx.out.write_text("report.md", _markdown(made))
        return Report(headline=headline)


def _checkpoint(scores: ExecutorStep[Scores]) -> ExecutorStep[Checkpoint]:
    """Return the checkpoint of an evaluation. Raises BadField for scores without a checkpoint."""
    checkpoint = getattr(scores, "checkpoint", None)
    if not isinstance(checkpoint, ExecutorStep):
        raise BadField(f"Judge: {scores.name} has no field checkpoint; wanted evaluations of trainings")
    return cast(ExecutorStep[Checkpoint], checkpoint)


def _training(seed: Sequence[ExecutorStep[Scores]]) -> Train:
    """Return the training whose run all these evaluations score, at its end. Raises BadField if they differ."""
    checkpoints = {_checkpoint(scores) for scores in seed}
    training = trained_by(next(iter(checkpoints))) if len(checkpoints) == 1 else None
    if training is None:
        names = ", ".join(sorted(checkpoint.name for checkpoint in checkpoints)) or "nothing"
        raise BadField(f"Judge: the evaluations of one run are of {names}; wanted all of one training")
    return training


def _must_be_seeds(seeds: Sequence[Sequence[ExecutorStep[Scores]]]) -> None:
    """Check that the runs of an arm differ in their order of data, and in nothing else. Raises BadField."""
    runs = [_training(seed) for seed in seeds]
    if not runs:
        raise BadField("Judge: an arm has no run; wanted one for each seed")
    for run in runs[1:]:
        if other := _differing(run, runs[0]) - {"seed"}:
            raise BadField(
                f"Judge: {run.called()} and {runs[0].called()} are runs of one arm, but differ in "
                f"{', '.join(sorted(other))}; wanted runs that differ only in their seed"
            )
    orders = [run.seed for run in runs]
    if shared := sorted({seed for seed in orders if orders.count(seed) > 1}):
        raise BadField(
            f"Judge: {orders.count(shared[0])} runs of one arm share a data order (seed {shared[0]}), so they are one "
            "run and say nothing about luck; give each a seed of its own"
        )


def _must_match(
    arm: str, seeds: Sequence[Sequence[ExecutorStep[Scores]]], control: Sequence[Sequence[ExecutorStep[Scores]]]
) -> None:
    """Check that an arm differs from the control only in the mixture, seed by seed. Raises BadField."""
    if len(seeds) != len(control):
        raise BadField(f"Judge: arm {arm} has {len(seeds)} seeds, the control {len(control)}; wanted as many in both")
    for number, (mine, theirs) in enumerate(zip(seeds, control, strict=True)):
        run, other = _training(mine), _training(theirs)
        differing = _differing(run, other) - MIXTURE
        if run.data.at.keys() != other.data.at.keys() or any(
            run.data.at[step] != other.data.at[step] for step in run.data.at if step < run.first_step
        ):
            differing |= {"data before its first step"}
        if differing:
            raise BadField(
                f"Judge: run {number} of {arm} and of the control differ in more than the mixture: "
                f"{', '.join(sorted(differing))}; wanted no other difference, so that the mixture can be judged"
            )
        asked = [[_asked(scores) for scores in of_run] for of_run in (mine, theirs)]
        if asked[0] != asked[1]:
            raise BadField(
                f"Judge: run {number} of {arm} has other evaluations than the control; give both the same evaluations"
            )


def _must_go_on(run: Train) -> None:
    """Check that a run begins at its checkpoint's last learning rate, within NEAR. Raises BadField."""
    parent = trained_by(run.start.checkpoint) if run.start is not None else None
    if parent is None:
        return
    before = parent.schedule.learning_rate(run.first_step - 1, parent.optimizer.peak_lr)
    now = run.schedule.learning_rate(run.first_step, run.optimizer.peak_lr)
    if not isclose(before, now, rel_tol=NEAR):
        raise BadField(
            f"Judge: {run.called()} begins at a learning rate of {now:.3g}, but its checkpoint was trained at "
            f"{before:.3g}; a jump has more effect than any mixture, so begin at the checkpoint's rate"
        )


def _differing(run: Train, other: Train) -> set[str]:
    mine, theirs = identity_fields(run), identity_fields(other)
    return {name for name in mine if mine[name] != theirs[name]}


def _asked(scores: ExecutorStep[Scores]) -> dict[str, Any]:
    return {name: held for name, held in identity_fields(scores).items() if name != "checkpoint"} | {"op": scores.op}


def _chances(seed: Sequence[ExecutorStep[Scores]]) -> dict[str, float]:
    """Return by task the accuracy of a guess among the choices."""
    found: dict[str, float] = {}
    for scores in seed:
        choices, tasks = getattr(scores, "choices", None), getattr(scores, "tasks", None)
        if isinstance(choices, int) and choices > 1 and isinstance(tasks, Mapping):
            found |= {str(task): 1 / choices for task in cast(Mapping[Any, Any], tasks)}
    return found


def _found_in_batches(inspected: Mapping[str, dict[str, Any]], control: str) -> dict[str, list[str]]:
    """Return by arm the findings of evaluation text in its batches, and of evaluation text with another format.

    A format finding counts only if the control does not have it too.
    """
    words = {"held out": "contamination", "form": "format gap"}
    found = {
        arm: {(each["kind"], each["source"] or each["text"].split(" by ")[0]): each for each in report["findings"]}
        for arm, report in inspected.items()
    }
    usual = {key for key in found.get(control, {}) if key[0] == "form"}
    return {
        arm: [
            f"{words[kind]}: {name}: {each['text']}" if each["source"] else f"{words[kind]}: {each['text']}"
            for (kind, name), each in sorted(of_arm.items())
            if kind in words and (kind, name) not in usual
        ]
        for arm, of_arm in found.items()
    }


def _markdown(made: dict[str, Any]) -> str:
    """Return the report as Markdown for an issue."""
    lines = [
        f"| candidate | verdict | {' | '.join(made['primary'])} |",
        "|---|---|" + "---|" * len(made["primary"]),
    ]
    for arm, found in made["candidates"].items():
        gains = [f"{task['gain']:+.4f} ({task['low']:+.4f} to {task['high']:+.4f})" for task in found["tasks"]]
        lines.append(f"| {arm} | {found['verdict'].upper()} | {' | '.join(gains)} |")
    lines.append("")
    for found in made["candidates"].values():
        needs = found["needs"]["sentence"] if found["needs"] else ""
        lines.append(f"- {' '.join(part for part in (found['sentence'], needs, found['disagreement']) if part)}")
    return "\n".join([*lines, "", made["note"], ""]).replace("-0.", "\N{MINUS SIGN}0.")


def asked_of(evaluation: ExecutorStep[Scores], run: Train | Milestone, label: str) -> ExecutorStep[Scores]:
    """Return the same evaluation of another checkpoint."""
    _checkpoint(evaluation)
    return replace(cast(Any, evaluation), checkpoint=run, label=label)
