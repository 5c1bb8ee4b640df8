"""``marin cat``."""

from __future__ import annotations

import itertools
import json
from typing import Any, cast

import click
from rich.console import Console
from rich.text import Text

from marin.cli.completions import complete_file, complete_output
from marin.cli.exits import Exit
from marin.cli.options import PREFIX, ends
from marin.numbers import write_bytes
from marin.report.contents import Contents, Entry, Form, contents, contents_of_file
from marin.report.table import Column, open_console, print_table
from marin.report.terminal import describe_facts
from marin.store.inventory import read_inventory
from marin.store.lookup import output_called
from marin.store.store import open_store

TEXTS, ROWS, SAMPLED = 5, 40, 20  # entries, unless -n asks for another number
MOST_LINES, MOST_LETTERS = 15, 1500  # of one text, unless --full


@click.command()
@click.argument("output", shell_complete=complete_output)
@click.option("--file", "path", metavar="PATH", help="One file of the output.", shell_complete=complete_file)
@click.option("-n", "count", type=click.IntRange(min=1), help="How many entries; 5 texts or 40 rows by default.")
@click.option("--offset", type=int, help="Begin at this entry, from 0; negative: so many before the end.")
@click.option("--full", is_flag=True, help="Long texts to their end.")
@click.option("--latest", is_flag=True, help="The newest output where several have the name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line an entry, whole; all of them without -n.")
@PREFIX
@ends
def command(
    output: str,
    path: str | None,
    count: int | None,
    offset: int | None,
    full: bool,
    latest: bool,
    as_json: bool,
    prefix: str,
) -> int:
    """What OUTPUT holds, for reading: documents, token stores decoded, items, scores, reports, metrics, files.

    OUTPUT is a step (op/label), a label, the first digits of an identity, or the path of an output or of a file in it.
    """
    inventory = read_inventory(open_store(prefix))
    record = output_called(inventory, output, latest=latest)
    inside = output.removeprefix(f"{inventory.store.prefix}/").strip("/")
    path = path or inside.removeprefix(record.attempt).strip("/") if inside.startswith(record.attempt) else path
    held = contents_of_file(inventory, record, path) if path else contents(inventory, record, whole=full or as_json)
    if as_json:
        for entry in itertools.islice(held.read(_first(held, offset)), count):
            click.echo(json.dumps(entry.data, ensure_ascii=False))
        return Exit.OK
    about = open_console(stderr=True)  # what the output holds goes to stdout, alone
    size = f"{write_bytes(record.bytes)} in {record.files} file{'' if record.files == 1 else 's'}"
    heading = f"{record.name} {record.identity[:12]}  {size}  {describe_facts(record.facts)}"
    about.print(Text(heading, "bold"), soft_wrap=True)
    about.print(Text(f"{inventory.store.prefix}/{record.attempt}{f'/{path}' if path else ''}", "dim"), soft_wrap=True)
    _print(open_console(), about, held, count, offset, full)
    return Exit.OK


def _first(held: Contents, offset: int | None) -> int:
    if offset is None or offset >= 0:
        return offset or 0
    total = held.total if held.total is not None else sum(1 for _ in held.read(0))
    return max(total + offset, 0)


def _print(console: Console, about: Console, held: Contents, count: int | None, offset: int | None, full: bool) -> None:
    first = _first(held, offset)
    if held.form is Form.LINES:
        for entry in itertools.islice(held.read(first), count):
            click.echo(entry.text)
        return
    if held.form is Form.TEXTS:
        shown = first
        for entry in itertools.islice(held.read(first), count or TEXTS):
            console.print(Text(f"— {entry.title}", style="bold cyan"), soft_wrap=True)
            click.echo(entry.text if full else _shortened(entry.text))
            shown += 1
        if held.total is not None and shown < held.total:
            about.print(Text(f"{shown - first} of {held.total:,}; go on with --offset {shown}", "dim"))
        return
    rows = list(held.read(first))
    total = first + len(rows)
    wanted = count or (SAMPLED if held.form is Form.SAMPLED else ROWS)
    spread = held.form is Form.SAMPLED and offset is None and len(rows) > wanted
    rows = _spread(rows, wanted) if spread else rows[:wanted]
    _print_rows(console, rows)
    if len(rows) < total:
        how = ", evenly spaced" if spread else ""
        about.print(Text(f"{len(rows)} of {total:,} rows{how}; more with -n, --offset or --json", "dim"))


def _spread(rows: list[Entry], wanted: int) -> list[Entry]:
    """So many rows, the first and the last among them."""
    if wanted == 1:
        return rows[-1:]
    return [rows[round(number * (len(rows) - 1) / (wanted - 1))] for number in range(wanted)]


def _shortened(text: str) -> str:
    kept = "\n".join(text.split("\n")[:MOST_LINES])[:MOST_LETTERS]
    return text if len(kept) == len(text) else f"{kept}\n… {len(text) - len(kept):,} more characters (--full)"


def _print_rows(console: Console, rows: list[Entry]) -> None:
    """Columns in the order of the first row that has them; what is nested is left to --json."""
    dicts = [cast("dict[str, Any]", entry.data) for entry in rows]
    names = list(
        dict.fromkeys(name for row in dicts for name, held in row.items() if not isinstance(held, dict | list))
    )
    numbers = {name for name in names if all(isinstance(row.get(name), int | float | None) for row in dicts)}
    columns = [
        Column(heading=name, right=name in numbers, spare=number if number else 0) for number, name in enumerate(names)
    ]
    print_table(console, columns, [[_cell(row.get(name)) for name in names] for row in dicts])


def _cell(held: object) -> str:
    if held is None:
        return ""
    if isinstance(held, bool):
        return "yes" if held else "no"
    if isinstance(held, float):
        return f"{held:,.1f}" if 1000 <= abs(held) < 1e9 else f"{held:.4g}"
    return str(held).replace("\n", "⏎")
