"""``marin verify``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from marin.cli.completions import complete_output
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json, ends
from marin.errors import BadPrefix, StoreFull
from marin.numbers import write_bytes
from marin.report.table import open_console
from marin.store.files.verify import Check
from marin.store.inventory import Inventory, read_inventory
from marin.store.lineage import read_lineage
from marin.store.lookup import SHORTEST, outputs_called, unknown
from marin.store.record import Record
from marin.store.store import Store, open_store
from marin.store.suspects import Suspects, suspects_of
from marin.store.verifications import last_verified, note_verified


@click.command()
@click.argument("steps", nargs=-1, metavar="[STEP]...", shell_complete=complete_output)
@click.option("--sizes-only", is_flag=True, help="Names and sizes, without reading a byte.")
@click.option("--bytes", "every_byte", is_flag=True, help="Read every byte, also where the store keeps checksums.")
@PREFIX
@JSON
@ends
def command(steps: tuple[str, ...], sizes_only: bool, every_byte: bool, prefix: str, as_json: bool) -> int:
    """Compare committed outputs with their manifests: missing, changed, truncated and extra files.

    All of them, or only STEP: op/label, label, operator, identity or path. On a disk every byte is read; on gs:// and
    s3:// the store's own checksums are compared. Says what was made from a damaged output since it was last known to
    be right. Exit code 5 if one is damaged.
    """
    if sizes_only and every_byte:
        raise click.UsageError("--sizes-only reads nothing, --bytes reads everything; give one of them")
    check = Check.SIZES if sizes_only else Check.BYTES if every_byte else Check.CHECKSUMS
    inventory = read_inventory(open_store(prefix))
    wrong = {identity: [error] for identity, error in inventory.damage.items() if _is_asked(identity, steps)}
    records = _asked(inventory, steps, wrong)
    right: list[Record] = []
    damaged: list[Record] = []
    edited = inventory.store.disagreements(records)
    for record in _with_progress(records):
        found = inventory.store.verify(record, check)
        if found:
            damaged.append(record)
        if record.identity in edited:
            found.insert(0, edited[record.identity])
        if found:
            wrong[_called(record)] = found
        else:
            right.append(record)
    checked = len(records)
    suspects = _suspects(inventory.store, damaged)
    _note(inventory, check, right)
    if as_json:
        made = {name: [_called(record) for record in held.made_since] for name, held in suspects.items()}
        echo_json({"checked": checked, "wrong": wrong, "made_from_it": made})
        return Exit.STORE if wrong else Exit.OK
    console = open_console()
    for name, found in wrong.items():
        console.print(Text(name, style="red"), soft_wrap=True)
        for line in found:
            console.print(Text(f"    {line}"), soft_wrap=True)
        if name in suspects:
            console.print(Text(f"    {_about(suspects[name])}"), soft_wrap=True)
    size = sum({record.attempt: record.bytes for record in records}.values())
    how = {
        Check.SIZES: "names and sizes of",
        Check.CHECKSUMS: "checksums of" if inventory.store.objects.is_remote else "every byte of",
        Check.BYTES: "every byte of",
    }[check]
    said = (
        f"{how} {checked} outputs ({write_bytes(size)}) checked, {len(wrong)} damaged — store {inventory.store.prefix}"
    )
    console.print(Text(said), soft_wrap=True)
    if wrong:
        console.print("make a damaged output again with --rebuild STEP when running its experiment", soft_wrap=True)
    if any(held.made_since for held in suspects.values()):
        console.print(
            "what may have been made from the damage is made again by --rebuild too; if other bytes come out, what was "
            "made from it follows. What cannot be made again: `marin revoke STEP --because REASON`",
            soft_wrap=True,
        )
    return Exit.STORE if wrong else Exit.OK


def _called(record: Record) -> str:
    return f"{record.name} {record.identity[:12]}"


def _suspects(store: Store, damaged: list[Record]) -> dict[str, Suspects]:
    """What was made from each, by what it is called."""
    if not damaged:
        return {}
    lineage, verified = read_lineage(store), last_verified(store)
    return {_called(record): suspects_of(lineage, record, verified) for record in damaged}


def _about(suspects: Suspects) -> str:
    right = f"last known to be right on {suspects.right_on}"
    if not suspects.made_since:
        return f"{right}; nothing was made from it since without a check of every byte"
    names = ", ".join(_called(record) for record in suspects.made_since)
    return f"{right}; may have been made from the damage since: {names}"


def _note(inventory: Inventory, check: Check, right: list[Record]) -> None:
    """So that `marin audit` knows, and a plan need not read again what was only touched. Who may only read does not."""
    store = inventory.store
    if check is Check.SIZES:
        return
    with suppress(BadPrefix, StoreFull):
        note_verified(store, check, [record.attempt for record in right])
        for record in right:
            if record.stamp and store.output(record).is_local and store.output(record).stamp() != record.stamp:
                store.note_stamp(record)


def _is_asked(identity: str, steps: tuple[str, ...]) -> bool:
    return not steps or any(len(step) >= SHORTEST and identity.startswith(step) for step in steps)


def _asked(inventory: Inventory, steps: tuple[str, ...], wrong: dict[str, list[str]]) -> list[Record]:
    """Raises UnknownStep for a name that neither an output nor an unreadable record has."""
    if not steps:
        return inventory.newest_first()
    found: dict[str, Record] = {}
    for step in steps:
        named = outputs_called(step, inventory.newest_first(), inventory.store.prefix)
        if not named and not any(identity.startswith(step) for identity in wrong):
            raise unknown(step, inventory.records.values(), inventory.store.prefix, inventory.damage.values())
        found |= {record.identity: record for record in named}
    return list(found.values())


def _with_progress(records: list[Record]) -> Iterator[Record]:
    """By bytes, on a terminal that somebody looks at; not in a pipe."""
    console = open_console(stderr=True)
    if not console.is_terminal:
        yield from records
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=sum(record.bytes for record in records))
        for record in records:
            progress.update(task, description=record.name)
            yield record
            progress.advance(task, record.bytes)
