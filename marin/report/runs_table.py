"""Past runs as a table, newest first, and what happened in one."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from marin.report.run_history import Outcome, PastRun
from marin.report.table import columns_of, print_table, say

OUTCOMES = {
    Outcome.DONE: "green",
    Outcome.FAILED: "red",
    Outcome.STOPPED: "yellow",
    Outcome.RUNNING: "cyan",
    Outcome.DIED: "red",
    Outcome.SILENT: "dim",
}
STATUSES = {  # of steps
    "ran": "green",
    "failed": "red",
    "skipped": "yellow",
    "queued": "dim",
    "started": "dim",
    "stopped": "yellow",
    "held": "yellow",
}
COLUMNS = columns_of("run | scale ?4 | began ?1 | by ?2 | outcome | >seconds ?3 | steps")
EVENTS = columns_of("|  | step | >seconds ?1 |")


def print_runs(console: Console, runs: list[PastRun]) -> None:
    rows: list[list[Text | str]] = []
    for run in reversed(runs):
        left = run.todo - sum(run.steps.values())
        done = [f"{count} {status}" for status, count in run.steps.items()]
        steps = ", ".join([*done, *([f"{left} to go"] if left > 0 else []), *([run.about] if run.about else [])])
        outcome, seconds = Text(run.outcome, style=OUTCOMES[run.outcome]), run.seconds
        took = "" if seconds is None else f"{seconds:,.0f}"
        rows.append([run.name, run.scale, run.began[:16], run.who.partition(" ")[0], outcome, took, steps])
    print_table(console, COLUMNS, rows)


def print_events(console: Console, run: PastRun) -> None:
    """What happened in one run."""
    say(console, run.name, "bold")
    say(console, f"{run.who}  git {run.git[:12] or 'none'}  {run.command}", "dim")
    say(console, f"{run.outcome} {run.about}".rstrip(), "dim")
    rows: list[list[Text | str]] = []
    for event in run.events:
        if "step" not in event:
            continue
        status = str(event.get("status", "")) if event.get("event") == "ended" else str(event.get("event", ""))
        seconds = f"{event.get('seconds', 0.0):,.1f}" if status == "ran" else ""
        detail = str(event.get("error") or event.get("reason", ""))
        when = str(event.get("when", ""))[11:]
        rows.append([when, Text(status, style=STATUSES.get(status, "")), str(event["step"]), seconds, detail])
    print_table(console, EVENTS, rows)
