"""What a page tells of trainings: curves, mixtures, settings, and the stretches of steps that they share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from marin.data.by_step import active_within
from marin.data.mixture import Mixture, Stages, source_name
from marin.executor.run_results import Run, StepResult
from marin.plan.missing import describe_fields
from marin.report.page import model, units
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


def _span(step: ExecutorStep[Any]) -> tuple[int, int]:
    """(first, end) optimizer steps of a training run."""
    return (step.first_step, step.end_step) if isinstance(step, TrainingRun) else (0, 0)


def _stages(run: Run, step: ExecutorStep[Any]) -> dict[int, Mixture[Any]]:
    """The mixtures that are active in a run's own steps, by the first step that each serves; none if nobody has counted
    the tokens that shares go by."""
    if not isinstance(step, TrainingRun):
        return {}
    found = {read: record.facts.get("tokens") for read in step.dependencies if (record := run.results[read].record)}
    tokens = {read: count for read, count in found.items() if isinstance(count, int)}
    if not tokens.keys() >= step.data.counted:
        return {}
    return active_within(step.data.resolved(tokens).known(), *_span(step))


def mixture(run: Run, result: StepResult, rows: list[dict[str, Any]], arms: list[str]) -> model.MixtureTable | None:
    stages = _stages(run, result.step)
    if not stages or (not arm_of(result.step, arms) and _span(result.step)[0] > 0):
        return None  # a later shared phase reads the mixture of the first
    shares = {first: mixed.by_name() for first, mixed in stages.items()}
    return model.MixtureTable(arm=arm_of(result.step, arms), stages=shares, use=_use(run, result, rows))


def _use(run: Run, result: StepResult, rows: list[dict[str, Any]]) -> dict[str, model.SourceUse]:
    """What a training really read of each source, by its metrics."""
    sequences = Counter[str]()
    for row in rows:
        sequences.update(row.get("sources", {}))
    sizes = {step.label: record.facts for step in result.step.dependencies if (record := run.results[step].record)}
    length = result.step.seq_len if isinstance(result.step, TrainingRun) else 0
    return {
        name: model.SourceUse(count, count * length / tokens if (tokens := sizes.get(name, {}).get("tokens")) else 0.0)
        for name, count in sequences.items()
    }


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

    first, end = _span(result.step)
    events: list[model.Event] = []
    for step, size in result.step.batch.at.items() if isinstance(result.step, TrainingRun) else ():
        if first < step < end:
            events.append(model.Event(step=step, text=f"batch {size}"))
    previous: Mapping[Any, float] = {}
    for step, mixed in _stages(run, result.step).items():
        if step > first:
            added = sorted(source_name(source) for source in mixed.weights.keys() - previous.keys())
            events.append(model.Event(step=step, text=f"adds {', '.join(added)}" if added else "other shares"))
        previous = mixed.weights
    # What it changed against the checkpoint that it began with, or was resumed from; the rest stands above.
    for row in rows:
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


def settings(trainings: Iterable[ExecutorStep[Any]]) -> list[model.Setting]:
    """Fields of the runs but their data, which the mixtures show; of a field with fields, each by itself."""
    found: dict[str, dict[str, str]] = {}
    for step in trainings:
        data = {name for name, value in vars(step).items() if isinstance(value, Stages)}
        for name, value in describe_fields(step).items():
            for part, text in _flat(name, value) if name not in data else ():
                found.setdefault(part, {})[step.label] = text
    whole = {name.rpartition(".")[0] for name in found}  # None in one run, with fields in another
    return [model.Setting(name, values) for name, values in found.items() if name not in whole]


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            yield from _flat(f"{name}.{key}", each)
    else:
        text = "" if value is None else units.fact(value) if not isinstance(value, int) else str(value)
        yield name.replace("_", " "), text.partition("#")[0]


def phases(trainings: Iterable[ExecutorStep[Any]], arms: list[str]) -> list[model.Phase]:
    """The stretches of steps that runs share, each named for its runs, or for what the arms do there."""
    spans: dict[tuple[int, int], list[ExecutorStep[Any]]] = {}
    for run in trainings:
        spans.setdefault(_span(run), []).append(run)
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
