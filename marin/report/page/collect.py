"""Collect the content of a page from a run: its records, metrics and reports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marin.data.artifacts import OTHER_PART
from marin.executor.events import DIRTY, git_revision
from marin.executor.run_results import Run, Status, StepResult
from marin.plan.cost.plan_cost import training_of
from marin.plan.drift import PACKAGE
from marin.plan.observed import UNSEEN
from marin.report.claims import Claim, Grade
from marin.report.decontamination import undecontaminated
from marin.report.page import mixtures, model, trainings
from marin.report.page.sections import sections
from marin.report.section import Column, Page, Row, Section, Share, Table
from marin.report.words import describe_facts, fixed
from marin.steps.scale import Scale
from marin.store.layout import LOG
from marin.store.numbers import counted, listed, write_bytes, write_count, write_duration
from marin.store.record import Record


def describe(run: Run, source: Path, scale: Scale, command: str) -> model.ExperimentPage:
    """Return everything on the page, from the run's results and the artifacts in the store."""
    experiment, store = run.plan.experiment, run.plan.store
    results = [result for result in run.results.values() if result.step.work() is not None]
    begun_from = {each for result in results for read in result.step.dependencies for each in (read, read.producer)}
    arms = [result.step.label for result in results if result.step not in begun_from]  # the others are shared
    runs = [trainings.training_of(run, result, arms) for result in results]
    data = undecontaminated(experiment.steps())
    found = list(sections(run, Page(arms=tuple(arms), store=store.prefix, training_data=data.sentence())))
    answered = any(isinstance(each, Section) and each.answer for each in found)
    scores = [] if answered else list(_scores(run))
    title, _, question = (experiment.question or "").strip().partition("\n")
    stages, cost = mixtures.stages(runs), dict(_cost(run, results))
    provenance = {
        "command": command,
        "store": store.prefix,
        "Ray dashboard": run.dashboard,
        "revision": git_revision(source.parent).replace(DIRTY, " with uncommitted changes"),
        "made": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "scale": scale.value,
        **cost,
    }
    return model.ExperimentPage(
        title=title.rstrip("."),
        question=question.strip(),
        issue=experiment.issue,
        issue_url=experiment.issue_url,
        prefix=store.prefix,
        answer=() if answered or scores else _uncompared(run),
        doubts=(data.unknown,) if data.unknown else (),
        next_steps=_next_steps(run, scale, command),
        arms=arms,
        sections=[*found, *scores, *trainings.what_they_write(runs), *where_text_went(run)],
        steps=[_row(run, result) for result in run.results.values()],
        runs=[each for each in runs if each.rows],
        phases=trainings.phases(runs, arms),
        trainings=[*trainings.accounts(runs), *trainings.settings(runs)],
        strips=mixtures.strips(stages),
        mixtures=list(mixtures.tables(stages, runs)),
        cost=cost,
        provenance={name: text for name, text in provenance.items() if text},
    )


def _cost(run: Run, trainings: Iterable[StepResult]) -> Iterator[tuple[str, str]]:
    trained = [made for result in trainings if (made := training_of(result.step)) is not None]
    if trained:
        yield "training tokens", write_count(sum(made.work.tokens for made in trained))
        yield "training FLOPs", f"{sum(made.work.flops for made in trained):.2e}"
    if hours := [made.chip_hours for made in trained if made.chip_hours is not None]:
        yield "chip-hours", f"{sum(hours):,.{0 if sum(hours) >= 100 else 2}f}"
    if run.having(Status.RAN):
        yield "wall time", write_duration(run.seconds)


def _next_steps(run: Run, scale: Scale, command: str) -> list[str]:
    """Return commands for a reader who wants to know more."""
    if run.having(Status.FAILED):
        return [f"{command}: runs the failed steps and the steps that waited for them, and reuses the rest"]
    if scale is Scale.REHEARSAL and "--scale" not in command and " microanneal " not in command:  # it takes no scale
        return [f"{command} --scale full --dry-run: shows what the full run would do and cost"]
    return []


def _uncompared(run: Run) -> list[str]:
    """Return the facts of the results if all exist and no report compares them."""
    there = _results(run)
    if len(there) < len(run.plan.experiment.results):
        return []
    told = {name: describe_facts(record.facts) for name, record in there.items() if record.kind != "report"}
    return [
        f"{counted(len(there), 'result')}; no report compares {'them' if len(there) > 1 else 'it with another'}.",
        *(f"{name}: {facts}" for name, facts in told.items() if facts),
    ]


def _scores(run: Run) -> Iterator[Section]:
    """Yield the metrics of results that are scores, side by side."""
    scores = {name: record.facts["metrics"] for name, record in _results(run).items() if record.kind == "scores"}
    names = dict.fromkeys(metric for metrics in scores.values() for metric in metrics)
    if names:
        columns = [Column("metric"), *(Column(name) for name in scores)]
        rows = [[name, *(fixed(each[name], 4) if name in each else "—" for each in scores.values())] for name in names]
        first, *more = _uncompared(run) or [""]
        table = Table(title="Every metric by result", columns=columns, rows=rows)
        yield Section(title="Evaluation", answer=first, more=more, blocks=[table])


def _results(run: Run) -> dict[str, Record]:
    """Return the records of the results that exist."""
    steps = run.plan.experiment.results.items()
    return {name: record for name, step in steps if (record := run.results[step].record) is not None}


def _claims(run: Run, result: StepResult) -> Iterator[Claim]:
    """Yield claims that a reader should know before relying on this output."""
    decision, record, name = run.plan.of(result.step), result.record, result.step.name
    yield from (Claim(Grade.DOUBTFUL, "drift", text) for text in decision.drift)
    for text in decision.notes:
        if text.startswith(PACKAGE):
            yield Claim(Grade.KNOWN, "other package version", text)
        elif text.startswith(UNSEEN):
            yield Claim(Grade.KNOWN, "partly observed", text)
        else:
            yield Claim(Grade.KNOWN, "drift accepted" if "drift accepted" in text else "note", text)
    for line in run.plan.experiment.changes.get(result.step.identity, ()):
        if line.startswith(f"{name}."):
            yield Claim(Grade.KNOWN, "set on the command line", line.removeprefix(f"{name}."))
    if record is not None:
        yield from (Claim(Grade.KNOWN, "note", text) for text in record.provenance.notes)
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
        reason=result.reason + (f"; its bytes: {record.attempt}" if record is not None and record.alias_of else ""),
        seconds=record.provenance.seconds if record is not None else result.seconds or None,
        inputs=[dependency.name for dependency in step.dependencies],
        output=f"{store.prefix}/{record.attempt}" if record is not None else "",
        facts=record.facts if record is not None else {},
        log=f"{store.prefix}/{result.log or f'{record.attempt}/{LOG}' if record else result.log}",
        error=result.error,
        claims=list(_claims(run, result)),
    )


FEW_STAGES = 12  # stages; with more, a table by operator comes first
REASONS = 4  # in a cell
NO_REASON = "without a reason"


@dataclass(frozen=True)
class Passage:
    """Documents and UTF-8 bytes that one step read and kept. reasons: removed documents, by reason."""

    name: str
    op: str
    documents: int
    left: int
    bytes: int | None  # None if the input has no count
    bytes_left: int
    reasons: Mapping[str, int]


def where_text_went(run: Run) -> Iterator[Section]:
    """Yield a section on removed text if any step kept less text than it read."""
    found = [passage for result in run.results.values() if (passage := _passage(run, result)) is not None]
    passages = [each for each in found if each.left < each.documents or each.bytes_left < (each.bytes or 0)]
    if not passages:
        return
    by_operator: dict[str, list[Passage]] = {}
    for each in passages:
        by_operator.setdefault(each.op, []).append(each)
    blocks: list[Table] = []
    if len(passages) > FEW_STAGES:
        rows = [_stage_row(f"{op}, {len(of)} ×" if len(of) > 1 else of[0].name, of) for op, of in by_operator.items()]
        blocks.append(_stage_table("Text removed by each operator", rows))
    steps = sorted(passages, key=lambda each: -_gone([each]))
    blocks.append(
        _stage_table(
            "Text removed by each step, largest first", [_stage_row(each.name, [each]) for each in steps], bool(blocks)
        )
    )
    yield Section(title="Removed text", blocks=blocks)


def _passage(run: Run, result: StepResult) -> Passage | None:
    record = result.record
    if record is None or record.kind != "documents":
        return None
    left, reasons = int(record.facts["documents"]), dict(record.facts["dropped"])
    if reasons.keys() == {OTHER_PART}:
        return None  # one part of a split
    told = left + sum(reasons.values())
    read = _text_read(run, result, told)
    documents = int(read["documents"]) if read else told
    if documents > told:
        reasons[NO_REASON] = documents - told
    return Passage(
        name=result.step.name,
        op=result.step.op,
        documents=documents,
        left=left,
        bytes=int(read["bytes"]) if read else None,
        bytes_left=int(record.facts["bytes"]),
        reasons=reasons,
    )


def _text_read(run: Run, result: StepResult, told: int) -> Mapping[str, Any] | None:
    """Return the facts of the documents that a step reads. With several inputs: the one with the expected number."""
    records = [run.results[each].record for each in result.step.dependencies if each in run.results]
    inputs = [record.facts for record in records if record is not None and record.kind == "documents"]
    if len(inputs) > 1:
        inputs = [facts for facts in inputs if facts["documents"] == told]
    return inputs[0] if inputs else None


def _gone(of: Sequence[Passage]) -> float:
    """Return the share of the text that was removed, by bytes if they were counted."""
    counted = [each for each in of if each.bytes]
    if counted:
        return 1 - sum(each.bytes_left for each in counted) / sum(each.bytes or 0 for each in counted)
    return 1 - sum(each.left for each in of) / max(sum(each.documents for each in of), 1)


def _stage_row(name: str, of: Sequence[Passage]) -> Row:
    reasons = Counter[str]()
    for each in of:
        reasons.update(each.reasons)
    documents, left = sum(each.documents for each in of), sum(each.left for each in of)
    why = [f"{reason} {count:,}" for reason, count in sorted(reasons.items(), key=lambda each: (-each[1], each[0]))]
    return [
        name,
        write_count(documents),
        write_count(documents - left),
        Share(value=(documents - left) / max(documents, 1)),
        Share(value=_gone(of)) if any(each.bytes for each in of) else "",
        write_bytes(sum(each.bytes_left for each in of)),
        listed(why, REASONS),
    ]


def _stage_table(title: str, rows: Sequence[Row], folded: bool = False) -> Table:
    columns = [
        Column("step"),
        Column("documents read"),
        Column("removed"),
        Column("% of documents", digits=1),
        Column("% of bytes", digits=1, hint="includes removed parts of kept documents"),
        Column("bytes left"),
        Column("reasons", hint="removed documents by reason"),
    ]
    return Table(title=title, columns=columns, rows=rows, folded=folded)
