"""The trainings of an experiment before anything runs: rate, batch, data and machines of each, and their changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Any, Protocol, runtime_checkable

from rich.console import Console

from marin.data.by_step import active_within
from marin.data.draw_table import DrawRow, DrawTable
from marin.data.mixture import BatchSchedule, Mix, Stages
from marin.errors import ExperimentError
from marin.plan.cost.plan_cost import Sizes, declared_sizes
from marin.report.running import BARS
from marin.report.table import columns_of, print_table, say
from marin.report.trainings import GoesOn, changes_between, draws_of
from marin.steps.experiment import Experiment
from marin.steps.step import ExecutorStep
from marin.store.numbers import counted, write_count
from marin.training.optimizer import Optimizer
from marin.training.schedule import Schedule

NAMED = 4  # sources of a mixture in a line; --json has all
DRAWN = 6  # sources of a mixture with a curve
WIDEST, LABEL = 72, 44  # characters of a curve, and of the label beside it
TRAININGS = columns_of("training | >steps | >tokens | learning rate | >batch | machines")
DRAWS = columns_of("source | >share | >available | >drawn | >epochs | >epochs by then | >in a block")


@runtime_checkable
class TrainingRun(Protocol):
    """A step that trains over a range of optimizer steps."""

    first_step: int
    end_step: int
    optimizer: Optimizer
    schedule: Schedule
    batch: BatchSchedule
    data: Stages[Any]
    seq_len: int


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One training, by its fields."""

    name: str
    first: int  # optimizer step
    end: int
    tokens: int
    rates: list[tuple[int, float]]  # (step, learning rate) at the first and last update and at every turn
    batches: list[tuple[int, int]]  # first step → sequences
    read: list[tuple[int, int]]  # (step, tokens of the whole run until then) where each batch begins, and at the end
    stages: list[tuple[int, dict[str, float]]]  # first step → share of each source, largest first; none if unknown
    over: dict[int, int]  # first step of a stage with a gradual transition → steps that the transition takes
    machines: str
    seq_len: int
    guards: list[str]  # in words; only those that are on
    draws: DrawTable[Any] | None = None  # also if shares are not known yet; set by phases_of
    after: str = ""  # name of the training whose checkpoint it begins with
    counts_on: bool = False  # whether its steps go on from that training's steps
    changed: list[str] = field(default_factory=list[str])  # "optimizer.max_grad_norm: 1.0 → 0.2", since that training

    def until(self, step: int) -> Phase:
        """Return the part of this training before the step at which another one continues."""
        done = (step - self.first) / (self.end - self.first)
        if done >= 1:
            return self
        read = [point for point in self.read if point[0] < step]
        read.append((step, round(_at(self.read, step))))
        rates = [point for point in self.rates if point[0] < step - 1]
        rates.append((step - 1, _at(self.rates, step - 1)))
        return replace(
            self,
            end=step,
            tokens=read[-1][1] - self.read[0][1],
            rates=rates,
            batches=[each for each in self.batches if each[0] < step],
            read=read,
            stages=[each for each in self.stages if each[0] < step],
        )


def trainings_of(experiment: Experiment) -> list[ExecutorStep[Any]]:
    """Return the trainings of an experiment. Raises ExperimentError if there are none."""
    found: list[ExecutorStep[Any]] = [step for step in experiment.steps() if isinstance(step, TrainingRun)]
    if not found:
        raise ExperimentError("the experiment trains nothing: no step has optimizer steps, a schedule and data")
    return found


def phases_of(experiment: Experiment, sizes: Sizes | None = None) -> list[Phase]:
    """Return every training of the experiment, each after the one that it continues. Raises ExperimentError for none.

    sizes: of the inputs; by default those that the steps declare.
    """
    known = declared_sizes(experiment) if sizes is None else sizes
    each = [(step, phase_of(step, known)) for step in trainings_of(experiment)]
    found = [replace(phase, draws=draws_of(step, known)) for step, phase in each if phase is not None]
    return sorted(found, key=lambda phase: (phase.first, phase.end))


def lines_of(phases: Iterable[Phase]) -> list[list[Phase]]:
    """Return the run behind each last training, from its beginning: of every training, the part that was continued."""
    by_name = {phase.name: phase for phase in phases}
    ends = {name: phase.end for name, phase in by_name.items()}
    continued = {phase.after for phase in by_name.values() if phase.counts_on and phase.first == ends.get(phase.after)}
    found = [[phase] for phase in by_name.values() if phase.name not in continued]
    for way in found:
        while way[0].counts_on and way[0].after in by_name:
            way.insert(0, by_name[way[0].after].until(way[0].first))
    return found


def drawn(points: list[tuple[int, float]], end: int, width: int) -> str:
    """Return a curve of ``width`` bars from step 0 to ``end``, relative to the highest value.

    points: (step, value), ascending, joined by straight lines. A bar shows the highest value of its stretch, or the
    bottom of a dip in the stretch, so that no narrow peak or dip is lost.
    """
    top = max(value for _, value in points)
    highest: list[float] = []
    for cell in range(width):
        first, last = cell * end // width, max(cell * end // width, ((cell + 1) * end - 1) // width)
        steps = {first, last, *(step for step, _ in points if first <= step <= last)}
        highest.append(max(_at(points, step) for step in steps))
    values = [value for _, value in points]
    for before, (at, value), after in zip(values, points[1:], values[2:], strict=False):
        if before > value <= after:
            cell = at * width // end
            highest[cell] = min(highest[cell], value)
    return "".join(BARS[min(int(value / top * len(BARS)), len(BARS) - 1)] if top else BARS[0] for value in highest)


def _at(points: Sequence[tuple[int, float]], step: int) -> float:
    """Return the value at a step. Straight lines join the points; the ends hold before the first and after the last."""
    if step <= points[0][0]:
        return points[0][1]
    for (left, a), (right, b) in pairwise(points):
        if left < step <= right:
            return a + (b - a) * (step - left) / (right - left)
    return points[-1][1]


def largest(shares: Mapping[str, float], names: Sequence[str], most: int) -> str:
    """Return "web 75.0%, code 25.0%, 3 more": the shares of the first of these sources."""
    more = f", {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"{name} {shares.get(name, 0.0):.1%}" for name in names[:most]) + more


def phase_of(step: ExecutorStep[Any], sizes: Sizes) -> Phase | None:
    """Return a training by its fields, or None for another step. sizes: of the inputs, as far as they are known."""
    run: object = step
    if not isinstance(run, TrainingRun):
        return None
    first, end, recipe = run.first_step, run.end_step, run.optimizer
    batches = active_within(run.batch.at, first, end)
    ramps = run.schedule.ramps()
    corners = {at for ramp in ramps for at in (ramp.start, ramp.end)}
    # The last step before a jump: before a cycle that begins again at once, and before a re-warmup.
    corners |= {ramp.start - 1 for earlier, ramp in pairwise(ramps) if earlier.last != ramp.first}
    turns = {first, end - 1, *(at for at in corners if first <= at < end)}
    before = next((each for read in step.dependencies if isinstance(each := read.producer or read, TrainingRun)), None)
    lengths = step.lengths() if isinstance(step, GoesOn) else run.seq_len
    accelerator, cpus = step.resources.accelerator, step.resources.cpus
    return Phase(
        name=step.label or step.name,
        first=first,
        end=end,
        tokens=run.batch.tokens(run.seq_len, first, end),
        rates=[(at, run.schedule.learning_rate(at, recipe.peak_lr)) for at in sorted(turns)],
        batches=list(batches.items()),
        read=[(at, run.batch.tokens(lengths, 0, at)) for at in [*batches, end]],
        stages=[(at, _shares(mixture, sizes)) for at, mixture in active_within(run.data.mixtures, first, end).items()],
        over=run.data.interpolations,
        machines=str(accelerator) if accelerator else f"{cpus:g} CPU",
        seq_len=run.seq_len,
        guards=[
            *([] if recipe.max_grad_norm is None else [f"gradient norm ≤ {recipe.max_grad_norm:g}"]),
            *([] if recipe.clip_update_norm is None else [f"clip at {recipe.clip_update_norm.sigma:g}σ"]),
            *([] if recipe.skip_bad_steps is None else [f"skip at {recipe.skip_bad_steps.sigma:g}σ"]),
        ],
        after="" if before is None else before.label or before.name,
        counts_on=isinstance(step, GoesOn) and step.goes_on_from() is not None,
        changed=[] if before is None else changes_between(before, step),
    )


def _shares(mix: Mix[Any], sizes: Sizes) -> dict[str, float]:
    """Return the shares, largest first; empty if they are not known yet."""
    tokens = {source: count for source in mix.sources if (count := sizes.tokens(source)) is not None}
    if mix.reports or not tokens.keys() >= mix.counted:
        return {}
    return dict(sorted(mix.resolved(tokens).by_name().items(), key=lambda share: -share[1]))


def print_phases(console: Console, phases: list[Phase]) -> None:
    rows: list[list[str]] = []
    for phase in phases:
        rates = " → ".join(_in_short([rate for rate, _ in groupby(f"{rate:.3g}" for _, rate in phase.rates)]))
        batches = " → ".join(f"{size:,}" for _, size in phase.batches)
        steps = f"{phase.first:,} … {phase.end:,}"
        rows.append([phase.name, steps, write_count(phase.tokens), rates, batches, phase.machines])
    print_table(console, TRAININGS, rows)
    by_name = {phase.name: phase for phase in phases}
    for phase in phases:
        say(console, "")
        say(console, f"{phase.name}{f', after {phase.after}' if phase.after else ''}", "bold")
        before = by_name.get(phase.after)
        if before is not None and not phase.counts_on:
            say(console, "  begins with its weights, and counts steps and tokens of its own")
        for change in phase.changed:
            say(console, f"  changed: {change}")
        left = None if before is None else before.until(phase.first) if phase.counts_on else before
        for at, shares in phase.stages:
            if left is not None and at == phase.first and shares == left.stages[-1][1]:
                say(console, "  data as before")
                continue
            if not shares:
                say(console, f"  data from step {at:,}: its shares are not known yet")
                continue
            over = f", reached over {phase.over[at]:,} steps" if at in phase.over else ""
            say(console, f"  data from step {at:,}: {largest(shares, list(shares), NAMED)}{over}")
    for way in lines_of(phases):
        _draw(console, way)


def _in_short(rates: list[str]) -> list[str]:
    """Write a repeated pair of rates once, with its count, as in a schedule of cycles."""
    found: list[str] = []
    while rates:
        pair, count = rates[:2], 1
        while len(pair) == 2 and rates[2 * count : 2 * count + 2] == pair:
            count += 1
        found.append(f"({' → '.join(pair)}) × {count}" if count > 2 else pair[0])
        rates = rates[2 * count if count > 2 else 1 :]
    return found


def _draw(console: Console, way: list[Phase]) -> None:
    """Print curves of learning rate, batch, tokens and shares over the steps of a run from its beginning."""
    end, width = way[-1].end, min(console.width - LABEL, WIDEST)
    rates = [point for phase in way for point in phase.rates]
    batches = [(at, float(size)) for phase in way for at, size in phase.batches]
    read = [(at, float(count)) for phase in way for at, count in phase.read]
    stages = [stage for phase in way for stage in phase.stages]
    names = dict.fromkeys(name for _, shares in stages for name in shares)
    found = {name: [(at, shares.get(name, 0.0)) for at, shares in stages] for name in names}
    shares = dict(sorted(found.items(), key=lambda each: -max(share for _, share in each[1])))  # the largest first
    lines = [
        (rates, f"learning rate, at most {max(rate for _, rate in rates):.3g}"),
        (_held(batches), f"batch, at most {max(size for _, size in batches):,.0f} sequences"),
        (read, f"tokens, {write_count(read[-1][1])} at the end"),
        *(
            (_held(of_one), f"{name}, at most {max(share for _, share in of_one):.1%}")
            for name, of_one in list(shares.items())[:DRAWN]
        ),
    ]
    say(console, "")
    tokens = write_count(sum(phase.tokens for phase in way))
    say(console, f"{way[-1].name} from its beginning: {end:,} steps, {tokens} tokens", "bold")
    for points, label in lines:
        say(console, f"  {drawn(points, end, width)}  {label}")
    if (more := len(shares) - DRAWN) > 0:
        say(console, f"  {' ' * width}  {counted(more, 'more source')}")


def print_draws(console: Console, phases: list[Phase]) -> None:
    """Print tokens available and drawn, epochs, and sequences in a block, of each stage and in total."""
    for phase in phases:
        say(console, "")
        if phase.draws is None:
            say(console, f"{phase.name}: its draws are unknown until its sources are counted", "bold")
            continue
        for first, end, rows in phase.draws.stages:
            _print_rows(console, f"{phase.name} draws from step {first:,} to {end:,}", rows)
        if len(phase.draws.stages) > 1:
            _print_rows(console, f"{phase.name} draws in total", phase.draws.total)


def _print_rows(console: Console, heading: str, rows: tuple[DrawRow, ...]) -> None:
    say(console, heading, "bold")
    shown = [
        [
            row.name,
            f"{row.share:.2%}",
            "not counted" if row.available is None else write_count(row.available),
            write_count(row.drawn),
            "" if row.epochs is None else f"{row.epochs:.2f}",
            "" if row.epochs_by_end is None else f"{row.epochs_by_end:.2f}",
            f"{row.per_block:.1f}",
        ]
        for row in rows
    ]
    print_table(console, DRAWS, shown)


def _held(batches: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return points for straight lines in which a batch holds until the next one."""
    kept = [(at, size) for earlier, (step, _) in pairwise(batches) for at, size in (earlier, (step - 1, earlier[1]))]
    return [*kept, batches[-1]]
