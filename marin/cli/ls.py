"""``marin ls``."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any

import click
from rich.text import Text

from marin.cli.completions import complete_field, complete_output
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json
from marin.cli.parameters import argument, command_line, flag, option
from marin.errors import CorruptOutput, CorruptRecord, UnknownStep, did_you_mean
from marin.report.lineage_tree import described
from marin.report.table import columns_of, open_console, print_table, say
from marin.report.words import describe_facts
from marin.store.collector import paused
from marin.store.inventory import Inventory, read_inventory
from marin.store.lookup import field_of, outputs_called, unknown
from marin.store.numbers import counted, write_bytes
from marin.store.record import Record
from marin.store.store import open_store

ORDERS: dict[str, Callable[[Record], Any]] = {
    "made": lambda record: record.provenance.ended,
    "name": lambda record: (record.name, record.provenance.ended),
    "size": lambda record: record.bytes,
}
COLUMNS = columns_of("output | identity | kind ?4 | >size | made ?1 | by ?5 | experiment ?3 | holds ?2")


@command_line()
def command(
    patterns: tuple[str, ...] = argument(metavar="[PATTERN]...", nargs=-1, complete=complete_output),
    op: str | None = option("--op", "Only this operator's outputs.", complete=complete_field("op")),
    label: str | None = option("--label", "Only outputs with this label.", complete=complete_field("label")),
    kind: str | None = option(
        "--kind", "Only this kind of artifact: documents, tokens …", complete=complete_field("kind")
    ),
    experiment: str | None = option(
        "--experiment", "Only outputs that this experiment made.", complete=complete_field("experiment")
    ),
    sort: str = option(
        "--sort",
        "The newest (made) or largest (size) output comes last.",
        type=click.Choice(list(ORDERS)),
        default="name",
    ),
    files: bool = flag("--files", "List the files of each output too."),
    prefix: str = PREFIX,
    as_json: bool = JSON,
) -> int:
    """List the committed outputs of everybody.

    PATTERN is a step (op/label), an operator, a label, a glob ('tokenize/*'), a part of a name, the first digits of
    an identity, or the path of an output.
    """
    inventory = read_inventory(open_store(prefix))
    found = every = inventory.newest_first()
    for field, wanted in (("op", op), ("label", label), ("kind", kind), ("experiment", experiment)):
        if wanted is None:
            continue
        there = {field_of(record, field) for record in every}
        if wanted not in there:
            raise UnknownStep(f"--{field} {wanted}: no output in the store has it; {did_you_mean(wanted, there)}")
        found = [record for record in found if field_of(record, field) == wanted]
    if patterns:
        fitting = [record for pattern in patterns for record in _matching(pattern, found, inventory)]
        found = list({record.identity: record for record in fitting}.values())
    found = sorted(found, key=ORDERS[sort])
    if as_json:
        store = inventory.store
        shown = [{**described(record), "output": f"{store.prefix}/{record.attempt}"} for record in found]
        for fields, record in zip(shown, found if files else (), strict=files):
            fields["manifest"] = store.manifest(record)
        echo_json(shown)
        for message in inventory.damage.values():
            click.echo(f"incomplete: {message}", err=True)
    else:
        _print(inventory, found, files)
    return Exit.OK


def _matching(pattern: str, records: list[Record], inventory: Inventory) -> list[Record]:
    """Return the outputs that the pattern names, else its matches as a glob, else as a part of a name.

    Raises UnknownStep if nothing matches.
    """
    found = outputs_called(pattern, records, inventory.store.prefix)
    if not found and any(letter in pattern for letter in "*?["):
        found = [record for record in records if fnmatch.fnmatchcase(record.name, pattern)]
    if not found:
        found = [record for record in records if pattern in record.name]
    if not found:
        raise unknown(pattern, records, inventory.store.prefix, inventory.damage.values())
    return found


@paused()
def _print(inventory: Inventory, found: list[Record], files: bool) -> None:
    console, prefix = open_console(), inventory.store.prefix
    if files:
        for record in found:
            say(console, f"{record.name}  {record.identity[:12]}", "bold")
            say(console, f"{prefix}/{record.attempt}", "dim")
            try:
                entries = inventory.store.manifest(record)
                print_table(
                    console, columns_of("> |"), [[f"  {write_bytes(each.size)}", each.path] for each in entries]
                )
            except (CorruptOutput, CorruptRecord) as error:
                say(console, str(error), "red")
    else:
        rows: list[list[Text | str]] = []
        for record in found:
            made = record.provenance
            holds = f"the bytes of {record.alias_of[:12]}" if record.alias_of else describe_facts(record.facts)
            identity, holds = (Text(text, style="dim") for text in (record.identity[:12], holds))
            size, when = write_bytes(record.bytes), made.ended[:16]  # to the minute
            rows.append([record.name, identity, record.kind, size, when, made.who, made.experiment, holds])
        print_table(console, COLUMNS, rows)
    for identity, message in inventory.damage.items():
        say(console, f"{identity[:12]}  {message}", "red")
    size = sum({record.attempt: record.bytes for record in found}.values())
    say(console, f"{counted(len(found), 'output')}, {write_bytes(size)} — store {prefix}", "bold")
