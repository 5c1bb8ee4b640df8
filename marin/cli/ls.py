"""``marin ls``."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import click
from rich.text import Text

from marin.cli.completions import complete_field, complete_output
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json
from marin.cli.parameters import argument, choice, command_line, flag, option
from marin.errors import CorruptOutput, CorruptRecord, UnknownStep
from marin.report.lineage_tree import described
from marin.report.table import columns_of, open_console, print_table, say
from marin.report.words import describe_facts
from marin.store.collector import paused
from marin.store.inventory import Inventory, read_inventory
from marin.store.lookup import field_of, hint, outputs_called, unknown
from marin.store.numbers import counted, write_bytes
from marin.store.record import Record
from marin.store.store import open_store


class Order(StrEnum):
    MADE = "made"
    NAME = "name"
    SIZE = "size"


KEYS: dict[Order, Callable[[Record], Any]] = {
    Order.MADE: lambda record: record.provenance.ended,
    Order.NAME: lambda record: (record.name, record.provenance.ended),
    Order.SIZE: lambda record: record.bytes,
}
COLUMNS = columns_of("output | identity | kind ?4 | >size | made ?1 | by ?5 | experiment ?3 | holds ?2")


@command_line()
def command(
    patterns: tuple[str, ...] = argument(metavar="[PATTERN]...", nargs=-1, shell_complete=complete_output),
    op: str | None = option("--op", help="Only this operator's outputs.", shell_complete=complete_field("op")),
    label: str | None = option("--label", help="Only outputs with this label.", shell_complete=complete_field("label")),
    kind: str | None = option(
        "--kind", help="Only this kind of artifact: documents, tokens …", shell_complete=complete_field("kind")
    ),
    experiment: str | None = option(
        "--experiment", help="Only what this experiment made.", shell_complete=complete_field("experiment")
    ),
    sort: Order = choice("--sort", Order, "made: newest last.", Order.NAME),
    files: bool = flag("--files", "List the files of each output too."),
    prefix: str = PREFIX,
    as_json: bool = JSON,
) -> int:
    """Committed outputs of the store, whoever made them.

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
            raise UnknownStep(f"--{field} {wanted}: no output in the store has it; {hint(wanted, there)}")
        found = [record for record in found if field_of(record, field) == wanted]
    if patterns:
        fitting = [record for pattern in patterns for record in _matching(pattern, found, inventory)]
        found = list({record.identity: record for record in fitting}.values())
    found = sorted(found, key=KEYS[sort])
    if as_json:
        echo_json([_as_json(inventory, record, files) for record in found])
        for message in inventory.damage.values():
            click.echo(f"incomplete: {message}", err=True)
    else:
        _print(inventory, found, files)
    return Exit.OK


def _matching(pattern: str, records: list[Record], inventory: Inventory) -> list[Record]:
    """What it names; else what it is a glob for or a part of. Raises UnknownStep if that is nothing."""
    found = outputs_called(pattern, records, inventory.store.prefix)
    if not found and any(letter in pattern for letter in "*?["):
        found = [record for record in records if fnmatch.fnmatchcase(record.name, pattern)]
    if not found:
        found = [record for record in records if pattern in record.name]
    if not found:
        raise unknown(pattern, records, inventory.store.prefix, inventory.damage.values())
    return found


def _as_json(inventory: Inventory, record: Record, files: bool) -> dict[str, Any]:
    fields = {**described(record), "output": f"{inventory.store.prefix}/{record.attempt}"}
    return {**fields, "manifest": inventory.store.manifest(record)} if files else fields


@paused()
def _print(inventory: Inventory, found: list[Record], files: bool) -> None:
    console, prefix = open_console(), inventory.store.prefix
    if files:
        for record in found:
            say(console, f"{record.name}  {record.identity[:12]}", "bold")
            say(console, f"{prefix}/{record.attempt}", "dim")
            print_table(console, columns_of("> |"), _files(inventory, record))
    else:
        print_table(console, COLUMNS, [_row(record) for record in found])
    for identity, message in inventory.damage.items():
        say(console, f"{identity[:12]}  {message}", "red")
    size = sum({record.attempt: record.bytes for record in found}.values())
    say(console, f"{counted(len(found), 'output')}, {write_bytes(size)} — store {prefix}", "bold")


def _row(record: Record) -> list[Text | str]:
    made = record.provenance
    holds = f"the bytes of {record.alias_of[:12]}" if record.alias_of else describe_facts(record.facts)
    return [
        record.name,
        Text(record.identity[:12], style="dim"),
        record.kind,
        write_bytes(record.bytes),
        made.ended[:16],  # to the minute
        made.who,
        made.experiment,
        Text(holds, style="dim"),
    ]


def _files(inventory: Inventory, record: Record) -> list[list[Text | str]]:
    try:
        return [[f"  {write_bytes(entry.size)}", entry.path] for entry in inventory.store.manifest(record)]
    except (CorruptOutput, CorruptRecord) as error:
        return [["", Text(str(error), style="red")]]
