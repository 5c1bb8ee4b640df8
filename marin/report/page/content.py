"""From a run to what its page tells: collects what records, metrics and reports say."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from marin.data.mixture import BatchSchedule, Mixture, Stages, active_within, source_name
from marin.errors import CorruptRecord
from marin.executor.events import git_revision
from marin.executor.run_results import Run, Status, StepResult
from marin.plan.cost.plan_cost import training_of
from marin.plan.decontamination import undecontaminated
from marin.plan.drift import PACKAGE
from marin.plan.missing import describe_fields
from marin.plan.observed import UNSEEN
from marin.report.page.drawing import model, reports, units
from marin.report.terminal import describe_facts
from marin.steps.scale import Scale
from marin.steps.step import ExecutorStep
from marin.store.layout import LOG
from marin.store.numbers import counted
from marin.store.record import Record
from marin.store.store import Store
from marin.training.schedule import Schedule


def render(run: Run, source: Path, scale: Scale, command: str, head: str) -> bytes:
    """The page as HTML. head: what else goes into its head."""
    from marin.report.page.drawing.experiment import render as rendered  # templates and plots: more than a second

    return rendered(describe(run, source, scale, command), head).encode(errors="backslashreplace")


def describe(run: Run, source: Path, scale: Scale, command: str) -> model.ExperimentPage:
    """Everything on the page, from the run's results and the artifacts in the store."""
    experiment, store = run.plan.experiment, run.plan.store
    revision, dirty = git_revision(source.parent)
    trainings = [result for result in run.results.values() if result.step.work() is not None]
    arms = [result.step.label for result in trainings if not _is_trained_on(result.step, trainings)]
    measured = [(result, _metrics(store, result)) for result in trainings]
    found = [_report(store, record) for record in _reports(run)]
    data = undecontaminated(result.step for result in trainings).sentence()
    trained = [made for result in trainings if (made := training_of(result.step)) is not None]
    hours = [made.chip_hours for made in trained if made.chip_hours is not None]
    title, _, question = (experiment.question or "").strip().partition("\n")
    return model.ExperimentPage(
        title=title.rstrip("."),
        question=question.strip(),
        scale=scale.value,
        created=time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        issue=experiment.issue,
        issue_url=experiment.issue_url,
        git_revision=revision,
        git_dirty=dirty,
        command=command,
        prefix=store.prefix,
        headline=[line for each in found for line in reports.headline(each)] or _uncompared(run),
        arms=arms,
        steps=[_row(run, result) for result in run.results.values()],
        mixtures=[table for each, rows in measured if (table := _mixture(run, each, rows, arms)) is not None],
        runs=[curve for each, rows in measured if (curve := _curve(each, rows, arms)) is not None],
        phases=phases((result.step for result in trainings), arms),
        settings=_settings(result.step for result in trainings),
        evaluations=[table for each in found for table in reports.evaluations(each)] or _scores(run),
        evidence=[section for each in found for section in reports.evidence(each, data)],
        tokens=sum(made.work.tokens for made in trained) or None,
        flops=sum(made.work.flops for made in trained) or None,
        chip_hours=sum(hours) if hours else None,
        wall_seconds=run.seconds if run.having(Status.RAN) else None,
        trust=[note for result in run.results.values() for note in _trust(run, result)],
    )


def _uncompared(run: Run) -> list[str]:
    """What the results say of themselves, where all of them are there and no report compares them."""
    records = {name: run.results[step].record for name, step in run.plan.experiment.results.items()}
    there = {name: record for name, record in records.items() if record is not None}
    if len(there) < len(records):
        return []
    told = {name: describe_facts(record.facts) for name, record in there.items() if record.kind != "report"}
    return [
        f"{counted(len(there), 'result')}; no report compares {'them' if len(there) > 1 else 'it with another'}.",
        *(f"{name}: {facts}" for name, facts in told.items() if facts),
    ]


def _scores(run: Run) -> list[model.EvaluationTable]:
    """The metrics of results that are scores, side by side."""
    records = {name: run.results[step].record for name, step in run.plan.experiment.results.items()}
    scores = {name: record.facts["metrics"] for name, record in records.items() if record and record.kind == "scores"}
    names = dict.fromkeys(metric for metrics in scores.values() for metric in metrics)
    rows = [
        model.MetricRow(name=name, digits=4, values={run: scores[run][name] for run in scores if name in scores[run]})
        for name in names
    ]
    return [model.EvaluationTable(title="Every metric by result", columns=list(scores), rows=rows)] if rows else []


def _trust(run: Run, result: StepResult) -> Iterator[model.TrustNote]:
    """What a reader should know before relying on this output."""
    decision, record, name = run.plan.of(result.step), result.record, result.step.name
    yield from (model.TrustNote(name, "drift", text) for text in decision.drift)
    for text in decision.notes:
        if text.startswith(PACKAGE):
            yield model.TrustNote(name, "other package version", text, is_general=True)
        elif text.startswith(UNSEEN):
            yield model.TrustNote(name, "not wholly observed", text, is_general=True)
        else:
            yield model.TrustNote(name, "drift accepted" if "drift accepted" in text else "note", text)
    if record is not None and (because := record.provenance.because):
        text = f"{record.provenance.started} by {record.provenance.who}: {because}"
        yield model.TrustNote(name, "made again", text)


def _row(run: Run, result: StepResult) -> model.StepRow:
    store, step, record = run.plan.store, result.step, result.record
    return model.StepRow(
        name=step.name,
        op=step.op,
        identity=step.identity,
        status=_status(result.status),
        reason=result.reason + (f"; the bytes of {record.attempt}" if record is not None and record.alias_of else ""),
        seconds=record.provenance.seconds if record is not None else result.seconds or None,
        inputs=[dependency.name for dependency in step.dependencies],
        output=f"{store.prefix}/{record.attempt}" if record is not None else "",
        facts=record.facts if record is not None else {},
        log=f"{store.prefix}/{result.log or f'{record.attempt}/{LOG}' if record else result.log}",
        error=result.error,
    )


def _status(status: Status) -> model.Status:
    not_run = status in (Status.WAITING, Status.NOT_NEEDED)
    return model.Status.SKIPPED if not_run else model.Status(status.value)


def _is_trained_on(step: ExecutorStep[Any], trainings: Iterable[StepResult]) -> bool:
    """Does another run begin from this one? Then it is shared, not an arm."""
    return any(
        dependency == step or dependency.producer == step
        for other in trainings
        for dependency in other.step.dependencies
    )


def _field[T](step: ExecutorStep[Any], kind: type[T]) -> T | None:
    """The first field of that type."""
    return next((value for value in vars(step).values() if isinstance(value, kind)), None)


def _arm(step: ExecutorStep[Any], arms: list[str]) -> str:
    return step.label if step.label in arms else ""


@runtime_checkable
class _TrainingRun(Protocol):
    """A step that says over which optimizer steps it trains."""

    first_step: int
    end_step: int


@runtime_checkable
class _ReadsSequences(Protocol):
    """A step that says how many tokens a sequence has."""

    seq_len: int


def _span(step: ExecutorStep[Any]) -> tuple[int, int]:
    """(first, end) optimizer steps of a training run."""
    return (step.first_step, step.end_step) if isinstance(step, _TrainingRun) else (0, 0)


def _stages(step: ExecutorStep[Any]) -> dict[int, Mixture[Any]]:
    """The mixtures that are active in a run's own steps, by the first step that each serves."""
    stages = cast("Stages[Any] | None", _field(step, Stages))
    first, end = _span(step)
    return active_within(stages.at, first, end) if stages else {}


def _mixture(run: Run, result: StepResult, rows: list[dict[str, Any]], arms: list[str]) -> model.MixtureTable | None:
    stages = _stages(result.step)
    if not stages or (not _arm(result.step, arms) and _span(result.step)[0] > 0):
        return None  # a later shared phase reads the mixture of the first
    shares = {first: mixture.by_name() for first, mixture in stages.items()}
    return model.MixtureTable(arm=_arm(result.step, arms), stages=shares, use=_use(run, result, rows))


def _use(run: Run, result: StepResult, rows: list[dict[str, Any]]) -> dict[str, model.SourceUse]:
    """What a training really read of each source, by its metrics."""
    sequences = Counter[str]()
    for row in rows:
        sequences.update(row.get("sources", {}))
    sizes = {step.label: record.facts for step in result.step.dependencies if (record := run.results[step].record)}
    length = result.step.seq_len if isinstance(result.step, _ReadsSequences) else 0
    return {
        name: model.SourceUse(count, count * length / tokens if (tokens := sizes.get(name, {}).get("tokens")) else 0.0)
        for name, count in sequences.items()
    }


def _metrics(store: Store, result: StepResult) -> list[dict[str, Any]]:
    """The lines of a training's metrics; none where it wrote none."""
    content = store.objects.read(f"{result.record.attempt}/metrics.jsonl") if result.record is not None else None
    return [json.loads(line) for line in content.splitlines()] if content is not None else []


def _curve(result: StepResult, rows: list[dict[str, Any]], arms: list[str]) -> model.TrainingCurve | None:
    if not rows:
        return None

    def column(name: str) -> list[float]:
        if not all(name in row for row in rows):
            return []
        return [math.nan if row[name] is None else row[name] for row in rows]  # null: NaN or infinite

    first, end = _span(result.step)
    events: list[model.Event] = []
    batch = _field(result.step, BatchSchedule)
    for step, size in batch.at.items() if batch is not None else ():
        if first < step < end:
            events.append(model.Event(step=step, text=f"batch {size}"))
    previous: Mapping[Any, float] = {}
    for step, mixture in _stages(result.step).items():
        if step > first:
            added = sorted(source_name(source) for source in mixture.weights.keys() - previous.keys())
            events.append(model.Event(step=step, text=f"adds {', '.join(added)}" if added else "other shares"))
        previous = mixture.weights
    resources = result.step.resources
    return model.TrainingCurve(
        name=result.step.label,
        step=[int(step) for step in column("step")],
        loss=column("loss"),
        arm=_arm(result.step, arms),
        learning_rate=column("learning_rate"),
        grad_norm=column("grad_norm"),
        tokens=[int(count) for count in column("tokens")],
        tokens_per_second=column("tokens_per_second"),
        seconds=math.fsum(column("seconds")),
        hardware=str(resources.accelerator) if resources.accelerator else f"{resources.cpus:g} CPU",
        events=events,
    )


def _settings(trainings: Iterable[ExecutorStep[Any]]) -> list[model.Setting]:
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
    schedules = [_field(run, Schedule) for run in runs]
    decays = [schedule.decay if schedule is not None else None for schedule in schedules]
    cooling = first > 0 and all(decay is not None and decay.start <= first for decay in decays)
    return "cooldown" if cooling else "arms"


def _reports(run: Run) -> list[Record]:
    """Of results that are reports, the comparison first: a report that reads other reports sums them up."""
    kinds = {step: result.record.kind for step, result in run.results.items() if result.record is not None}
    found = [step for step in run.plan.experiment.results.values() if kinds.get(step) == "report"]
    found.sort(key=lambda step: -sum(kinds.get(read) == "report" for read in step.dependencies))
    return [record for step in found if (record := run.results[step].record) is not None]


def _report(store: Store, record: Record) -> dict[str, Any]:
    content = store.objects.read(f"{record.attempt}/report.json")
    if content is None:
        raise CorruptRecord(f"{store.prefix}/{record.attempt}/report.json is missing; {store.remedy(record)}")
    return {"op": record.op, "headline": record.facts.get("headline", []), **json.loads(content)}
