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
from marin.cli.options import LATEST, PREFIX
from marin.cli.parameters import Parsed, all_of, argument, command_line, flag, option
from marin.cli.writing_on import WritingOptions, write_on
from marin.errors import BadField
from marin.report.contents import Condition, Contents, Form, contents, contents_of_file, only, parse_condition
from marin.report.table import Column, open_console, print_table, say
from marin.report.words import describe_facts, measured
from marin.store.inventory import read_inventory
from marin.store.lookup import output_called
from marin.store.numbers import counted, write_bytes
from marin.store.store import open_store

TEXTS, ROWS, SAMPLED = 5, 40, 20  # entries without -n
MOST_LINES, MOST_LETTERS = 15, 1500  # of one text without --full


@command_line()
def command(
    output: str = argument(complete=complete_output),
    path: str | None = option("--file", "One file of the output.", metavar="PATH", complete=complete_file),
    count: int | None = option(
        "-n", "The number of entries; 5 texts or 40 rows by default.", type=click.IntRange(min=1)
    ),
    offset: int | None = option(
        "--offset", "Begin at entry N, counted from 0; a negative N counts from the end.", type=int
    ),
    conditions: tuple[Condition, ...] = option(
        "--where",
        "Only entries that match; also !=, <, <=, >, >=, and ~ for a regular expression (text~GSM8K).",
        multiple=True,
        type=Parsed("FIELD=VALUE", parse_condition),
    ),
    full: bool = flag("--full", "Print long texts to their end."),
    writing: WritingOptions = all_of(WritingOptions),
    latest: bool = LATEST,
    as_json: bool = flag("--json", "Print one JSON line an entry, uncut; all entries without -n."),
    prefix: str = PREFIX,
) -> int:
    """Print the contents of OUTPUT: documents, decoded token stores, items, scores, reports, metrics or files.

    OUTPUT is a step (op/label), a label, the first digits of an identity, the path of an output, or a path inside one.
    With --prompt, OUTPUT is a checkpoint, which continues the text. OUTPUT may then be a published model,
    hf:OWNER/NAME@COMMIT or a folder: marin reads its weights into the store once.
    """
    if not writing.prompts:
        writing.must_have_prompts()
    elif path or count or offset is not None or conditions or full:
        raise BadField("--prompt prints no contents of an output; leave out --file, -n, --offset, --where and --full")
    if writing.prompts:
        write_on(open_store(prefix), output, writing, latest=latest, as_json=as_json)
        return Exit.OK
    inventory = read_inventory(open_store(prefix))
    record = output_called(inventory, output, latest=latest)
    inside = output.removeprefix(f"{inventory.store.prefix}/").strip("/")
    path = path or inside.removeprefix(record.attempt).strip("/") if inside.startswith(record.attempt) else path
    found = contents_of_file(inventory, record, path) if path else contents(inventory, record, whole=full or as_json)
    first = offset or 0
    if first < 0:
        total = found.total if found.total is not None else sum(1 for _ in found.read(0))
        first = max(total + first, 0)
    found = only(found, conditions)
    if as_json:
        for entry in itertools.islice(found.read(first), count):
            click.echo(json.dumps(entry.data, ensure_ascii=False))
        return Exit.OK
    about = open_console(stderr=True)  # stdout is for the contents alone
    size = f"{write_bytes(record.bytes)} in {counted(record.files, 'file')}"
    say(about, f"{record.name} {record.identity[:12]}  {size}  {describe_facts(record.facts)}", "bold")
    say(about, f"{inventory.store.prefix}/{record.attempt}{f'/{path}' if path else ''}", "dim")
    console = open_console()
    if found.form is Form.LINES:
        for entry in itertools.islice(found.read(first), count):
            click.echo(entry.text)
    elif found.form is Form.TEXTS:
        shown = first
        for entry in itertools.islice(found.read(first), count or TEXTS):
            say(console, f"— {entry.title}", "bold cyan")
            click.echo(entry.text if full else _shortened(entry.text))
            shown += 1
        if conditions:
            more = "no more fit" if shown - first < (count or TEXTS) else "more may fit; see them with -n"
            about.print(Text(more, "dim"))
        if found.total is not None and shown < found.total:
            about.print(Text(f"{shown - first} of {found.total:,}; go on with --offset {shown}", "dim"))
    else:
        _print_table(console, about, found, first, count, spread=offset is None)
    return Exit.OK


def _print_table(
    console: Console, about: Console, found: Contents, first: int, count: int | None, *, spread: bool
) -> None:
    """Print the entries as a table. spread: choose evenly spaced rows of a sample, with its first and last row."""
    rows = list(found.read(first))
    total, how = first + len(rows), ""
    wanted = count or (SAMPLED if found.form is Form.SAMPLED else ROWS)
    if found.form is Form.SAMPLED and spread and len(rows) > wanted:
        last = len(rows) - 1
        rows = [rows[last - round(number * last / max(wanted - 1, 1))] for number in reversed(range(wanted))]
        how = ", evenly spaced"
    rows = rows[:wanted]
    # Columns appear in the order of the first row that has them. Nested values appear only with --json.
    dicts = [cast("dict[str, Any]", entry.data) for entry in rows]
    names = dict.fromkeys(name for row in dicts for name, value in row.items() if not isinstance(value, dict | list))
    numbers = {name for name in names if all(isinstance(row.get(name), int | float | None) for row in dicts)}
    columns = [Column(name, right=name in numbers, spare=number) for number, name in enumerate(names)]
    print_table(console, columns, [[_cell(row.get(name)) for name in names] for row in dicts])
    if len(rows) < total:
        about.print(Text(f"{len(rows)} of {total:,} rows{how}; more with -n, --offset or --json", "dim"))


def _shortened(text: str) -> str:
    kept = "\n".join(text.split("\n")[:MOST_LINES])[:MOST_LETTERS]
    return text if len(kept) == len(text) else f"{kept}\n… {len(text) - len(kept):,} more characters (--full)"


def _cell(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    return measured(value) if isinstance(value, float) else str(value).replace("\n", "⏎")
