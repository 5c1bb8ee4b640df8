"""What a page tells of trainings: curves, and the stretches of steps that they share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from marin.data.mixture import source_name
from marin.executor.run_results import Run, StepResult
from marin.report.page import model
from marin.report.page.mixtures import span, stages_of
from marin.report.phases import TrainingRun
from marin.steps.step import ExecutorStep
from marin.store.store import Store
from marin.training.metrics import METRICS, parse_metrics
from marin.training.spec import PROFILE

if TYPE_CHECKING:
    from marin.training.health.findings import Finding

# How what a training planned begins, as its rows say it: drawn from its fields already.
PLANNED = ("batch: ", "data: ", "learning rate: ")
SHOWN = 2  # settings that changed at one step
DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24,}\b")


def is_trained_on(step: ExecutorStep[Any], trainings: Iterable[StepResult]) -> bool:
    """Does another run begin from this one? Then it is shared, not an arm."""
    return any(
        dependency == step or dependency.producer == step
        for other in trainings
        for dependency in other.step.dependencies
    )


def arm_of(step: ExecutorStep[Any], arms: list[str]) -> str:
    return step.label if step.label in arms else ""


def metrics(store: Store, result: StepResult) -> list[dict[str, Any]]:
    """The lines of a training's metrics; none where it wrote none."""
    name = f"{result.record.attempt}/{METRICS}" if result.record is not None else ""
    content = store.objects.read(name) if name else None
    return parse_metrics(content, f"{store.prefix}/{name}") if content is not None else []


def curve(run: Run, result: StepResult, rows: list[dict[str, Any]], arms: list[str]) -> model.TrainingCurve | None:
    record, store = result.record, run.plan.store
    if not rows or record is None:
        return None

    def column(name: str) -> list[float]:
        if not all(name in row for row in rows):
            return []
        return [math.nan if row[name] is None else row[name] for row in rows]  # null: NaN or infinite

    first, end = span(result.step)
    events: list[model.Event] = []
    for step, size in result.step.batch.at.items() if isinstance(result.step, TrainingRun) else ():
        if first < step < end:
            events.append(model.Event(step=step, text=f"batch {size}"))
    previous: Mapping[Any, float] = {}
    for step, mixed in stages_of(run, result.step).items():
        if step > first:
            added = sorted(source_name(source) for source in mixed.weights.keys() - previous.keys())
            events.append(model.Event(step=step, text=f"adds {', '.join(added)}" if added else "other shares"))
        previous = mixed.weights
    # What it changed where it was resumed; against another run, the table of what runs differ in says it.
    for row in rows[1:]:
        if changed := [text for text in row.get("changed", ()) if not text.startswith(PLANNED)]:
            more = f", {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
            text = DIGEST.sub(r"\1", "; ".join(changed[:SHOWN]))
            events.append(model.Event(step=int(row["step"]), text=text + more))
    found = _findings(rows)
    events += [model.Event(each.step, each.kind.value, bad=True) for each in found]
    return model.TrainingCurve(
        name=result.step.label,
        step=[int(step) for step in column("step")],
        loss=column("loss"),
        arm=arm_of(result.step, arms),
        learning_rate=column("learning_rate"),
        grad_norm=column("grad_norm"),
        tokens=[int(count) for count in column("tokens")],
        tokens_per_second=column("tokens_per_second"),
        seconds=column("seconds"),
        events=events,
        findings=[(each.ill, each.sentence()) for each in found],
        profile=f"{store.prefix}/{record.attempt}/{PROFILE}" if store.output(record).exists(PROFILE) else "",
    )


def _findings(rows: list[dict[str, Any]]) -> list[Finding]:
    from marin.training.health.findings import findings  # numpy

    return findings(rows)


def phases(trainings: Iterable[ExecutorStep[Any]], arms: list[str]) -> list[model.Phase]:
    """The stretches of steps that runs share, each named for its runs, or for what the arms do there."""
    spans: dict[tuple[int, int], list[ExecutorStep[Any]]] = {}
    for run in trainings:
        spans.setdefault(span(run), []).append(run)
    return [
        model.Phase(first=first, end=end, name=_phase_name(runs, first, arms))
        for (first, end), runs in sorted(spans.items())
    ]


def _phase_name(runs: list[ExecutorStep[Any]], first: int, arms: list[str]) -> str:
    if not {run.label for run in runs} <= set(arms):
        return ", ".join(run.label for run in runs)
    decays = [run.schedule.decay if isinstance(run, TrainingRun) else None for run in runs]
    cooling = first > 0 and all(decay is not None and decay.start <= first for decay in decays)
    return "cooldown" if cooling else "arms"
