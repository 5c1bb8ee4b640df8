"""``marin rm``."""

from __future__ import annotations

import click

from marin.cli.completions import complete_output
from marin.cli.exits import Exit
from marin.cli.gc import take_away
from marin.cli.options import JSON, LATEST, PREFIX, ends
from marin.errors import BadField
from marin.report.table import open_console, say
from marin.store.inventory import read_inventory
from marin.store.lineage import ADOPT
from marin.store.lookup import output_called
from marin.store.numbers import listed
from marin.store.record import Record
from marin.store.store import open_store
from marin.upkeep.gc.garbage import GarbageKind
from marin.upkeep.gc.select import GcOptions, KeepReason

READERS = 5  # outputs made from it that are named


@click.command()
@click.argument("steps", metavar="STEP...", nargs=-1, required=True, shell_complete=complete_output)
@click.option("--even-if-read", is_flag=True, help="Also what something that stays was made from.")
@LATEST
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
    named = {record.identity: record for name in steps for record in [output_called(inventory, name, latest=latest)]}
    adopted = [record.name for record in named.values() if record.op == ADOPT]
    if adopted and not even_if_read:
        raise BadField(f"{', '.join(adopted)}: nobody can make adopted data again; take it away with --even-if-read")
    kinds = frozenset({GarbageKind.NAMED})
    options = GcOptions(kinds=kinds, at_once=True, named=frozenset(named), though_read=even_if_read)
    code, found = take_away(inventory.store, options, delete=delete, every=True, as_json=as_json)
    if not as_json:
        for identity, record in named.items():
            readers = listed([each.name for each in inventory.newest_first() if _reads(each, record)], READERS)
            if identity in found.named:
                reason = found.named[identity]
                way_on = f" ({readers}); --even-if-read" if reason is KeepReason.READ else ""
                say(open_console(), f"stays: {record.name}: {reason}{way_on}", "yellow")
            elif readers:
                say(open_console(), f"was made from {record.name} and stays: {readers}", "yellow")
    return code or (Exit.EXPERIMENT if found.named else Exit.OK)


def _reads(reader: Record, record: Record) -> bool:
    return any((entry.identity, entry.root) == (record.identity, record.root) for entry in reader.inputs)
