"""From a run to what its page tells: collects what records, metrics and reports say."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from marin.executor.events import git_revision
from marin.executor.run_results import Run, Status, StepResult
from marin.plan.cost.plan_cost import training_of
from marin.plan.drift import PACKAGE
from marin.plan.observed import UNSEEN
from marin.report.claims import Claim, Grade
from marin.report.decontamination import undecontaminated
from marin.report.page import accounts, mixtures, model, trainings
from marin.report.page.sections import sections
from marin.report.page.taken_out import where_text_went
from marin.report.section import Column, Page, Section, Table
from marin.report.units import fixed
from marin.report.words import describe_facts
from marin.steps.scale import Scale
from marin.store.layout import LOG
from marin.store.numbers import counted, write_count, write_duration
from marin.store.record import Record


def describe(run: Run, source: Path, scale: Scale, command: str) -> model.ExperimentPage:
    """Everything on the page, from the run's results and the artifacts in the store."""
    experiment, store = run.plan.experiment, run.plan.store
    revision, dirty = git_revision(source.parent)
    results = [result for result in run.results.values() if result.step.work() is not None]
    arms = [result.step.label for result in results if not trainings.is_trained_on(result.step, results)]
    runs = [trainings.training_of(run, result, arms) for result in results]
    data = undecontaminated(experiment.steps()).sentence()
    found = list(sections(run, Page(arms=tuple(arms), store=store.prefix, training_data=data)))
    answered = any(isinstance(each, Section) and each.answer for each in found)
    scores = [] if answered else list(_scores(run))
    title, _, question = (experiment.question or "").strip().partition("\n")
    stages = mixtures.stages(runs)
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
        answer=() if answered or scores else _uncompared(run),
        next_steps=_next_steps(run, scale, command),
        arms=arms,
        sections=[*found, *scores, *where_text_went(run)],
        steps=[_row(run, result) for result in run.results.values()],
        runs=[curve for each in runs if (curve := trainings.curve(store, each)) is not None],
        phases=trainings.phases(runs, arms),
        trainings=[*accounts.accounts(runs), *accounts.settings(runs)],
        strips=mixtures.strips(stages),
        mixtures=list(mixtures.tables(stages, runs)),
        cost=dict(_cost(run, results)),
    )


def _cost(run: Run, trainings: Iterable[StepResult]) -> Iterator[tuple[str, str]]:
    trained = [made for result in trainings if (made := training_of(result.step)) is not None]
    if trained:
        yield "tokens trained on", write_count(sum(made.work.tokens for made in trained))
        yield "training FLOPs", f"{sum(made.work.flops for made in trained):.2e}"
    if hours := [made.chip_hours for made in trained if made.chip_hours is not None]:
        yield "chip-hours", f"{sum(hours):,.{0 if sum(hours) >= 100 else 2}f}"
    if run.having(Status.RAN):
        yield "of this run", write_duration(run.seconds)


def _next_steps(run: Run, scale: Scale, command: str) -> list[str]:
    """What somebody could do now who wants to know more."""
    if run.having(Status.FAILED):
        return [f"{command}: runs what failed, and what waited for it; the rest is there"]
    if scale is Scale.REHEARSAL and "--scale" not in command and " microanneal " not in command:  # it takes no scale
        return [f"{command} --scale full --dry-run: what the real thing would run and cost"]
    return []


def _uncompared(run: Run) -> list[str]:
    """What the results say of themselves, where all of them are there and no report compares them."""
    there = _results(run)
    if len(there) < len(run.plan.experiment.results):
        return []
    told = {name: describe_facts(record.facts) for name, record in there.items() if record.kind != "report"}
    return [
        f"{counted(len(there), 'result')}; no report compares {'them' if len(there) > 1 else 'it with another'}.",
        *(f"{name}: {facts}" for name, facts in told.items() if facts),
    ]


def _scores(run: Run) -> Iterator[Section]:
    """The metrics of results that are scores, side by side."""
    scores = {name: record.facts["metrics"] for name, record in _results(run).items() if record.kind == "scores"}
    names = dict.fromkeys(metric for metrics in scores.values() for metric in metrics)
    if names:
        columns = [Column("metric"), *(Column(name) for name in scores)]
        rows = [[name, *(fixed(each[name], 4) if name in each else "—" for each in scores.values())] for name in names]
        first, *more = _uncompared(run) or [""]
        table = Table(title="Every metric by result", columns=columns, rows=rows)
        yield Section(title="Evaluation", answer=first, more=more, blocks=[table])


def _results(run: Run) -> dict[str, Record]:
    """Records of the results that are there."""
    steps = run.plan.experiment.results.items()
    return {name: record for name, step in steps if (record := run.results[step].record) is not None}


def _claims(run: Run, result: StepResult) -> Iterator[Claim]:
    """What a reader should know before relying on this output."""
    decision, record, name = run.plan.of(result.step), result.record, result.step.name
    yield from (Claim(Grade.DOUBTFUL, "drift", text) for text in decision.drift)
    for text in decision.notes:
        if text.startswith(PACKAGE):
            yield Claim(Grade.KNOWN, "other package version", text)
        elif text.startswith(UNSEEN):
            yield Claim(Grade.KNOWN, "not wholly observed", text)
        else:
            yield Claim(Grade.KNOWN, "drift accepted" if "drift accepted" in text else "note", text)
    for line in run.plan.experiment.changes.get(result.step.identity, ()):
        if line.startswith(f"{name}."):
            yield Claim(Grade.KNOWN, "set on the command line", line.removeprefix(f"{name}."))
    if record is not None and (because := record.provenance.because):
        text = f"{record.provenance.ended} by {record.provenance.who}: {because}"
        yield Claim(Grade.KNOWN, "made again", text)


def _row(run: Run, result: StepResult) -> model.StepRow:
    store, step, record = run.plan.store, result.step, result.record
    return model.StepRow(
        name=step.name,
        op=step.op,
        identity=step.identity,
        status=Status.SKIPPED if result.status in (Status.WAITING, Status.NOT_NEEDED) else result.status,
        reason=result.reason + (f"; the bytes of {record.attempt}" if record is not None and record.alias_of else ""),
        seconds=record.provenance.seconds if record is not None else result.seconds or None,
        inputs=[dependency.name for dependency in step.dependencies],
        output=f"{store.prefix}/{record.attempt}" if record is not None else "",
        facts=record.facts if record is not None else {},
        log=f"{store.prefix}/{result.log or f'{record.attempt}/{LOG}' if record else result.log}",
        error=result.error,
        claims=list(_claims(run, result)),
    )
