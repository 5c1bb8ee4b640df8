"""``marin cluster logs``."""

from __future__ import annotations

import click

from marin.cli.cluster_options import ADDRESS, cluster_called
from marin.cli.exits import Exit
from marin.cli.options import ends
from marin.cli.submit import followed
from marin.executor.clusters.dashboard import Dashboard
from marin.report.table import open_console
from marin.store.redaction import redacted


@click.command()
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on printing until the driver ends, and end with its exit code.")
@ADDRESS
@ends
def command(job: str, follow: bool, address: str) -> int:
    """What the driver of JOB printed. JOB is its name or the beginning of it. (Logs of steps: `marin logs`.)"""
    dashboard = Dashboard(cluster_called(address))
    found = dashboard.job(job)
    if follow:
        return followed(open_console(), found.name, dashboard)
    click.echo(redacted(dashboard.log(found)), nl=False)
    return Exit.OK
