"""The trainings of an experiment as tables and drawn lines, for a terminal."""

from __future__ import annotations

from itertools import groupby, pairwise

from rich.console import Console

from marin.data.draw_table import DrawRow
from marin.report.phases import Phase, drawn, largest, lines_of, shares_over
from marin.report.table import columns_of, print_table, say
from marin.store.numbers import counted, write_count

NAMED = 4  # sources of a mixture; --json has all
DRAWN = 6  # sources of a mixture
WIDEST, LABEL = 72, 44  # of a drawn line; beside it
COLUMNS = columns_of("training | >steps | >tokens | learning rate | >batch | machines")

DRAWS = columns_of("source | >share | >available | >drawn | >epochs | >epochs by then | >in a block")


def print_phases(console: Console, phases: list[Phase]) -> None:
    rows: list[list[str]] = []
    for phase in phases:
        rates = " → ".join(rate for rate, _ in groupby(f"{rate:.3g}" for _, rate in phase.rates))
        batches = " → ".join(f"{size:,}" for _, size in phase.batches)
        steps = f"{phase.first:,} … {phase.end:,}"
        rows.append([phase.name, steps, write_count(phase.tokens), rates, batches, phase.machines])
    print_table(console, COLUMNS, rows)
    by_name = {phase.name: phase for phase in phases}
    for phase in phases:
        say(console, "")
        say(console, f"{phase.name}{f', after {phase.after}' if phase.after else ''}", "bold")
        before = by_name.get(phase.after)
        if before is not None and not phase.counts_on:
            say(console, "  begins with its weights, and counts steps and tokens of its own")
        for change in phase.changed:
            say(console, f"  changed: {change}")
        left = None if before is None else before.until(phase.first) if phase.counts_on else before
        for at, shares in phase.stages:
            if left is not None and at == phase.first and shares == left.stages[-1][1]:
                say(console, "  data as before")
                continue
            if not shares:
                say(console, f"  data from step {at:,}: by tokens that nobody has counted yet")
                continue
            over = f", gone over to in {phase.over[at]:,} steps" if at in phase.over else ""
            say(console, f"  data from step {at:,}: {largest(shares, list(shares), NAMED)}{over}")
    for way in lines_of(phases):
        _draw(console, way)


def _draw(console: Console, way: list[Phase]) -> None:
    """Learning rate, batch, tokens and the share of each source over the steps of a run from its beginning."""
    end, width = way[-1].end, min(console.width - LABEL, WIDEST)
    rates = [point for phase in way for point in phase.rates]
    batches = [(at, float(size)) for phase in way for at, size in phase.batches]
    read = [(at, float(count)) for phase in way for at, count in phase.read]
    shares = shares_over(way)
    lines = [
        (rates, f"learning rate, at most {max(rate for _, rate in rates):.3g}"),
        (_steps(batches), f"batch, at most {max(size for _, size in batches):,.0f} sequences"),
        (read, f"tokens, {write_count(read[-1][1])} at the end"),
        *(
            (_steps(of_one), f"{name}, at most {max(share for _, share in of_one):.1%}")
            for name, of_one in list(shares.items())[:DRAWN]
        ),
    ]
    say(console, "")
    tokens = write_count(sum(phase.tokens for phase in way))
    say(console, f"{way[-1].name} from its beginning: {end:,} steps, {tokens} tokens", "bold")
    for points, label in lines:
        say(console, f"  {drawn(points, end, width)}  {label}")
    if (more := len(shares) - DRAWN) > 0:
        say(console, f"  {' ' * width}  {counted(more, 'more source')}")


def print_draws(console: Console, phases: list[Phase]) -> None:
    """Tokens available and drawn, epochs, and sequences in a block: of each stage, and of all of them."""
    for phase in phases:
        say(console, "")
        if phase.draws is None:
            say(console, f"{phase.name}: what it draws is not known before its sources are counted", "bold")
            continue
        for first, end, rows in phase.draws.stages:
            _print_rows(console, f"{phase.name} draws from step {first:,} to {end:,}", rows)
        if len(phase.draws.stages) > 1:
            _print_rows(console, f"{phase.name} draws in all", phase.draws.total)


def _print_rows(console: Console, heading: str, rows: tuple[DrawRow, ...]) -> None:
    say(console, heading, "bold")
    shown = [
        [
            row.name,
            f"{row.share:.2%}",
            "not counted" if row.available is None else write_count(row.available),
            write_count(row.drawn),
            "" if row.epochs is None else f"{row.epochs:.2f}",
            "" if row.epochs_by_end is None else f"{row.epochs_by_end:.2f}",
            f"{row.per_block:.1f}",
        ]
        for row in rows
    ]
    print_table(console, DRAWS, shown)


def _steps(batches: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """A batch holds until the next one: points for straight lines."""
    kept = [(at, size) for earlier, (step, _) in pairwise(batches) for at, size in (earlier, (step - 1, earlier[1]))]
    return [*kept, batches[-1]]
