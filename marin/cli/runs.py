"""``marin runs``."""

from __future__ import annotations

import click
from rich.text import Text

from marin.cli.completions import complete_run
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json, ends, existing_store
from marin.report.run_history import PastRun, past_runs, run_called, run_names
from marin.report.runs_table import STATUSES, print_runs
from marin.report.table import Column, open_console, print_table, say


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("-n", "count", type=click.IntRange(min=1), default=20, show_default=True, help="The last N runs.")
@PREFIX
@JSON
@ends
def command(run: str | None, count: int, prefix: str, as_json: bool) -> int:
    """Who ran what on the store, newest first; with RUN, what happened in that one.

    RUN is the name of a run or its beginning, an experiment's name (its last run), or "latest".
    """
    store = existing_store(prefix)
    if run is not None:
        one = run_called(store, run)
        if as_json:
            echo_json({**one.to_json(), "events": one.events})
        else:
            _print_events(one)
        return Exit.OK
    runs = past_runs(store, run_names(store)[-count:])
    if as_json:
        echo_json([each.to_json() for each in runs])
    elif runs:
        print_runs(open_console(), runs, named=True)
    else:
        say(open_console(), f"nothing was ever run on the store {store.prefix}")
    return Exit.OK


def _print_events(run: PastRun) -> None:
    console = open_console()
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
    columns = (Column(), Column(), Column(heading="step"), Column(heading="seconds", right=True, spare=1), Column())
    print_table(console, columns, rows)
