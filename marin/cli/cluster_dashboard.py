"""``marin cluster dashboard``."""

from __future__ import annotations

from pathlib import Path

import click

from marin.cli.cluster_options import ADDRESS, DEFINITION, cluster_called, ray
from marin.cli.exits import Exit
from marin.cli.options import ends
from marin.executor.backends.private_ray import ray_program
from marin.executor.clusters.dashboard import Dashboard
from marin.report.table import open_console, say
from marin.report.typed import short


@click.command()
@DEFINITION
@ADDRESS
@ends
def command(definition: Path | None, address: str) -> int:
    """Where a cluster can be watched in a browser. With DEFINITION, forwards it to this machine until Ctrl-C."""
    if definition is not None:
        return Exit.FAILED if ray("dashboard", str(definition)) else Exit.OK
    dashboard = Dashboard(cluster_called(address))
    console = open_console()
    say(console, dashboard.url, "bold")
    say(console, "it asks for the token of the cluster; this prints the one that Ray has here:", "dim")
    say(console, f"{short(ray_program(), 'ray')} get-auth-token", "dim")
    return Exit.OK
