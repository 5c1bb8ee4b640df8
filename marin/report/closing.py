"""Print the end of a run: results, how many steps ended how, the time, and the command to type next."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from marin.executor.run_results import Run, Status
from marin.plan.observed import unseen
from marin.report.page.drawing import draws_any
from marin.report.plan_table import print_unseen
from marin.report.table import GAP, Column, print_table, say
from marin.report.typed import marin, same_command
from marin.report.words import describe_facts, styled
from marin.steps.step import ExecutorStep
from marin.store.attempts import parse_attempt
from marin.store.layout import LOG, slug
from marin.store.numbers import counted, listed, write_duration
from marin.store.store import Store

SAID = {  # in this order
    Status.RAN: "ran",
    Status.CACHED: "cached",
    Status.ALIAS: "aliased",
    Status.FAILED: "failed",
    Status.STOPPED: "stopped",
    Status.SKIPPED: "not run",
    Status.WAITING: "not begun",
}
MOST = 6  # names, and failures that are printed with their logs
SHORT = 12  # digits of an identity
REMOVERS = 5  # steps that removed text
# As marin.data.dropped logs it. Bytes, if known, say more about the training data than documents.
TOOK_OUT = re.compile(r"took out (?P<documents>[\d,]+ of [\d,]+) documents(, (?P<bytes>[\d,]+ of [\d,]+) bytes)?: .*")
RESULTS = 40  # lines; the page has the rest


def print_results(console: Console, run: Run) -> None:
    """Print metrics of all results side by side, then headlines of reports."""
    scores: dict[str, dict[str, float]] = {}
    results = run.plan.experiment.results
    headlines = list(_answers(run))
    for name, step in results.items():
        if (record := run.results[step].record) is not None and record.kind == "scores":
            scores[name] = record.facts["metrics"]
        elif record is not None and record.kind != "report":
            facts = describe_facts(record.facts)
            headlines.append(f"{name}: {facts}" if facts else name)
    if scores:
        _print_scores(console, scores)
    for line in _removed(run):
        console.print(Text(line), style="dim")
    for line in headlines[:RESULTS]:
        console.print(Text(f"• {line}"))
    if len(headlines) > RESULTS:
        console.print(f"… and {len(headlines) - RESULTS} more on the page", highlight=False)


def _answers(run: Run) -> Iterator[str]:
    """Yield the first texts of the page: answers, then doubts about them, then other findings."""
    if not draws_any(run):
        return
    from marin.report.page.sections import sections
    from marin.report.section import Finding, Page, Section  # many classes, which take as long as planning 100 steps

    found = [each for each in sections(run, Page(arms=(), store=run.plan.store.prefix)) if isinstance(each, Section)]
    yield from (line for each in found if each.answer for line in (each.answer, *each.more))
    yield from (doubt for each in found for doubt in each.doubts)
    for kind in Finding:
        for each in found:
            if each.finding is kind and not each.answer:
                yield f"{each.title.partition(':')[0]}, {kind.value}: {each.first_sentence}"


def _removed(run: Run) -> list[str]:
    """Return what each step of this run removed from the text, by its log, largest share first."""
    logs = {
        f"{result.record.attempt}/{LOG}": result.step.name
        for result in run.having(Status.RAN)
        if result.record is not None and result.record.kind == "documents"
    }
    found: list[tuple[float, str]] = []
    for name, content in run.plan.store.objects.read_many(list(logs)).items():
        if said := TOOK_OUT.search(content.decode(errors="replace")):
            gone, of = (int(amount.replace(",", "")) for amount in (said["bytes"] or said["documents"]).split(" of "))
            found.append((gone / of, f"{logs[name]} {said[0]}"))
    lines = [line for _, line in sorted(found, key=lambda each: -each[0])]
    if (more := len(lines) - REMOVERS) > 0:
        lines[REMOVERS:] = [f"{counted(more, 'more step')} removed text: see their logs"]
    return lines


def _print_scores(console: Console, scores: Mapping[str, Mapping[str, float]]) -> None:
    """Print a row for each metric and a column for each result. Columns that do not fit go into a table below."""
    metrics = list(dict.fromkeys(metric for values in scores.values() for metric in values))
    room = max(console.width - max(map(cell_len, metrics)), 0)
    blocks, left = list[list[str]](), 0
    for name in scores:
        width = max(cell_len(name), 8) + GAP
        if not blocks or width > left:
            blocks.append([])
            left = room
        blocks[-1].append(name)
        left -= width
    for block in blocks:
        columns = [Column("metric"), *(Column(name, right=True) for name in block)]
        rows = [
            [metric, *(f"{scores[name][metric]:.4f}" if metric in scores[name] else "–" for name in block)]
            for metric in metrics
        ]
        print_table(console, columns, rows)


def print_closing(console: Console, run: Run) -> None:
    """Print failures with their logs, the steps that were skipped for them, and one line about all."""
    failed, stopped, skipped = (run.having(each) for each in (Status.FAILED, Status.STOPPED, Status.SKIPPED))
    for results in (failed, stopped):
        for result in results[:MOST]:
            _say(console, result.status, f" {result.step.name}: {result.error}")
            if result.log and result.status is Status.FAILED:
                say(console, f"       log: {run.plan.store.prefix}/{result.log}")
        if more := [result.step.name for result in results[MOST:]]:
            _say(console, results[0].status, f" too: {listed(more, MOST)}")
    if skipped:
        names = listed([result.step.name for result in skipped], MOST)
        _say(
            console,
            Status.SKIPPED,
            f": {len(skipped)} step(s) that need a failed step, or that only broken results need: {names}",
        )
    for result in run.having(Status.RAN):
        for note in result.record.provenance.notes if result.record is not None else ():
            say(console, f"note: {result.step.name}: {note}")
    planned = {note for decision in run.plan.decisions for note in decision.notes}
    ran = [(each.step, each.record) for each in run.having(Status.RAN) if each.record is not None]
    notes = Counter(note for step, made in ran for note in unseen(made.observed, run.plan.today[step].code))
    print_unseen(console, {note: count for note, count in notes.items() if note not in planned})
    counts = {status: len(run.having(status)) for status in SAID}
    parts = [styled(status, f"{count:,} {SAID[status]}") for status, count in counts.items() if count]
    console.print(Text.assemble(Text(", ").join(parts), f" in {write_duration(run.seconds)}"), soft_wrap=True)


def _say(console: Console, status: Status, text: str) -> None:
    console.print(Text.assemble(styled(status, SAID[status]), text), soft_wrap=True)


def print_next(console: Console, run: Run) -> None:
    """Print commands to type next; none for a store in memory, which ends with this process."""
    store, failed, commands = run.plan.store, run.having(Status.FAILED), list[str]()
    made = [step for step in run.plan.experiment.results.values() if run.results[step].record is not None]
    if failed:
        logged = [each for each in failed if each.log][:1]
        log = [marin("logs", _only_name(store, each.step), prefix=store.prefix) for each in logged]
        commands = [*log, f"{same_command()}  # after the fix: runs only the missing steps"]
    elif made and run.having(Status.RAN, Status.ALIAS):
        commands = [marin("cat", _only_name(store, made[0]), prefix=store.prefix)]
    for command in commands if not store.prefix.startswith("memory://") else ():
        say(console, f"next: {command}", "dim")


def _only_name(store: Store, step: ExecutorStep[Any]) -> str:
    """Return a name by which commands find this step and no other, earlier ones in the store included."""
    others = (parse_attempt(attempt) for attempt in store.attempts(step.op))
    name = f"{slug(step.op)}/{slug(step.label)}"
    alike = {each.short for each in others if each is not None and each.name == name}
    return step.name if alike <= {step.identity[:SHORT]} else step.identity[:SHORT]
