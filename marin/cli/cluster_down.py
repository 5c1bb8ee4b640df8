"""``marin cluster down``."""

from __future__ import annotations

from pathlib import Path

import click

from marin.cli.cluster_options import DEFINITION, ray
from marin.cli.exits import Exit
from marin.cli.options import ends
from marin.executor.clusters.kept import alone, end_cluster, noted_cluster
from marin.report.table import open_console, say


@click.command()
@DEFINITION
@click.option("-y", "--yes", is_flag=True, help="Do not ask before machines of DEFINITION are taken down.")
@ends
def command(definition: Path | None, yes: bool) -> int:
    """End the cluster that `marin cluster up` started on this machine, and no other Ray; with DEFINITION, that one.

    What was committed stays; what runs there is made again by the next run.
    """
    if definition is not None:
        return Exit.FAILED if ray("down", *(["--yes"] if yes else []), str(definition)) else Exit.OK
    console = open_console()
    with alone():
        kept = noted_cluster()
        if kept is None:
            say(console, "no cluster of `marin cluster up` runs on this machine")
            return Exit.OK
        died = kept.process.is_gone()
        if not died:
            say(console, "ending it: what runs there has some seconds", "dim")
        end_cluster(kept)
    say(console, f"the Ray cluster at {kept.address} had died" if died else f"ended the Ray cluster at {kept.address}")
    return Exit.OK
