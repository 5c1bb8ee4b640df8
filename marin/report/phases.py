"""The trainings of an experiment before anything runs: the rate, batch, data and machines of each, and what changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from marin.data.by_step import active_within
from marin.data.draw_table import DrawTable
from marin.data.mixture import BatchSchedule, Mix, Stages
from marin.errors import ExperimentError
from marin.plan.cost.sizes import Sizes, declared_sizes
from marin.plan.draws import draws_of
from marin.plan.missing import describe_fields, leaf_changes
from marin.report.running import BARS
from marin.steps.experiment import Experiment
from marin.steps.step import ExecutorStep
from marin.training.optimizer import Optimizer
from marin.training.schedule import Schedule

# What differs between any two phases: where they begin and end, and what they read, which has its own lines.
OWN = frozenset({"first_step", "end_step", "start", "data"})


@runtime_checkable
class TrainingRun(Protocol):
    """A step that says over which optimizer steps it trains, and how."""

    first_step: int
    end_step: int
    optimizer: Optimizer
    schedule: Schedule
    batch: BatchSchedule
    data: Stages[Any]
    seq_len: int


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One training, as it is written."""

    name: str
    first: int  # optimizer step
    end: int
    tokens: int
    rates: list[tuple[int, float]]  # step, learning rate: at its first and last update and where it turns
    batches: list[tuple[int, int]]  # first step → sequences
    read: list[tuple[int, int]]  # step, tokens of the whole run until then: where each batch begins, and at the end
    stages: list[tuple[int, dict[str, float]]]  # first step → share of each source, the largest first; none if unknown
    over: dict[int, int]  # first step of a stage that is gone over to → steps that this takes
    machines: str
    seq_len: int
    guards: list[str]  # in words; those that are off are not named
    draws: DrawTable[Any] | None  # None where shares go by tokens that nobody has counted, or nothing is drawn
    after: str = ""  # name of the training whose checkpoint it begins with
    changed: list[str] = field(default_factory=list[str])  # "optimizer.max_grad_norm: 1.0 → 0.2", since that one


def phases_of(experiment: Experiment, sizes: Sizes | None = None) -> list[Phase]:
    """Every training of the experiment, each after the one that it goes on from. Raises ExperimentError for none.

    sizes: of what it reads; those that its steps declare if none are given.
    """
    known = declared_sizes(experiment) if sizes is None else sizes
    found = [phase for step in experiment.steps() if (phase := phase_of(step, known)) is not None]
    if not found:
        raise ExperimentError("the experiment trains nothing: no step of it has optimizer steps, a schedule and data")
    return sorted(found, key=lambda phase: (phase.first, phase.end))


def lines_of(phases: Iterable[Phase]) -> list[list[Phase]]:
    """For each training that no other goes on from, the way to it from its beginning."""
    by_name = {phase.name: phase for phase in phases}
    continued = {phase.after for phase in by_name.values()}
    found: list[list[Phase]] = []
    for phase in by_name.values():
        if phase.name not in continued:
            way = [phase]
            while way[0].after in by_name:
                way.insert(0, by_name[way[0].after])
            found.append(way)
    return found


def drawn(points: list[tuple[int, float]], end: int, width: int) -> str:
    """A line of ``width`` bars from step 0 to ``end``: the highest of each stretch, against the highest of all.

    points: (step, value), ascending, joined by straight lines.
    """
    top = max(value for _, value in points)
    highest = [0.0] * width
    for (left, a), (right, b) in zip(points, [*points[1:], (end, points[-1][1])], strict=True):
        first, last = left * width // end, min(max(right - 1, left) * width // end, width - 1)
        for cell in range(first, last + 1):
            near, far = max(cell * end / width, left), min((cell + 1) * end / width, right)
            ends = (a + (b - a) * (at - left) / max(right - left, 1) for at in (near, far))
            highest[cell] = max(highest[cell], *ends)
    return "".join(BARS[min(int(value / top * len(BARS)), len(BARS) - 1)] if top else BARS[0] for value in highest)


def shares_over(way: Iterable[Phase]) -> dict[str, list[tuple[int, float]]]:
    """Of each source, its share from each step on at which the mixture may change; the largest first."""
    stages = [stage for phase in way for stage in phase.stages]
    names = dict.fromkeys(name for _, shares in stages for name in shares)
    found = {name: [(at, shares.get(name, 0.0)) for at, shares in stages] for name in names}
    return dict(sorted(found.items(), key=lambda each: -max(share for _, share in each[1])))


def phase_of(step: ExecutorStep[Any], sizes: Sizes | None = None) -> Phase | None:
    """A training as its fields say it; None for what is none. sizes: of what it reads, where somebody knows them."""
    return _phase(step, step, Sizes() if sizes is None else sizes) if isinstance(step, TrainingRun) else None


def _phase(step: ExecutorStep[Any], run: TrainingRun, sizes: Sizes) -> Phase:
    first, end, recipe = run.first_step, run.end_step, run.optimizer
    batches = active_within(run.batch.at, first, end)
    corners = {at for ramp in run.schedule.ramps() for at in (ramp.start, ramp.end) if first <= at < end}
    before = next((each for read in step.dependencies if isinstance(each := read.producer or read, TrainingRun)), None)
    accelerator, cpus = step.resources.accelerator, step.resources.cpus
    return Phase(
        name=step.label or step.name,
        first=first,
        end=end,
        tokens=run.batch.tokens(run.seq_len, first, end),
        rates=[(at, run.schedule.learning_rate(at, recipe.peak_lr)) for at in sorted(corners | {first, end - 1})],
        batches=list(batches.items()),
        read=[(at, run.batch.tokens(run.seq_len, 0, at)) for at in [*batches, end]],
        stages=[(at, _shares(mixture, sizes)) for at, mixture in active_within(run.data.mixtures, first, end).items()],
        over=run.data.interpolations,
        draws=draws_of(step, sizes),
        machines=str(accelerator) if accelerator else f"{cpus:g} CPU",
        seq_len=run.seq_len,
        guards=_guards(recipe),
        after="" if before is None else before.label or before.name,
        changed=[] if before is None else _changes(before, step),
    )


def _guards(recipe: Optimizer) -> list[str]:
    clip, skip = recipe.clip_update_norm, recipe.skip_bad_steps
    return [
        *([] if recipe.max_grad_norm is None else [f"gradient norm ≤ {recipe.max_grad_norm:g}"]),
        *([] if clip is None else [f"clip at {clip.sigma:g}σ"]),
        *([] if skip is None else [f"skip at {skip.sigma:g}σ"]),
    ]


def _shares(mix: Mix[Any], sizes: Sizes) -> dict[str, float]:
    """The largest first; none where they go by tokens that nobody has counted."""
    tokens = {source: count for source in mix.sources if (count := sizes.tokens(source)) is not None}
    if not tokens.keys() >= Stages({0: mix}).counted:
        return {}
    return dict(sorted(mix.resolved(tokens).by_name().items(), key=lambda share: -share[1]))


def _changes(before: ExecutorStep[Any], step: ExecutorStep[Any]) -> list[str]:
    then, now = ({k: v for k, v in describe_fields(each).items() if k not in OWN} for each in (before, step))
    found = [
        change
        for name in sorted(then.keys() | now.keys())
        for change in leaf_changes(name, then.get(name), now.get(name))
    ]
    return [f"{place}: {_plain(old)} → {_plain(new)}" for place, old, new in found]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())  # pyright: ignore
    return "none" if value is None else str(value)
