"""Past runs as a table, newest first, and what happened in one."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from marin.report.run_history import PastRun
from marin.report.table import columns_of, print_table, say
from marin.report.words import styled

COLUMNS = columns_of("run | scale ?4 | began ?1 | by ?2 | outcome | >seconds ?3 | steps")
EVENTS = columns_of("|  | step | >seconds ?1 |")


def print_runs(console: Console, runs: list[PastRun]) -> None:
    rows: list[list[Text | str]] = []
    for run in reversed(runs):
        left = run.todo - sum(run.steps.values())
        done = [f"{count} {status}" for status, count in run.steps.items()]
        steps = ", ".join([*done, *([f"{left} to go"] if left > 0 else []), *([run.about] if run.about else [])])
        took = "" if run.seconds is None else f"{run.seconds:,.0f}"
        who = run.who.partition(" ")[0]
        rows.append([run.name, run.scale, run.began[:16], who, styled(run.outcome), took, steps])
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
        rows.append([when, styled(status), str(event["step"]), seconds, detail])
    print_table(console, EVENTS, rows)
