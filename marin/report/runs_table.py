"""Past runs as a table, newest first."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from marin.report.run_history import Outcome, PastRun
from marin.report.table import Column, print_table

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
COLUMNS = (
    Column(heading="run"),
    Column(heading="began", spare=1),
    Column(heading="by", spare=2),
    Column(heading="outcome"),
    Column(heading="seconds", right=True, spare=3),
    Column(heading="steps"),
)


def print_runs(console: Console, runs: list[PastRun], *, named: bool = False) -> None:
    """named: by the names that ``marin runs`` takes, rather than by experiment and scale."""
    rows: list[list[Text | str]] = []
    for run in reversed(runs):
        left = run.todo - sum(run.steps.values())
        done = [f"{count} {status}" for status, count in run.steps.items()]
        steps = ", ".join([*done, *([f"{left} to go"] if left > 0 else []), *([run.about] if run.about else [])])
        rows.append(
            [
                run.name if named else f"{run.experiment} {run.scale}".rstrip(),
                run.began[:16],
                run.who.partition(" ")[0],
                Text(run.outcome, style=OUTCOMES[run.outcome]),
                "" if run.seconds is None else f"{run.seconds:,.0f}",
                steps,
            ]
        )
    print_table(console, COLUMNS, rows)
