"""``marin rm``."""

from __future__ import annotations

import click
from rich.text import Text

from marin.cli.completions import complete_output
from marin.cli.exits import Exit
from marin.cli.gc import take_away
from marin.cli.options import JSON, PREFIX, ends
from marin.errors import BadField
from marin.report.table import open_console
from marin.store.inventory import Inventory, read_inventory
from marin.store.lineage import ADOPT
from marin.store.lookup import output_called
from marin.store.record import Record
from marin.store.store import open_store
from marin.upkeep.gc.garbage import GarbageKind
from marin.upkeep.gc.select import GcOptions, KeepReason

READERS = 5  # outputs made from it that are named


@click.command()
@click.argument("steps", metavar="STEP...", nargs=-1, required=True, shell_complete=complete_output)
@click.option("--even-if-read", is_flag=True, help="Also what something that stays was made from.")
@click.option("--latest", is_flag=True, help="The newest output where several have the name.")
@click.option("--delete", is_flag=True, help="Do it, having said what goes.")
@PREFIX
@JSON
@ends
def command(steps: tuple[str, ...], even_if_read: bool, latest: bool, delete: bool, prefix: str, as_json: bool) -> int:
    """Take committed outputs away, now, as `marin gc` does: what they were and what was made from them stays known.

    Deletes only with --delete. An output stays that a run under way needs, that another output shares its files with,
    or that something was made from which stays itself, unless --even-if-read. Exit code 4 if one stays.
    """
    inventory = read_inventory(open_store(prefix))
    asked = {record.identity: record for name in steps for record in [output_called(inventory, name, latest=latest)]}
    adopted = [record.name for record in asked.values() if record.op == ADOPT]
    if adopted and not even_if_read:
        raise BadField(f"{', '.join(adopted)}: nobody can make adopted data again; take it away with --even-if-read")
    about = GcOptions(
        kinds=frozenset({GarbageKind.NAMED}), at_once=True, named=frozenset(asked), though_read=even_if_read
    )
    code, found = take_away(inventory.store, about, delete=delete, every=True, as_json=as_json)
    if not as_json:
        _print(inventory, asked, found.named)
    return code or (Exit.EXPERIMENT if found.named else Exit.OK)


def _print(inventory: Inventory, asked: dict[str, Record], stays: dict[str, KeepReason]) -> None:
    console = open_console()
    for identity, record in asked.items():
        readers = [reader.name for reader in inventory.newest_first() if _reads(reader, record)]
        names = ", ".join(readers[:READERS]) + (f" and {len(readers) - READERS} more" if readers[READERS:] else "")
        if identity in stays:
            why = (
                f"{stays[identity]} ({names}); --even-if-read"
                if stays[identity] is KeepReason.READ
                else stays[identity]
            )
            console.print(Text(f"stays: {record.name}: {why}", style="yellow"), soft_wrap=True)
        elif readers:
            line = f"was made from {record.name} and stays: {names}"
            console.print(Text(line, style="yellow"), soft_wrap=True)


def _reads(reader: Record, record: Record) -> bool:
    return any((held.identity, held.root) == (record.identity, record.root) for held in reader.inputs)
