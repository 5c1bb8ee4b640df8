"""The trainings of a run as a page reads them: curves, and the stretches of steps that they share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from marin.executor.run_results import Run, StepResult
from marin.plan.cost.plan_cost import Sizes
from marin.report.health import findings_of
from marin.report.page import model
from marin.report.phases import Phase, TrainingRun, phase_of
from marin.report.words import grouped
from marin.steps.resources import Size
from marin.steps.step import ExecutorStep
from marin.store.record import Record
from marin.store.store import Store
from marin.training.metrics import METRICS, parse_metrics
from marin.training.spec import PROFILE

# How what a training planned begins, as its rows say it: drawn from its fields already.
PLANNED = ("batch: ", "data: ", "learning rate: ")
SHOWN = 2  # settings that changed at one step
DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24,}\b")
type Row = dict[str, Any]  # of metrics


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training of a run: as it is written, and what became of it."""

    step: ExecutorStep[Any]
    record: Record | None
    arm: str  # "" where the arms share it
    phase: Phase | None  # None: it says nothing of its optimizer steps
    rows: Sequence[Row]  # none where it wrote none
    tokens: Mapping[str, int]  # of what it reads, by label

    @property
    def span(self) -> tuple[int, int]:
        """(first, end) optimizer steps."""
        return (self.phase.first, self.phase.end) if self.phase is not None else (0, 0)

    @property
    def stages(self) -> Sequence[tuple[int, Mapping[str, float]]]:
        """First step → share of each source; none if nobody has counted the tokens that shares go by."""
        found = self.phase.stages if self.phase is not None else []
        return found if all(shares for _, shares in found) else []


def training_of(run: Run, result: StepResult, arms: Sequence[str]) -> Training:
    step, store = result.step, run.plan.store
    facts = {read: record.facts for read in step.dependencies if (record := run.results[read].record)}
    tokens = {read: count for read, each in facts.items() if isinstance(count := each.get("tokens"), int)}
    metrics = f"{result.record.attempt}/{METRICS}" if result.record is not None else ""
    content = store.objects.read(metrics) if metrics else None
    return Training(
        step=step,
        record=result.record,
        arm=step.label if step.label in arms else "",
        phase=phase_of(step, Sizes({read: Size(bytes=0, tokens=count) for read, count in tokens.items()})),
        rows=[] if content is None else parse_metrics(content, f"{store.prefix}/{metrics}"),
        tokens={read.label: count for read, count in tokens.items()},
    )


def is_trained_on(step: ExecutorStep[Any], trainings: Iterable[StepResult]) -> bool:
    """Does another run begin from this one? Then it is shared, not an arm."""
    return any(
        dependency == step or dependency.producer == step
        for other in trainings
        for dependency in other.step.dependencies
    )


def curve(store: Store, of: Training) -> model.TrainingCurve | None:
    record, rows = of.record, of.rows
    if not rows or record is None:
        return None

    def column(name: str) -> list[float]:
        if not all(name in row for row in rows):
            return []
        return [math.nan if row[name] is None else row[name] for row in rows]  # null: NaN or infinite

    batches = of.phase.batches[1:] if of.phase is not None else []
    events = [model.Event(step, f"batch {size}") for step, size in batches]
    for (_, before), (step, shares) in pairwise(of.stages):
        added = sorted(shares.keys() - before.keys())
        events.append(model.Event(step, f"adds {', '.join(added)}" if added else "other shares"))
    # What it changed where it was resumed; against another run, the table of what runs differ in says it.
    for row in rows[1:]:
        if changed := [text for text in row.get("changed", ()) if not text.startswith(PLANNED)]:
            more = f", {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
            events.append(model.Event(int(row["step"]), DIGEST.sub(r"\1", "; ".join(changed[:SHOWN])) + more))
    found = findings_of(rows)
    events += [model.Event(each.step, each.kind.value, bad=True) for each in found]
    return model.TrainingCurve(
        name=of.step.label,
        step=[int(step) for step in column("step")],
        loss=column("loss"),
        arm=of.arm,
        learning_rate=column("learning_rate"),
        grad_norm=column("grad_norm"),
        tokens=[int(count) for count in column("tokens")],
        tokens_per_second=column("tokens_per_second"),
        seconds=column("seconds"),
        events=events,
        findings=[(each.ill, each.sentence()) for each in found],
        profile=f"{store.prefix}/{record.attempt}/{PROFILE}" if store.output(record).exists(PROFILE) else "",
    )


def phases(trainings: Iterable[Training], arms: Sequence[str]) -> list[model.Phase]:
    """The stretches of steps that runs share, each named for its runs, or for what the arms do there."""
    spans = sorted(grouped((each.span, each.step) for each in trainings).items())
    return [model.Phase(first, end, _phase_name(runs, first, arms)) for (first, end), runs in spans]


def _phase_name(runs: list[ExecutorStep[Any]], first: int, arms: Sequence[str]) -> str:
    if not {run.label for run in runs} <= set(arms):
        return ", ".join(run.label for run in runs)
    decays = [run.schedule.decay if isinstance(run, TrainingRun) else None for run in runs]
    cooling = first > 0 and all(decay is not None and decay.start <= first for decay in decays)
    return "cooldown" if cooling else "arms"
