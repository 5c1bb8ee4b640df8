"""What a person sees: the plan, live progress, the result table."""

from __future__ import annotations

import functools
import time
from collections import Counter
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from marin.errors import CorruptRecord
from marin.executor.run_results import Event, Run, Status, StepResult
from marin.plan.drift import PACKAGE
from marin.plan.observed import UNSEEN
from marin.plan.plan import Action, Decision, Plan
from marin.report.table import Column, print_table
from marin.store.lease import read_lease
from marin.store.store import Store

COLORS = {
    Action.CACHED: "green",
    Action.ALIAS: "green",
    Action.RUN: "cyan",
    Action.RECHECK: "blue",
    Action.STOP: "red bold",
    Action.NOT_NEEDED: "dim",
}
MARKS = {
    Status.RAN: "[green]✓[/]",
    Status.CACHED: "[green]·[/]",
    Status.ALIAS: "[green]≡[/]",
    Status.FAILED: "[red bold]✗[/]",
    Status.STOPPED: "[yellow]■[/]",
    Status.SKIPPED: "[yellow]–[/]",
}
ALIKE = {  # what many decisions of one kind have in common, though each names another step; "": what the first says
    Action.CACHED: "",
    Action.RECHECK: "run only if other bytes come from what they read",
    Action.ALIAS: "the same action has given these bytes under another identity: nothing to run",
}
RESULTS = 40  # lines; more are for the page
FOLD_FROM = 4  # this many steps of one operator with one reason become one line
NAMED = 3  # of the steps that one change stops


def print_plan(console: Console, plan: Plan, *, every: bool = False, where: object = None) -> None:
    """The plan as a table: one line per step, runs of like steps folded unless ``every``.

    where: the cluster that it will run on, if somebody named one.
    """
    counts = {action: len(plan.having(action)) for action in Action}
    rows: list[list[Text | str]] = []
    for group in _folded(plan.decisions, every):
        first = group[0]
        one_op = len({decision.step.op for decision in group}) == 1
        name = first.step.name if len(group) == 1 else f"{first.step.op if one_op else '…'}/… × {len(group)}"
        reason = ALIKE.get(first.action, "") if len(group) > 1 else ""
        rows.append([Text(first.action, style=COLORS[first.action]), Text(name), Text(reason or first.reason_apart)])
        lines = [*first.drift, *(first.notes if every else _of_its_own(first))]
        if len(group) > 1 and first.action is Action.STOP:
            names = ", ".join(decision.step.name for decision in group[:NAMED])
            lines.append(f"{names} and {len(group) - NAMED} more")
        rows += [["", "", Text(f"  {line}", style="yellow")] for line in lines]
    print_table(console, (Column(), Column(heading="step"), Column(heading="reason")), rows)
    packages = Counter(note for decision in plan.decisions for note in decision.notes if note.startswith(PACKAGE))
    for note, count in packages.items():
        said = f"warning: {note} since {count} of these outputs were made; nothing stops or runs for that"
        console.print(Text(said, style="yellow"), soft_wrap=True)
    print_unseen(console, Counter(note for d in plan.decisions for note in d.notes if note.startswith(UNSEEN)))
    for line in plan.not_compared:
        console.print(Text(f"note: {line}", style="yellow"), soft_wrap=True)
    parts = [f"{count} {action}" for action, count in counts.items() if count]
    console.print(
        f"[bold]{len(plan.decisions)} steps[/]: {', '.join(parts)} — store {escape(plan.store.prefix)}"
        + (f" — {escape(str(where))}" if where is not None else ""),
        highlight=False,
    )


def print_unseen(console: Console, notes: Counter[str]) -> None:
    """What nobody could observe. notes: each with how many steps it is about."""
    for note, count in notes.items():
        steps = "1 step" if count == 1 else f"{count:,} steps"
        said = f"note: {note}; {steps}. List what counts in outside(), and a change of it is seen"
        console.print(Text(said, style="yellow"), soft_wrap=True)


def _of_its_own(decision: Decision) -> list[str]:
    """Notes about one output. What an upgrade of a package touches, say, is most of them, and said once for all."""
    return [note for note in decision.notes if not note.startswith((PACKAGE, UNSEEN))]


def _folded(decisions: list[Decision], every: bool) -> list[list[Decision]]:
    """Like decisions together; order of first appearance."""
    groups: dict[tuple[Any, ...], list[Decision]] = {}
    for index, decision in enumerate(decisions):
        notes = tuple(_of_its_own(decision))
        reason = "" if decision.action in ALIKE else decision.reason
        key: tuple[Any, ...] = (decision.step.op, decision.action, reason)
        if decision.action is Action.STOP:  # the same change stops steps of many operators
            key = (decision.action, decision.reason_apart, decision.drift, notes)
        elif decision.drift or notes:
            key = (index,)
        if every:
            key = (index,)
        groups.setdefault(key, []).append(decision)
    out: list[list[Decision]] = []
    for group in groups.values():
        out += [group] if len(group) >= FOLD_FROM else [[decision] for decision in group]
    return out


class Progress:
    """Live progress on a terminal, one line per finished step elsewhere. Use as a context manager."""

    def __init__(self, console: Console, store: Store, total: int) -> None:
        self.console, self.store, self.total = console, store, total
        self.began = time.monotonic()
        self.running: dict[str, tuple[StepResult, float]] = {}
        self.queued: dict[str, StepResult] = {}
        self.held: dict[str, StepResult] = {}
        self.ended = 0
        self.live: Live | None = None
        self.seen: dict[str, tuple[float, str]] = {}

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self.live = Live(get_renderable=self._render, console=self.console, refresh_per_second=2, transient=True)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def __call__(self, event: Event, result: StepResult) -> None:
        identity = result.step.identity
        for shown in (self.queued, self.running, self.held):
            shown.pop(identity, None)
        if event is Event.QUEUED:
            self.queued[identity] = result
        elif event is Event.STARTED:
            self.running[identity] = (result, time.monotonic())
        elif event is Event.HELD:
            self.held[identity] = result
            line = f"[yellow]waiting[/] {escape(result.step.name)}: {escape(result.reason)}"
            self.console.print(line, highlight=False, soft_wrap=True)
        elif event is Event.ENDED:
            self.ended += 1
            self._say(result)

    def _say(self, result: StepResult) -> None:
        line = _mark(result.status).copy()
        line.append(f"[{self.ended}/{self.total}] {result.step.name}")
        if result.status is Status.RAN:
            line.append(f"  {result.seconds:.1f} s", style="dim")
            if result.record is not None:
                line.append(f"  {describe_facts(result.record.facts)}", style="dim")
        elif result.status is Status.FAILED:
            line.append(f"  {result.error}", style="red")
        else:
            line.append(f"  {result.reason}", style="dim")
        if self.console.is_terminal:
            self.console.print(line, highlight=False, soft_wrap=True)
        else:  # as rich would, in a tenth of the time
            self.console.file.write(f"{line.plain}\n")
            self.console.file.flush()

    def _render(self) -> Group:
        lines: list[Text] = []
        for identity, (result, since) in list(self.running.items()):
            progress = self._progress(identity)
            line = Text.from_markup("[cyan]▸[/] ")
            line.append(f"{result.step.name}  {time.monotonic() - since:.0f} s")
            line.append(f"  {progress}", style="dim")
            lines.append(line)
        lines += [Text(f"… {held.step.name} waits: {held.reason}", style="yellow") for held in self.held.values()]
        lines += self._queue()
        lines.append(Text(f"{self.ended}/{self.total} steps, {time.monotonic() - self.began:.0f} s", style="bold"))
        return Group(*lines)

    def _queue(self) -> list[Text]:
        """What waits for workers, many in one line."""
        names: dict[str, list[str]] = {}
        for result in list(self.queued.values()):
            names.setdefault(result.wants, []).append(result.step.name)
        lines: list[Text] = []
        for wants, waiting in names.items():
            who = ", ".join(waiting) if len(waiting) < FOLD_FROM else f"{len(waiting)} steps"
            each = " each" if len(waiting) > 1 else ""
            lines.append(Text(f"… {who}: waiting for {wants}{each}", style="dim"))
        return lines

    def _progress(self, identity: str) -> str:
        """The running attempt's own words, read from its lease at most once a second."""
        now = time.monotonic()
        known = self.seen.get(identity)
        if known is not None and now - known[0] < 1.0:
            return known[1]
        try:
            lease = read_lease(self.store.objects, identity)
        except CorruptRecord:
            lease = None
        said = lease.progress if lease is not None else ""
        self.seen[identity] = (now, said)
        return said


@functools.cache
def _mark(status: Status) -> Text:
    return Text.from_markup(f"{MARKS[status]} ")


def describe_facts(facts: dict[str, Any]) -> str:
    """The numbers of an artifact, in one line."""
    parts: list[str] = []
    for name, held in facts.items():
        if isinstance(held, bool) or held is None:
            continue
        if isinstance(held, int):
            parts.append(f"{name} {held:,}")
        elif isinstance(held, float):
            parts.append(f"{name} {held:.3f}")
        elif isinstance(held, dict) and name == "dropped" and held:
            parts.append(f"dropped {sum(held.values()):,}")  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return ", ".join(parts[:5])


def print_results(console: Console, run: Run) -> None:
    """Metrics of every result side by side, headlines of reports."""
    scores: dict[str, dict[str, float]] = {}
    headlines: list[str] = []
    results = run.plan.experiment.results
    reports = [step for step in results.values() if (held := run.results[step].record) and held.kind == "report"]
    # A report that reads other reports repeats what they found.
    repeated = {read for step in reports for read in step.dependencies}
    for name, step in results.items():
        record = run.results[step].record
        if record is None:
            continue
        if record.kind == "scores":
            scores[name] = record.facts["metrics"]
        elif record.kind == "report" and step not in repeated:
            headlines += record.facts["headline"]
        elif record.kind not in ("scores", "report"):
            facts = describe_facts(record.facts)
            headlines.append(f"{name}: {facts}" if facts else name)
    if scores:
        table = Table(title="Results", header_style="bold")
        table.add_column("metric")
        for name in scores:
            table.add_column(name, justify="right")
        for metric in dict.fromkeys(metric for held in scores.values() for metric in held):
            table.add_row(metric, *(f"{held[metric]:.4f}" if metric in held else "–" for held in scores.values()))
        console.print(table)
    for line in headlines[:RESULTS]:
        console.print(Text(f"• {line}"))
    if len(headlines) > RESULTS:
        console.print(f"… and {len(headlines) - RESULTS} more: they are on the page", highlight=False)
