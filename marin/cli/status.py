"""``marin status``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from marin.cli.completions import complete_run, path_or
from marin.cli.exits import Exit
from marin.cli.options import EVERY_STEP, JSON, LATEST, ExperimentOptions, echo_json, existing_store
from marin.cli.parameters import all_of, argument, command_line, flag, option
from marin.executor.backends.cluster import DASHBOARD
from marin.report.health import findings_of, metrics_of, print_health
from marin.report.history import (
    RECENT,
    Outcome,
    last_runs,
    print_events,
    print_runs,
    print_steps,
    run_called,
    statuses,
    store_statuses,
)
from marin.report.table import open_console, say
from marin.store.attempts import AttemptStatus
from marin.store.inventory import Inventory
from marin.store.store import Store, open_store


@command_line()
def command(
    name: str | None = argument(metavar="[EXPERIMENT|RUN|TRAINING]", required=False, complete=path_or(complete_run)),
    options: ExperimentOptions = all_of(ExperimentOptions),
    every_step: bool = EVERY_STEP,
    count: int = option("-n", "The last N runs.", type=click.IntRange(min=1), default=RECENT),
    health: bool = flag("--health", "Judge TRAINING by its metrics."),
    latest: bool = LATEST,
    as_json: bool = JSON,
) -> int:
    """Show running steps with their maker, start and progress, failed steps, and the latest runs, newest first.

    With EXPERIMENT (a file) it shows that experiment's steps. With RUN it shows the events of that run; RUN is the name
    of a run or its beginning, an experiment's name for its last run, or "latest". Without either it covers the store.

    With --health it judges TRAINING: spikes, shifts, norms, the order of the data, and the speed. TRAINING is a running
    or ended step (op/label, label, identity, path), or a folder with a metrics.jsonl. For each finding it says what
    changed there. Exit code 7 if somebody should act.
    """
    console = open_console()
    if health:
        if name is None:
            raise click.UsageError("--health judges one training: marin status TRAINING --health")
        metrics = metrics_of(name, options.prefix, latest=latest)
        found = findings_of(metrics.rows)
        if as_json:
            echo_json({"run": metrics.name, "about": metrics.about, "rows": len(metrics.rows), "findings": found})
        else:
            print_health(console, metrics, found)
        return Exit.ILL if any(each.ill for each in found) else Exit.OK
    if name is not None and (name.endswith(".py") or Path(name).is_file()):
        store = open_store(options.prefix)
        steps = statuses(store, options.experiment(name).steps())
        if as_json:
            echo_json(steps)
            return Exit.OK
        print_steps(console, steps, every=every_step)
        counts = {standing: sum(step.status is standing for step in steps) for standing in AttemptStatus}
        tally = ", ".join(f"{count} {standing}" for standing, count in counts.items() if count)
        say(console, f"{len(steps)} steps: {tally}", "bold")
        _print_dashboards(console, store, Path(name).stem)
        return Exit.OK
    options.must_be_of_an_experiment()
    store = existing_store(options.prefix)
    if name is not None:
        run = run_called(store, name)
        if as_json:
            echo_json(run)
        else:
            print_events(console, run)
        return Exit.OK
    inventory = Inventory(store)
    steps, runs = store_statuses(store, inventory), last_runs(store, count)
    if as_json:
        shown = [{name: value for name, value in vars(run).items() if name != "events"} for run in runs]
        echo_json({"steps": steps, "runs": shown})
        return Exit.OK
    print_steps(console, steps, every=True, identities=True)
    if not steps:
        console.print("nothing runs, nothing failed")
    if runs:
        console.print()
        print_runs(console, runs)
    _print_dashboards(console, store)
    say(console, f"{len(inventory.records):,} outputs — store {store.prefix}", "bold")
    return Exit.OK


def _print_dashboards(console: Console, store: Store, experiment: str = "") -> None:
    """Print the dashboards of running runs. experiment: only of this experiment."""
    for run in last_runs(store):
        if run.outcome is Outcome.RUNNING and run.dashboard and experiment in ("", run.experiment):
            say(console, f"{run.experiment} {run.scale}: {DASHBOARD}{run.dashboard}")
