"""The last words of a run: what happened to how many steps, in what time, and what to type next."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.text import Text

from marin.executor.run_results import Run, Status, StepResult
from marin.numbers import write_duration
from marin.plan.observed import unseen
from marin.report.terminal import print_unseen
from marin.report.typed import marin, same_command
from marin.steps.step import ExecutorStep
from marin.store.attempts import parse_attempt
from marin.store.layout import slug
from marin.store.store import Store

SAID = {
    Status.RAN: ("ran", "green"),
    Status.CACHED: ("cached", "green"),
    Status.ALIAS: ("aliased", "green"),
    Status.FAILED: ("failed", "red bold"),
    Status.STOPPED: ("stopped", "yellow"),
    Status.SKIPPED: ("not run", "yellow"),
    Status.WAITING: ("not begun", "yellow"),
}
MOST = 6  # names; of failures, that are told with their logs
SHORT = 12  # digits of an identity


def print_closing(console: Console, run: Run) -> None:
    """Failures with their logs, what was left out for them, and one line about all."""
    failed, skipped = run.having(Status.FAILED), run.having(Status.SKIPPED)
    for result in failed[:MOST]:
        said = Text.assemble(("failed", "red bold"), f" {result.step.name}: {result.error}")
        console.print(said, soft_wrap=True)
        if result.log:
            console.print(Text(f"       log: {run.plan.store.prefix}/{result.log}"), soft_wrap=True)
    if len(failed) > MOST:
        names = ", ".join(result.step.name for result in failed[MOST : 2 * MOST])
        more = f" and {len(failed) - 2 * MOST} more" if len(failed) > 2 * MOST else ""
        console.print(Text.assemble(("failed", "red bold"), f" too: {names}{more}"), soft_wrap=True)
    stopped = run.having(Status.STOPPED)
    for result in stopped[:MOST]:
        console.print(Text.assemble(("stopped", "yellow"), f" {result.step.name}: {result.error}"), soft_wrap=True)
    if len(stopped) > MOST:
        console.print(Text.assemble(("stopped", "yellow"), f" too: {len(stopped) - MOST} more"), soft_wrap=True)
    if skipped:
        names = ", ".join(result.step.name for result in skipped[:MOST]) + (" …" if len(skipped) > MOST else "")
        said = f": {len(skipped)} step(s) that need what failed: {names}"
        console.print(Text.assemble(("not run", "yellow"), said), soft_wrap=True)
    ran = [result for result in run.having(Status.RAN) if result.record is not None]
    told = {note for decision in run.plan.decisions for note in decision.notes}
    notes = (note for r in ran if r.record for note in unseen(r.record.observed, run.plan.today[r.step].code))
    print_unseen(console, Counter(note for note in notes if note not in told))
    console.print(_counts(run), soft_wrap=True)
    for hint in _next(run, failed):
        console.print(Text(f"next: {hint}", style="dim"), soft_wrap=True)


def _counts(run: Run) -> Text:
    parts: list[Text] = []
    for status, (word, style) in SAID.items():
        if count := len(run.having(status)):
            parts.append(Text(f"{count:,} {word}", style=style))
    return Text.assemble(Text(", ").join(parts), f" in {write_duration(run.seconds)}")


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
