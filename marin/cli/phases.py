"""``marin phases``."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise

import click
from rich.console import Console

from marin.cli.completions import complete_path
from marin.cli.exits import Exit
from marin.cli.options import JSON, echo_json, ends, experiment_in, scale_option
from marin.report.phases import Phase, drawn, lines_of, phases_of
from marin.report.table import Column, open_console, print_table, say
from marin.steps.scale import Scale
from marin.store.numbers import counted, write_count

NAMED = 4  # sources of a mixture; --json has all
WIDEST = 96  # of a drawn line
COLUMNS = (
    Column(heading="training"),
    Column(heading="steps", right=True),
    Column(heading="tokens", right=True),
    Column(heading="learning rate"),
    Column(heading="batch", right=True),
    Column(heading="machines"),
)


@click.command()
@click.argument("experiment", shell_complete=complete_path)
@scale_option()
@JSON
@ends
def command(experiment: str, scale: Scale, as_json: bool) -> int:
    """The trainings of EXPERIMENT, phase by phase: learning rate, batch, tokens, data, machines, and what changes.

    Reads the file alone: no store, no network.
    """
    phases = phases_of(experiment_in(experiment, scale))
    if as_json:
        echo_json({"scale": scale.value, "phases": [asdict(phase) for phase in phases]})
    else:
        _print(open_console(), phases, f"{experiment} · {scale.value}: {counted(len(phases), 'training')}")
    return Exit.OK


def _print(console: Console, phases: list[Phase], heading: str) -> None:
    say(console, heading, "bold")
    rows = [
        [
            phase.name,
            f"{phase.first:,} … {phase.end:,}",
            write_count(phase.tokens),
            " → ".join(_rates(phase)),
            " → ".join(f"{size:,}" for _, size in phase.batches),
            phase.machines,
        ]
        for phase in phases
    ]
    print_table(console, COLUMNS, rows)
    read = {phase.name: phase.stages[-1][1] for phase in phases}
    for phase in phases:
        say(console, "")
        say(console, f"{phase.name}{f', after {phase.after}' if phase.after else ''}", "bold")
        for change in phase.changed:
            say(console, f"  changed: {change}")
        for at, shares in phase.stages:
            if at == phase.first and phase.after and shares == read[phase.after]:
                say(console, "  data as before")
                continue
            largest = [f"{name} {share:.1%}" for name, share in list(shares.items())[:NAMED]]
            more = f", {len(shares) - NAMED} more" if len(shares) > NAMED else ""
            say(console, f"  data from step {at:,}: {', '.join(largest)}{more}")
    for way in lines_of(phases):
        end, width = way[-1].end, min(console.width - 2, WIDEST)
        rates = [point for phase in way for point in phase.rates]
        batches = [(at, float(size)) for phase in way for at, size in phase.batches]
        tokens = sum(phase.tokens for phase in way)
        say(console, "")
        say(console, f"{way[-1].name} from its beginning: {end:,} steps, {write_count(tokens)} tokens", "bold")
        say(console, f"  learning rate, at most {max(rate for _, rate in rates):.3g}")
        say(console, f"  {drawn(rates, end, width)}")
        say(console, f"  batch, at most {max(size for _, size in batches):,.0f} sequences")
        say(console, f"  {drawn(_steps(batches), end, width)}")


def _rates(phase: Phase) -> list[str]:
    """Where the learning rate turns, without what says the same again."""
    found = [f"{rate:.3g}" for _, rate in phase.rates]
    return [rate for number, rate in enumerate(found) if not number or rate != found[number - 1]]


def _steps(batches: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """A batch holds until the next one: points for straight lines."""
    kept = [(at, size) for earlier, (step, _) in pairwise(batches) for at, size in (earlier, (step - 1, earlier[1]))]
    return [*kept, batches[-1]]
