"""Ladder: train one recipe at rising FLOPs, fit its loss, and predict a large run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Protocol

from marin import Accelerator, Context, ExecutorStep, Report, Scores, execution, value
from marin.errors import BadField
from marin.evaluation.families.in_flops import in_flops
from marin.evaluation.metric_names import is_better_lower
from operators.measured import measured_by
from operators.rungs import Rung
from operators.train import Train

MOST_RECIPES = 2
FAR = 1.5  # factor by which the FLOPs of a training may differ from its rung's

type Recipe = Callable[[Rung, int], Train]


class Rule(Protocol):
    """A value that turns FLOPs into a rung: TokensPerParameter, or one of your own with ``@value``."""

    def rung(self, flops: float, spread: float = 1.0) -> Rung: ...


@value("ladder_task", kw_only=True)
class LadderTask:
    """An accuracy to predict in two steps, by the loss of the same task. guess: the accuracy of a guess."""

    accuracy: str
    loss: str
    guess: float


@value("ladder_member", kw_only=True)
class LadderMember:
    """One run. rung: its size. flops, parameters, tokens: of the training itself."""

    recipe: str
    rung: Rung
    seed: int
    flops: float
    parameters: int
    tokens: int
    scores: ExecutorStep[Scores]


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """One training and one evaluation for each rung and seed; ``report`` predicts the loss of a larger run.

    ::

        Ladder(rungs=(3e17, 1e18, 3e18, 1e19, 3e19), rule=TokensPerParameter(vocabulary=128_256), recipe=recipe,
               seeds=2, score=score, primary="bpb/web", target=1e22).report

    A rung or seed that is added later trains its own runs only.

    rungs: FLOPs of a run, ascending. rule: what makes a size of them. recipe: makes the training of a rung, called as
    ``recipe(rung, seed)``; two recipes by name, {"adam": …, "muon": …}, are compared at the target. score: makes the
    evaluation of a training. primary: the loss that is predicted, as the evaluation names it. target: FLOPs of the
    large run. spread: tokens a parameter as multiples of the rule's; with (0.5, 1, 2) parameters and tokens vary, and
    their law is fitted too. tasks: accuracies to predict.
    Raises BadField for rungs that do not ascend, for two rungs that give the same training, for a training that is not
    of its rung's size, and for metrics that the evaluation does not measure.
    """

    rungs: Sequence[float]
    rule: Rule
    recipe: Recipe | Mapping[str, Recipe]
    score: Callable[[Train], ExecutorStep[Scores]]
    primary: str
    target: float
    seeds: int = 1
    spread: Sequence[float] = (1.0,)
    tasks: Sequence[LadderTask] = ()
    label: str = "ladder"

    def __post_init__(self) -> None:
        if (
            len(self.rungs) < 2
            or any(later <= earlier for earlier, later in pairwise(self.rungs))
            or self.rungs[0] <= 0
        ):
            raise BadField(f"{self.label}: rungs are {tuple(self.rungs)}; wanted two or more FLOPs, ascending")
        if self.target <= self.rungs[-1]:
            raise BadField(
                f"{self.label}: target is {self.target:.3g} FLOPs, the largest rung {self.rungs[-1]:.3g}; wanted a "
                "larger target, since a run of that size is in the ladder already"
            )
        if self.seeds < 1:
            raise BadField(f"{self.label}: seeds is {self.seeds}; wanted at least 1")
        if 1.0 not in self.spread or min(self.spread) <= 0 or len(set(self.spread)) < len(self.spread):
            raise BadField(
                f"{self.label}: spread is {tuple(self.spread)}; wanted multiples above 0, each once, 1 among them"
            )
        if not 1 <= len(self.recipes) <= MOST_RECIPES:
            raise BadField(f"{self.label}: {len(self.recipes)} recipes; wanted one, or two to compare")
        self._check_metrics()
        self._check_trainings()

    @property
    def recipes(self) -> dict[str, Recipe]:
        return {"recipe": self.recipe} if callable(self.recipe) else dict(self.recipe)

    @cached_property
    def sizes(self) -> tuple[Rung, ...]:
        """What the rule makes of the rungs, with each multiple of ``spread``."""
        found = {(flops, spread): self.rule.rung(flops, spread) for flops, spread in product(self.rungs, self.spread)}
        seen: dict[Rung, float] = {}
        for (flops, _), rung in found.items():
            if (other := seen.setdefault(rung, flops)) != flops:
                raise BadField(
                    f"{self.label}: rungs {other:.3g} and {flops:.3g} get the same size, of {rung.flops:.3g} FLOPs; "
                    "take them further apart, or a smaller width_multiple in the rule"
                )
        return tuple(found.values())

    @cached_property
    def trainings(self) -> dict[tuple[str, Rung, int], Train]:
        """By recipe, rung and seed."""
        return {
            (name, rung, seed): replace(recipe(rung, seed), label=self._called(name, rung, seed))
            for name, recipe in self.recipes.items()
            for rung in self.sizes
            for seed in range(self.seeds)
        }

    @cached_property
    def members(self) -> tuple[LadderMember, ...]:
        return tuple(
            LadderMember(
                recipe=name,
                rung=rung,
                seed=seed,
                flops=training.flops(),
                parameters=training.model.layers * training.model.matrix_parameters()
                + training.vocabulary * training.model.hidden,
                tokens=training.tokens_trained(),
                scores=self.score(training),
            )
            for (name, rung, seed), training in self.trainings.items()
        )

    @property
    def report(self) -> LadderReport:
        return LadderReport(
            label=self.label,
            members=self.members,
            primary=self.primary,
            target=self.target,
            large=self.rule.rung(self.target),
            tasks=tuple(self.tasks),
            rule=str(self.rule),
            accelerator=next(reversed(self.trainings.values())).resources.accelerator,
        )

    def _called(self, name: str, rung: Rung, seed: int) -> str:
        recipe = f"-{name}" if len(self.recipes) > 1 else ""
        tokens = f"-x{rung.spread:g}" if rung.spread != 1 else ""
        return f"{self.label}{recipe}-{in_flops(rung.flops)}{tokens}-{seed}"

    def _check_metrics(self) -> None:
        for what, name in (("primary", self.primary), *(("tasks", each.loss) for each in self.tasks)):
            if not is_better_lower(name):
                raise BadField(
                    f"{self.label}: {what} names {name!r}, which rises as models improve; a ladder fits a loss: name "
                    "bits per byte, and give accuracies as tasks=(LadderTask(…),)"
                )
        for each in self.tasks:
            if not 0 <= each.guess < 1:
                raise BadField(f"{self.label}: guess of {each.accuracy} is {each.guess}; wanted 1 / choices, or 0")
        measured = measured_by([self.members[0].scores])
        if measured is not None:
            for name in (self.primary, *(name for each in self.tasks for name in (each.loss, each.accuracy))):
                measured.must_hold(f"{self.label}: primary or tasks", name)

    def _check_trainings(self) -> None:
        """Raises BadField for two runs that are the same training, and for one that is not of its rung's size."""
        seen: dict[Train, str] = {}
        for (name, rung, seed), training in self.trainings.items():
            called = self._called(name, rung, seed)
            if (other := seen.setdefault(training, called)) != called:
                raise BadField(
                    f"{self.label}: {called} and {other} are the same training; use rung and seed in the recipe"
                )
            if not 1 / FAR < training.flops() / rung.flops < FAR:
                raise BadField(
                    f"{self.label}: {called} trains {training.flops():.3g} FLOPs, its rung has {rung.flops:.3g}; "
                    "wanted rung.shape, rung.batches and end_step=rung.steps in the recipe"
                )


class LadderReport(ExecutorStep[Report], op="ladder"):
    """The loss that a ladder predicts for a larger run, with a backtest; of two recipes, which one wins there.

    members: one run for each recipe, rung and seed. primary: the loss. target: FLOPs of the large run. large: its size
    by the rule, which is told as ``rule``. accelerator: what the costs of a further rung are counted in.
    """

    members: tuple[LadderMember, ...]
    primary: str
    target: float
    large: Rung
    tasks: tuple[LadderTask, ...] = ()
    rule: str = execution(default="")
    accelerator: Accelerator | None = execution(default=None)

    def run(self, ctx: Context) -> Report:
        import json

        from marin.evaluation.families.ladder import Asked, Run, ladder_report
        from marin.evaluation.metric_names import measured_as

        runs: list[Run] = []
        for each in self.members:
            metrics = ctx[each.scores].metrics
            for name in (self.primary, *(name for task in self.tasks for name in (task.accuracy, task.loss))):
                measured_as(name, list(metrics), "Ladder.primary or Ladder.tasks")
            runs.append(
                Run(
                    recipe=each.recipe,
                    flops=each.flops,
                    parameters=each.parameters,
                    tokens=each.tokens,
                    seed=each.seed,
                    metrics=metrics,
                    on_path=each.rung.spread == 1,
                )
            )
        asked = Asked(
            primary=self.primary,
            target=self.target,
            target_sizes=(self.large.parameters, self.large.tokens),
            tasks={task.accuracy: (task.loss, task.guess) for task in self.tasks},
            accelerator=self.accelerator,
        )
        made, headline = ladder_report(runs, asked)
        ctx.out.write_text("report.json", json.dumps(made, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Report(headline=headline)
