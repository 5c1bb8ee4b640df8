"""``marin status``."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

from marin.cli.options import EXPERIMENT, JSON, PREFIX, echo_json, ends, plan_of, scale_option
from marin.console import open_console
from marin.exits import Exit
from marin.scale import Scale


@click.command()
@EXPERIMENT
@scale_option()
@PREFIX
@JSON
@ends
def command(experiment: str, scale: Scale, prefix: str, as_json: bool) -> int:
    """Which outputs of the experiment are there, who is working on which, what failed."""
    from marin.status import step_status

    made = plan_of(experiment, scale, prefix)
    rows = [step_status(made.store, step) for step in made.experiment.steps()]
    if as_json:
        echo_json(rows)
        return Exit.OK
    table = Table(box=None, header_style="bold")
    for heading in ("step", "status", "detail"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(Text(row["step"]), row["status"], Text(row["detail"]))
    open_console().print(table)
    return Exit.OK
