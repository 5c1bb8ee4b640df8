"""``marin cluster up``."""

from __future__ import annotations

from pathlib import Path

import click

from marin.cli.cluster_options import DEFINITION, ray
from marin.cli.exits import Exit
from marin.cli.options import ends
from marin.executor.clusters.kept import DASHBOARD_PORT, KeptCluster, alone, keep_cluster, kept_cluster
from marin.report.table import open_console, say
from marin.report.typed import marin


@click.command()
@DEFINITION
@click.option("--cpus", type=click.IntRange(min=1), help="How many steps may take together; all without it.")
@click.option(
    "--dashboard-port",
    type=click.IntRange(1, 65535),
    help=f"Where to watch it.  [default: {DASHBOARD_PORT}, or any that is free]",
)
@ends
def command(definition: Path | None, cpus: int | None, dashboard_port: int | None) -> int:
    """Start a Ray cluster on this machine, to be kept: loopback only, with a token.

    With DEFINITION (a file for Ray's cluster launcher, such as `python -m infra` prints), that one: `ray up`.
    """
    if definition is not None:
        return Exit.FAILED if ray("up", "--yes", str(definition)) else Exit.OK
    console = open_console()
    with alone():
        kept = kept_cluster()
        if kept is None:
            say(console, "starting Ray on this machine: seconds, or a minute where others need it too", "dim")
            kept = keep_cluster(cpus, dashboard_port)
        else:
            say(console, "it runs already", "dim")
    print_kept(kept)
    return Exit.OK


def print_kept(kept: KeptCluster) -> None:
    console = open_console()
    say(console, f"Ray cluster at {kept.address}", "bold")
    say(console, f"Ray dashboard: {kept.dashboard} · it wants the token that Ray is configured for")
    say(console, f"submit to it: {marin('submit', 'EXPERIMENT')}", "dim")
    say(console, f"end it:       {marin('cluster', 'down')}", "dim")
