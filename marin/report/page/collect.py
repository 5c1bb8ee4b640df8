"""From a run to what its page tells: collects what records, metrics and reports say."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from marin.errors import CorruptRecord
from marin.executor.events import git_revision
from marin.executor.run_results import Run, Status, StepResult
from marin.plan.cost.plan_cost import training_of
from marin.plan.drift import PACKAGE
from marin.plan.observed import UNSEEN
from marin.report.decontamination import DECONTAMINATE, undecontaminated
from marin.report.page import model, reports, trainings
from marin.report.page.accounts import account
from marin.report.page.decontamination_section import decontamination_section
from marin.report.terminal import describe_facts
from marin.report.typed import marin
from marin.steps.scale import Scale
from marin.store.layout import LOG
from marin.store.numbers import counted
from marin.store.record import Record
from marin.store.store import Store


def render(run: Run, source: Path, scale: Scale, command: str, head: str) -> bytes:
    """The page as HTML. head: what else goes into its head."""
    from marin.report.page.render import render as rendered  # templates and plots: more than a second

    return rendered(describe(run, source, scale, command), head).encode(errors="backslashreplace")


def describe(run: Run, source: Path, scale: Scale, command: str) -> model.ExperimentPage:
    """Everything on the page, from the run's results and the artifacts in the store."""
    experiment, store = run.plan.experiment, run.plan.store
    revision, dirty = git_revision(source.parent)
    runs = [result for result in run.results.values() if result.step.work() is not None]
    arms = [result.step.label for result in runs if not trainings.is_trained_on(result.step, runs)]
    measured = [(result, trainings.metrics(store, result)) for result in runs]
    found = [_report(store, record) for record in _reports(run)]
    data = undecontaminated(experiment.steps()).sentence()
    trained = [made for result in runs if (made := training_of(result.step)) is not None]
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
        dashboard=run.dashboard,
        headline=[line for each in found for line in reports.headline(each)] or _uncompared(run),
        picture=next((drawn for each in found if (drawn := reports.picture(each)) is not None), None),
        next_steps=_next_steps(run, found, scale, command),
        arms=arms,
        steps=[_row(run, result) for result in run.results.values()],
        mixtures=[table for each, rows in measured if (table := trainings.mixture(run, each, rows, arms)) is not None],
        runs=[curve for each, rows in measured if (curve := trainings.curve(run, each, rows, arms)) is not None],
        accounts=[account(result.step, rows, arms) for result, rows in measured],
        phases=trainings.phases((result.step for result in runs), arms),
        settings=trainings.settings(result.step for result in runs),
        evaluations=[table for each in found for table in reports.evaluations(each)] or _scores(run),
        evidence=[section for each in found for section in reports.evidence(each, data)],
        decontamination=decontamination_section(_decontaminations(run)),
        tokens=sum(made.work.tokens for made in trained) or None,
        flops=sum(made.work.flops for made in trained) or None,
        chip_hours=sum(hours) if hours else None,
        wall_seconds=run.seconds if run.having(Status.RAN) else None,
        trust=[note for result in run.results.values() for note in _trust(run, result)],
    )


def _next_steps(run: Run, found: list[dict[str, Any]], scale: Scale, command: str) -> list[str]:
    """What somebody could do now who wants to know more, or to be surer."""
    if run.having(Status.FAILED):
        return [f"{command}: runs what failed, and what waited for it; the rest is there"]
    told: list[str] = []
    for report in found:
        if report["op"] == "compare":
            compare = marin("compare", *report["arms"], prefix=run.plan.store.prefix)
            told.append(f"{compare}: with their weights, and what they wrote")
            if set(report["runs"].values()) == {1}:
                told.append("a second and a third seed of each arm: with one, no difference is conclusive")
    if scale is Scale.REHEARSAL and "--scale" not in command and " microanneal " not in command:  # it takes no scale
        told.append(f"{command} --scale full --dry-run: what the real thing would run and cost")
    return told


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


def _decontaminations(run: Run) -> dict[str, dict[str, Any] | None]:
    """What each step that took evaluation items out says of it, by its label; None where its output is not there any
    more, as what was made from it is."""
    found: dict[str, dict[str, Any] | None] = {}
    for result in run.results.values():
        name = result.step.label or result.step.name
        if result.step.op != DECONTAMINATE:
            continue
        if (record := result.record) is not None:
            content = run.plan.store.objects.read(f"{record.attempt}/contamination.json")
            removed = sum(record.facts["dropped"].values())
            found[name] = None if content is None else {**json.loads(content), "removed": removed}
        elif result.status is Status.NOT_NEEDED:
            found[name] = None
    return found


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
    for line in run.plan.experiment.changes.get(result.step.identity, ()):
        if line.startswith(f"{name}."):
            yield model.TrustNote(name, "set on the command line", line.removeprefix(f"{name}."))
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
