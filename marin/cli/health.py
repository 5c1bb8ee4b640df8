"""``marin health``."""

from __future__ import annotations

import click

from marin.cli.completions import complete_attempt
from marin.cli.exits import Exit
from marin.cli.options import JSON, LATEST, PREFIX, echo_json, ends
from marin.report.health import metrics_of, steps_of
from marin.report.table import open_console, say
from marin.store.numbers import counted


@click.command()
@click.argument("run", shell_complete=complete_attempt)
@LATEST
@PREFIX
@JSON
@ends
def command(run: str, latest: bool, prefix: str, as_json: bool) -> int:
    """What is wrong with a training, by its metrics: spikes, shifts, norms, the order of its data, its speed.

    RUN is a step (op/label, label, identity, path), running or ended, or a folder with a metrics.jsonl. Says nothing
    of a healthy one, and what changed where something happened. Exit code 7 if somebody should act.
    """
    metrics = metrics_of(run, prefix, latest=latest)
    found = metrics.findings()
    code = Exit.ILL if any(each.ill for each in found) else Exit.OK
    if as_json:
        echo_json({"run": metrics.name, "about": metrics.about, "rows": len(metrics.rows),
                   "findings": [each.as_json() for each in found]})  # fmt: skip
        return code
    console = open_console()
    ill = [each for each in found if each.ill]
    over = [each for each in found if not each.ill]
    verdict = f"{counted(len(ill), 'finding')}" if ill else "healthy"
    say(console, f"{metrics.name}, {metrics.about}, {steps_of(metrics.rows)}: {verdict}", "bold")
    for heading, style, each_of in (("", "red", ill), ("over, or as it was meant", "dim", over)):
        if heading and each_of:
            say(console, f"\n{heading}", style)
        for each in each_of:
            say(console, f"{each.kind.value}: {each.text}", style if each.ill else "")
            for cause in each.causes:
                say(console, f"  {cause}", "dim")
    return code
