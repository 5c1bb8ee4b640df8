"""``marin status``."""

from __future__ import annotations

import click
from rich.console import Console
from rich.text import Text

from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json, ends, experiment_argument, scale_option
from marin.report.run_history import RECENT, PastRun, past_runs, run_names
from marin.report.runs_table import print_runs
from marin.report.status import Standing, StepStatus, statuses, store_statuses
from marin.report.table import Column, open_console, print_table
from marin.steps.scale import Scale
from marin.store.inventory import must_exist
from marin.store.store import Store, open_store

STYLES = {
    Standing.RUNNING: "cyan",
    Standing.QUEUED: "blue",
    Standing.DEAD: "yellow",
    Standing.FAILED: "red",
    Standing.STOPPED: "yellow",
    Standing.CORRUPT: "red bold",
    Standing.COMMITTED: "green",
    Standing.ABSENT: "dim",
}
FOLD_FROM = 4


@click.command()
@experiment_argument(required=False)
@scale_option()
@PREFIX
@click.option("--every-step", is_flag=True, help="Do not fold like steps into one line.")
@JSON
@ends
def command(experiment: str | None, scale: Scale, prefix: str, every_step: bool, as_json: bool) -> int:
    """Who works on which step since when, how far it is, and what failed.

    Of EXPERIMENT (a file); without one, of everything in the store, with the latest runs.
    """
    store = open_store(prefix)
    if experiment is not None:
        from marin.steps.experiment_file import built_by, load_build

        build, source = load_build(experiment)
        rows = statuses(store, built_by(build, source, scale).steps())
        if as_json:
            echo_json([row.to_json() for row in rows])
        else:
            _print_steps(open_console(), rows, every_step)
        return Exit.OK
    must_exist(store)
    rows, runs = store_statuses(store), past_runs(store, run_names(store)[-RECENT:])
    if as_json:
        echo_json({"steps": [row.to_json() for row in rows], "runs": [run.to_json() for run in runs]})
    else:
        _print_store(open_console(), store, rows, runs)
    return Exit.OK


def _print_steps(console: Console, rows: list[StepStatus], every: bool) -> None:
    groups: dict[tuple[str, Standing], list[StepStatus]] = {}
    for number, row in enumerate(rows):
        folds = row.status in (Standing.QUEUED, Standing.COMMITTED, Standing.ABSENT) and not every
        groups.setdefault((row.step.split("/")[0] if folds else str(number), row.status), []).append(row)
    table: list[list[Text | str]] = []
    for group in groups.values():
        first = group[0]
        if len(group) < FOLD_FROM:
            table += [[_styled(row.status), row.step, row.detail] for row in group]
        else:
            detail = f"the last {max(row.detail for row in group)[:19]}" if first.status is Standing.COMMITTED else ""
            name = f"{first.step.split('/')[0]}/… × {len(group)}"
            table.append([_styled(first.status), name, detail or first.detail])
    table.sort(key=lambda row: list(Standing).index(Standing(str(row[0]))))
    print_table(console, (Column(), Column(heading="step"), Column(heading="detail")), table)
    counts = {standing: sum(row.status is standing for row in rows) for standing in Standing}
    said = ", ".join(f"{count} {standing}" for standing, count in counts.items() if count)
    console.print(Text(f"{len(rows)} steps: {said}", style="bold"), soft_wrap=True)


def _styled(standing: Standing) -> Text:
    return Text(standing, style=STYLES[standing])


def _print_store(console: Console, store: Store, rows: list[StepStatus], runs: list[PastRun]) -> None:
    shown: list[list[Text | str]] = [[_styled(row.status), row.step, row.identity[:12], row.detail] for row in rows]
    shown.sort(key=lambda row: list(Standing).index(Standing(str(row[0]))))
    columns = (Column(), Column(heading="step"), Column(heading="identity", spare=1), Column(heading="detail"))
    print_table(console, columns, shown)
    if not shown:
        console.print("nothing runs, nothing failed")
    if runs:
        console.print()
        print_runs(console, runs)
    outputs = f"{len(store.identities()):,} outputs — store {store.prefix}"
    console.print(Text(outputs, style="bold"), soft_wrap=True)
