"""The last words of a run: what happened to how many steps, in what time, and what to type next."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.text import Text

from marin.executor.run_results import Run, Status, StepResult
from marin.plan.observed import unseen
from marin.report.table import say
from marin.report.terminal import print_unseen
from marin.report.typed import marin, same_command
from marin.report.words import styled
from marin.steps.step import ExecutorStep
from marin.store.attempts import parse_attempt
from marin.store.layout import slug
from marin.store.numbers import listed, write_duration
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
MOST = 6  # names; of failures, that are told with their logs
SHORT = 12  # digits of an identity


def print_closing(console: Console, run: Run) -> None:
    """Failures with their logs, what was left out for them, and one line about all."""
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
        _say(console, Status.SKIPPED, f": {len(skipped)} step(s) that need what failed: {names}")
    planned = {note for decision in run.plan.decisions for note in decision.notes}
    notes: Counter[str] = Counter()
    for result in run.having(Status.RAN):
        if result.record is not None:
            notes.update(unseen(result.record.observed, run.plan.today[result.step].code))
    print_unseen(console, {note: count for note, count in notes.items() if note not in planned})
    counts = {status: len(run.having(status)) for status in SAID}
    parts = [styled(status, f"{count:,} {SAID[status]}") for status, count in counts.items() if count]
    console.print(Text.assemble(Text(", ").join(parts), f" in {write_duration(run.seconds)}"), soft_wrap=True)


def print_next(console: Console, run: Run) -> None:
    """What to type now."""
    for command in _next(run, run.having(Status.FAILED)):
        say(console, f"next: {command}", "dim")


def _say(console: Console, status: Status, text: str) -> None:
    console.print(Text.assemble(styled(status, SAID[status]), text), soft_wrap=True)


def _next(run: Run, failed: list[StepResult]) -> list[str]:
    store = run.plan.store
    if store.prefix.startswith("memory://"):
        return []  # it ends with this process
    if failed:
        logged = next((result for result in failed if result.log), None)
        log = [marin("logs", _only_name(store, logged.step), prefix=store.prefix)] if logged else []
        return [*log, f"{same_command()}  # when that is mended: only what is missing runs"]
    if not run.having(Status.RAN, Status.ALIAS):
        return []
    made = [step for step in run.plan.experiment.results.values() if run.results[step].record is not None]
    return [marin("cat", _only_name(store, made[0]), prefix=store.prefix)] if made else []


def _only_name(store: Store, step: ExecutorStep[Any]) -> str:
    """What commands know it by and no other step, whatever the store holds of earlier ones."""
    others = (parse_attempt(attempt) for attempt in store.attempts(step.op))
    name = f"{slug(step.op)}/{slug(step.label)}"
    alike = {each.short for each in others if each is not None and each.name == name}
    return step.name if alike <= {step.identity[:SHORT]} else step.identity[:SHORT]
