"""``marin verify``."""

from __future__ import annotations

from contextlib import suppress

import click

from marin.cli.completions import complete_output
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json, ends
from marin.errors import BadPrefix, StoreFull
from marin.report.table import byte_bar, open_console, say
from marin.store.files.verify import Check
from marin.store.inventory import Inventory, read_inventory
from marin.store.lineage import read_lineage
from marin.store.lookup import SHORTEST, outputs_called, unknown
from marin.store.numbers import write_bytes
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
    store = inventory.store
    wrong = {identity: [error] for identity, error in inventory.damage.items() if _is_named(identity, steps)}
    records = _named(inventory, steps, wrong)
    right: list[Record] = []
    damaged: list[Record] = []
    edited = store.disagreements(records)
    with byte_bar(open_console(stderr=True), sum(record.bytes for record in records)) as advance:
        for record in records:
            found = store.verify(record, check)
            if found:
                damaged.append(record)
            if record.identity in edited:
                found.insert(0, edited[record.identity])
            if found:
                wrong[_called(record)] = found
            else:
                right.append(record)
            advance(record.bytes)
    suspects: dict[str, Suspects] = {}  # what was made from each damaged output
    if damaged:
        lineage, verified = read_lineage(store), last_verified(store)
        suspects = {_called(record): suspects_of(lineage, record, verified) for record in damaged}
    _note(store, check, right)
    if as_json:
        made = {name: [_called(record) for record in each.made_since] for name, each in suspects.items()}
        echo_json({"checked": len(records), "wrong": wrong, "made_from_it": made})
        return Exit.STORE if wrong else Exit.OK
    console = open_console()
    for name, found in wrong.items():
        say(console, name, "red")
        for line in found:
            say(console, f"    {line}")
        if name in suspects:
            say(console, f"    {_about(suspects[name])}")
    size = write_bytes(sum({record.attempt: record.bytes for record in records}.values()))
    how = {
        Check.SIZES: "names and sizes of",
        Check.CHECKSUMS: "checksums of" if store.objects.is_remote else "every byte of",
        Check.BYTES: "every byte of",
    }[check]
    say(console, f"{how} {len(records)} outputs ({size}) checked, {len(wrong)} damaged — store {store.prefix}")
    if wrong:
        say(console, "make a damaged output again with --rebuild STEP when running its experiment")
    if any(each.made_since for each in suspects.values()):
        say(
            console,
            "what may have been made from the damage is made again by --rebuild too; if other bytes come out, what was "
            "made from it follows. What cannot be made again: `marin revoke STEP --because REASON`",
        )
    return Exit.STORE if wrong else Exit.OK


def _called(record: Record) -> str:
    return f"{record.name} {record.identity[:12]}"


def _about(suspects: Suspects) -> str:
    right = f"last known to be right on {suspects.right_on}"
    if not suspects.made_since:
        return f"{right}; nothing was made from it since without a check of every byte"
    names = ", ".join(_called(record) for record in suspects.made_since)
    return f"{right}; may have been made from the damage since: {names}"


def _note(store: Store, check: Check, right: list[Record]) -> None:
    """So that `marin audit` knows, and a plan need not read again what was only touched. Who may only read does not."""
    if check is Check.SIZES:
        return
    with suppress(BadPrefix, StoreFull):
        note_verified(store, check, [record.attempt for record in right])
        for record in right:
            if record.stamp and store.output(record).is_local and store.output(record).stamp() != record.stamp:
                store.note_stamp(record)


def _is_named(identity: str, steps: tuple[str, ...]) -> bool:
    return not steps or any(len(step) >= SHORTEST and identity.startswith(step) for step in steps)


def _named(inventory: Inventory, steps: tuple[str, ...], wrong: dict[str, list[str]]) -> list[Record]:
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
