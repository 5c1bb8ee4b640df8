"""``marin status``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from marin.cli.exits import Exit
from marin.cli.options import (
    EVERY_STEP,
    JSON,
    PREFIX,
    SET,
    echo_json,
    ends,
    existing_store,
    experiment_argument,
    experiment_in,
    must_be_of_an_experiment,
    scale_option,
)
from marin.executor.backends.cluster import DASHBOARD
from marin.report.run_history import RECENT, Outcome, past_runs, run_names
from marin.report.runs_table import print_runs
from marin.report.status import Standing, StepStatus, statuses, store_statuses
from marin.report.table import Column, open_console, print_table, say
from marin.steps.scale import Scale
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
COLUMNS = (Column(), Column(heading="step"), Column(heading="identity", spare=1), Column(heading="detail"))


@click.command()
@experiment_argument(required=False)
@scale_option()
@PREFIX
@SET
@EVERY_STEP
@JSON
@ends
def command(
    experiment: str | None, scale: Scale, prefix: str, settings: tuple[str, ...], every_step: bool, as_json: bool
) -> int:
    """Who works on which step since when, how far it is, and what failed.

    Of EXPERIMENT (a file); without one, of everything in the store, with the latest runs.
    """
    console = open_console()
    if experiment is not None:
        store = open_store(prefix)
        steps = statuses(store, experiment_in(experiment, scale, settings).steps())
        if as_json:
            echo_json([step.to_json() for step in steps])
            return Exit.OK
        print_table(console, COLUMNS, _rows(steps, every_step))
        counts = {standing: sum(step.status is standing for step in steps) for standing in Standing}
        tally = ", ".join(f"{count} {standing}" for standing, count in counts.items() if count)
        say(console, f"{len(steps)} steps: {tally}", "bold")
        _print_dashboards(console, store, Path(experiment).stem)
        return Exit.OK
    must_be_of_an_experiment(settings)
    store = existing_store(prefix)
    steps, runs = store_statuses(store), past_runs(store, run_names(store)[-RECENT:])
    if as_json:
        echo_json({"steps": [step.to_json() for step in steps], "runs": [run.to_json() for run in runs]})
        return Exit.OK
    steps.sort(key=lambda step: list(Standing).index(step.status))
    print_table(console, COLUMNS, [_row(step, step.identity[:12]) for step in steps])
    if not steps:
        console.print("nothing runs, nothing failed")
    if runs:
        console.print()
        print_runs(console, runs)
    _print_dashboards(console, store)
    say(console, f"{len(store.identities()):,} outputs — store {store.prefix}", "bold")
    return Exit.OK


def _print_dashboards(console: Console, store: Store, experiment: str = "") -> None:
    """Where what runs can be watched. experiment: only of that one."""
    for run in past_runs(store, run_names(store)[-RECENT:]):
        if run.outcome is Outcome.RUNNING and run.dashboard and experiment in ("", run.experiment):
            say(console, f"{run.experiment} {run.scale}: {DASHBOARD}{run.dashboard}")


def _row(step: StepStatus, identity: str = "") -> list[Text | str]:
    return [Text(step.status, style=STYLES[step.status]), step.step, identity, step.detail]


def _rows(steps: list[StepStatus], every: bool) -> list[list[Text | str]]:
    """By status; like steps that nobody need look at in one line unless ``every``."""
    groups: dict[tuple[Standing, str], list[StepStatus]] = {}
    for number, step in enumerate(steps):
        folds = step.status in (Standing.QUEUED, Standing.COMMITTED, Standing.ABSENT) and not every
        groups.setdefault((step.status, step.step.split("/")[0] if folds else str(number)), []).append(step)
    rows: list[list[Text | str]] = []
    for (status, op), group in sorted(groups.items(), key=lambda item: list(Standing).index(item[0][0])):
        if len(group) < FOLD_FROM:
            rows += [_row(step) for step in group]
        else:
            last = f"the last {max(step.detail for step in group)[:19]}"
            detail = last if status is Standing.COMMITTED else group[0].detail
            rows.append([Text(status, style=STYLES[status]), f"{op}/… × {len(group)}", "", detail])
    return rows
