"""The report of a ladder: what a large run will reach, which of two recipes wins there, and whether to believe it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from marin.errors import NothingScored
from marin.evaluation.families import law, sizes
from marin.evaluation.families.backtest import Backtest, of_loss
from marin.evaluation.families.in_flops import in_flops
from marin.evaluation.families.law import LEAST_RUNGS, PowerLaw, Range
from marin.evaluation.families.tasks import task_report
from marin.evaluation.metric_names import measure_of, task_of
from marin.steps.resources import Accelerator, training_cost

DECADE = 10.0  # how far the FLOPs of the rungs must reach
PLACES = 33  # of the band between the smallest rung and the target


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a ladder. on_path: trained as the rule says, not with more or fewer tokens. metrics: by name."""

    recipe: str
    flops: float
    parameters: float
    tokens: float
    seed: int
    metrics: Mapping[str, float]
    on_path: bool = True


@dataclass(frozen=True, kw_only=True)
class Asked:
    """target: FLOPs of the large run. target_sizes: its parameters and tokens by the rule. tasks: by accuracy, the loss
    that it follows from, and the accuracy of a guess. accelerator: what a run takes, for costs."""

    primary: str
    target: float
    target_sizes: tuple[float, float]
    tasks: Mapping[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    accelerator: Accelerator | None = None


def ladder_report(runs: Sequence[Run], asked: Asked) -> tuple[dict[str, Any], list[str]]:
    """Return report.json and the headline of a ladder of one recipe, or of two.

    The verdict is INCONCLUSIVE where rungs span less than a decade or are fewer than LEAST_RUNGS, where the backtest
    misses its interval, and where the interval at the target is too wide to tell. Raises NothingScored for a metric
    that is not a number.
    """
    for run in runs:
        for name in (asked.primary, *asked.tasks, *(loss for loss, _ in asked.tasks.values())):
            if not math.isfinite(run.metrics[name]):
                raise NothingScored(
                    f"{name} of {run.recipe}, {in_flops(run.flops)}, seed {run.seed}, is {run.metrics[name]}; if the "
                    "run diverged, lower the rule's learning rate"
                )
    recipes = [_Recipe(name, [run for run in runs if run.recipe == name], asked) for name in _names(runs)]
    made: dict[str, Any] = {
        "metric": asked.primary,
        "target": asked.target,
        "recipes": {each.name: each.as_json() for each in recipes},
    }
    if len(recipes) == 2:
        pair, verdict, answer, more = _two(recipes[0], recipes[1], asked)
        made |= pair
    else:
        verdict, answer, more = _one(recipes[0], asked)
    made["tasks"] = {
        accuracy: {each.name: task_report(each.rungs, accuracy, loss, floor, asked.target) for each in recipes}
        for accuracy, (loss, floor) in asked.tasks.items()
    }
    more += [
        f"{f'{name}: ' if len(recipes) > 1 else ''}{found['sentence']}"
        for of_task in made["tasks"].values()
        for name, found in of_task.items()
    ]
    named = len(recipes) > 1
    notes = [f"{f'{each.name}: ' if named else ''}{sentence}" for each in recipes for sentence in each.notes()]
    made |= {"verdict": verdict, "answer": answer, "more": more, "notes": notes}
    return made, [answer, *more]


class _Recipe:
    """What the runs of one recipe show."""

    def __init__(self, name: str, runs: Sequence[Run], asked: Asked) -> None:
        self.name, self.asked, self.runs = name, asked, runs
        path = [run for run in runs if run.on_path]
        self.rungs = [
            sorted((run for run in path if run.flops == flops), key=lambda run: run.seed)
            for flops in sorted({run.flops for run in path})
        ]
        self.compute = [rung[0].flops for rung in self.rungs]
        self.losses = [[run.metrics[asked.primary] for run in rung] for rung in self.rungs]

    @cached_property
    def law(self) -> PowerLaw | None:
        return law.fit(self.compute, self.losses) if len(self.rungs) > law.PARAMETERS else None

    @cached_property
    def prediction(self) -> Range | None:
        return None if self.law is None else self.law.predicted(self.asked.target)

    @cached_property
    def backtest(self) -> Backtest | None:
        return of_loss(self.compute, self.losses)

    @property
    def step(self) -> float:
        """The usual ratio of a rung's FLOPs to those of the rung below."""
        return (self.compute[-1] / self.compute[0]) ** (1 / (len(self.compute) - 1))

    @cached_property
    def doubt(self) -> tuple[str, float]:
        """Why the prediction is in doubt, "" if nothing speaks against it; and the FLOPs of a rung that would help."""
        above = self.compute[-1] * self.step
        if self.compute[-1] < DECADE * self.compute[0]:
            wide = f"the rungs span a factor of {self.compute[-1] / self.compute[0]:.2g} in FLOPs, less than a decade"
            return wide, max(above, DECADE * self.compute[0])
        if self.law is None or self.backtest is None or self.prediction is None:
            return f"there are {len(self.rungs)} rungs; a fit with a backtest needs {LEAST_RUNGS}", above
        if not self.law.falls:
            return "the loss does not fall with compute", above
        if not self.backtest.holds:
            return "the backtest misses its interval", above
        if fmean(self.losses[-1]) in self.prediction:
            return "the interval at the target holds the loss of the largest rung, so no gain is shown", above
        return "", above

    @cached_property
    def sizes(self) -> dict[str, Any]:
        """The law of parameters and tokens, or why it was not fitted."""
        shapes = sorted({(run.parameters, run.tokens) for run in self.runs})
        reason = sizes.unfit([n for n, _ in shapes], [d for _, d in shapes])
        if reason:
            return {"unfit": reason}
        means = [
            fmean(run.metrics[self.asked.primary] for run in self.runs if (run.parameters, run.tokens) == shape)
            for shape in shapes
        ]
        found = sizes.fit([n for n, _ in shapes], [d for _, d in shapes], means)
        best = found.best_parameters(self.asked.target)
        return {
            "e": found.e, "alpha": found.alpha, "beta": found.beta,
            "a": found.a * found.n**found.alpha, "b": found.b * found.d**found.beta,
            "prediction": asdict(found.predicted(*self.asked.target_sizes)),
            "best_parameters": best, "best_tokens": self.asked.target / 6 / best,
        }  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        found = self.law
        places = _places(self.compute[0], max(self.asked.target, self.compute[-1]))
        return {
            "rungs": [
                {"flops": rung[0].flops, "parameters": rung[0].parameters, "tokens": rung[0].tokens,
                 "mean": fmean(losses), "runs": {str(run.seed): run.metrics[self.asked.primary] for run in rung}}
                for rung, losses in zip(self.rungs, self.losses, strict=True)
            ],
            "law": None if found is None else
                {"e": found.e, "a": found.a, "alpha": found.alpha, "middle": found.middle, "noise": found.noise},
            "prediction": None if self.prediction is None else asdict(self.prediction),
            "backtest": None if self.backtest is None else {
                **asdict(self.backtest), "error": self.backtest.error, "holds": self.backtest.holds},
            "doubt": self.doubt[0],
            "band": [] if found is None else
                [{"flops": place, **asdict(found.predicted(place))} for place in places],
            "sizes": self.sizes,
        }  # fmt: skip

    def backtested(self) -> list[str]:
        return [] if self.backtest is None else [_backtest_in_words(self.backtest)]

    def notes(self) -> list[str]:
        """Return sentences on the curve, and on how far the target lies beyond."""
        if self.law is None or self.prediction is None:
            return []
        far, spent = self.asked.target / self.compute[-1], sum(run.flops for run in self.runs) / self.asked.target
        said = [
            f"The target is {_times(far)} the largest rung; all runs took {_times(spent)} its FLOPs.",
            f"Fitted curve: {self.law.e:.4g} + {self.law.a:.4g} · (C / {in_flops(self.law.middle)})^−"
            f"{self.law.alpha:.3g}. Rungs lie {100 * self.law.noise:.2g} % around it (standard deviation).",
        ]
        if "prediction" in self.sizes:
            found = self.sizes
            said.append(
                f"By parameters and tokens, {found['e']:.3g} + A / N^{found['alpha']:.2g} + B / D^{found['beta']:.2g}, "
                f"it is {_ranged(Range(**found['prediction']))}; the best shape for these FLOPs has "
                f"{found['best_parameters']:.2g} parameters."
            )
        return said


def _one(recipe: _Recipe, asked: Asked) -> tuple[str, str, list[str]]:
    """Return the verdict in a word, the answer in a sentence, and further sentences."""
    reason = recipe.doubt[0]
    unit, there = measure_of(asked.primary), f"at {in_flops(asked.target)} FLOPs"
    if reason:
        more = [_help([recipe], recipe.doubt[1], asked)]
        if recipe.prediction is not None:
            more.append(f"The fit alone says {_ranged(recipe.prediction)} {unit} {there}.")
        return "INCONCLUSIVE", f"INCONCLUSIVE: {reason}.", [*more, *recipe.backtested()]
    assert recipe.prediction is not None
    return (
        "PREDICTED",
        f"PREDICTED: {task_of(asked.primary)} {_ranged(recipe.prediction)} {unit} {there}.",
        recipe.backtested(),
    )


def _two(one: _Recipe, other: _Recipe, asked: Asked) -> tuple[dict[str, Any], str, str, list[str]]:
    """As ``_one``, for two recipes; first what report.json holds of the pair."""
    there = f"at {in_flops(asked.target)} FLOPs"
    doubts = [f"{each.name}: {each.doubt[0]}" for each in (one, other) if each.doubt[0]]
    helped = max((one, other), key=lambda each: (bool(each.doubt[0]), each.doubt[1])).doubt[1]
    help_ = _help([one, other], helped, asked)
    told = [f"{each.name}: {sentence}" for each in (one, other) for sentence in each.backtested()]
    if one.law is None or other.law is None:
        return {"difference": None, "crossings": []}, "INCONCLUSIVE", f"INCONCLUSIVE: {doubts[0]}.", [help_, *told]
    apart = law.difference(one.law, other.law, asked.target)
    low = min(one.compute[0], other.compute[0])
    cross = law.crossings(one.law, other.law, low, asked.target)
    pair: dict[str, Any] = {
        "difference": asdict(apart),
        "crossings": cross,
        "apart": [
            {"flops": place, **asdict(law.difference(one.law, other.law, place))}
            for place in _places(low, asked.target)[:: PLACES // 8]
        ],
    }
    better, worse = (other, one) if apart.value < 0 else (one, other)
    ends = (apart.low, apart.high) if apart.value < 0 else (-apart.high, -apart.low)
    shown = not apart.low <= 0 <= apart.high
    crossing = _crossing(one, other, cross, asked)
    said = (
        f"{better.name} − {worse.name} {there}: {_signed(-abs(apart.value))} {measure_of(asked.primary)} "
        f"(95 % interval {_signed(ends[0])} to {_signed(ends[1])})"
    )
    if doubts or not shown:
        reason = "; ".join(doubts) or f"neither recipe is shown to be better {there}"
        return pair, "INCONCLUSIVE", f"INCONCLUSIVE: {reason}.", [help_, f"{said}.", crossing, *told]
    return pair, "BETTER", f"BETTER: {better.name} is predicted to win. {said}.", [crossing, *told]


def _crossing(one: _Recipe, other: _Recipe, cross: Sequence[float], asked: Asked) -> str:
    if not cross:
        return f"The fitted curves do not cross between the smallest rung and {in_flops(asked.target)} FLOPs."
    assert one.law is not None
    assert other.law is not None
    places = ", ".join(in_flops(each) for each in cross)
    begins = law.difference(one.law, other.law, min(one.compute[0], other.compute[0]))
    ends = law.difference(one.law, other.law, asked.target)
    shown = all(not each.low <= 0 <= each.high for each in (begins, ends)) and begins.value * ends.value < 0
    return f"The fitted curves cross at {places} FLOPs; " + (
        "both sides of the crossing are shown." if shown else "the runs do not show that they do."
    )


def _help(recipes: Sequence[_Recipe], flops: float, asked: Asked) -> str:
    """Return which rung would help, its cost, and how narrow the interval would become."""
    wanted = float(f"{flops:.2g}")
    count = sum(len(recipe.rungs[-1]) for recipe in recipes)
    cost = None if asked.accelerator is None else training_cost(wanted * count, asked.accelerator)
    costs = f"; about {cost:,.0f} chip-hours of {asked.accelerator}" if cost is not None else ""
    expected, recipe = "", recipes[0]
    if recipe.backtest is not None and not recipe.backtest.holds:
        expected = " It tells whether the curve bends, or the largest rung alone is off: look at its learning rate."
    elif recipe.law is not None and recipe.law.falls and len(recipes) == 1:
        after = recipe.law.with_rung(wanted).predicted(asked.target)
        half = (after.high - after.low) / 2 / after.value
        expected = f" If it lies on the curve, the interval at the target becomes about ± {100 * half:.2g} %."
    return (
        f"A rung of {in_flops(wanted)} FLOPs would help ({count} run{'s' if count > 1 else ''}{costs}).{expected} "
        "marin trains only what is new."
    )


def _backtest_in_words(found: Backtest) -> str:
    inside = "inside the interval" if found.holds else "outside of the interval"
    return (
        f"Backtest: from the smaller rungs, {in_flops(found.compute)} FLOPs were predicted at "
        f"{_ranged(found.predicted)} and reached {found.measured:.4g}: error {_signed(100 * found.error, 2)} %, "
        f"{inside}."
    )


def _ranged(found: Range) -> str:
    return f"{found.value:.4g} (95 % interval {found.low:.4g} to {found.high:.4g})"


def _signed(value: float, digits: int = 3) -> str:
    return f"{value:+.{digits}g}".replace("-", "−")


def _times(value: float) -> str:
    return f"{value:,.0f} times" if value >= 10 else f"{value:.2g} times"


def _names(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(run.recipe for run in runs))


def _places(low: float, high: float) -> list[float]:
    return [low * (high / low) ** (at / (PLACES - 1)) for at in range(PLACES)]
