"""``marin gc``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import click
from msgspec.structs import asdict
from rich.console import Console
from rich.text import Text

from marin.cli.completions import complete_output, complete_path
from marin.cli.exits import Exit
from marin.cli.options import JSON, LATEST, PREFIX, echo_json, existing_store
from marin.cli.parameters import argument, choice, command_line, flag, option
from marin.errors import BadField
from marin.report.table import byte_bar, columns_of, open_console, print_table, say
from marin.report.typed import marin
from marin.steps.experiment_file import built_by, load_build
from marin.steps.scale import Scale
from marin.store.inventory import read_inventory
from marin.store.lineage import ADOPT
from marin.store.lookup import output_called
from marin.store.numbers import counted, listed, write_bytes
from marin.store.store import Store, open_store
from marin.upkeep.gc.garbage import Garbage, GarbageKind
from marin.upkeep.gc.select import OLDER_THAN, GcOptions, KeepReason, Selection, roots_of
from marin.upkeep.gc.sweep import SweepResult, look, sweep

NAMED = 8  # the largest pieces of a kind
READERS = 5  # outputs built from a named one
HEADINGS = {
    GarbageKind.EXPIRED: ("output whose lifetime is over", "outputs whose lifetime is over"),
    GarbageKind.UNREACHABLE: ("output that no named experiment reaches", "outputs that no named experiment reaches"),
    GarbageKind.NAMED: ("output that was named", "outputs that were named"),
    GarbageKind.REPLACED: ("attempt whose output was replaced", "attempts whose outputs were replaced"),
    GarbageKind.UNFINISHED: ("attempt that never committed", "attempts that never committed"),
    GarbageKind.WORK: ("step's work in progress", "steps' work in progress"),
    GarbageKind.LEFTOVERS: ("kind of leftovers", "kinds of leftovers"),
}
SHOWN = ("kind", "name", "identities", "why", "bytes", "files", "since", "folders", "objects")  # fields of --json
COLUMNS = columns_of("|  ?2 | > |  ?1 |")


@command_line()
def command(
    steps: tuple[str, ...] = argument(metavar="[STEP]...", nargs=-1, complete=complete_output),
    experiments: tuple[str, ...] = option(
        "--experiment",
        "Keep the results and pins of this experiment (repeatable).",
        multiple=True,
        metavar="FILE",
        complete=complete_path,
    ),
    unreachable: bool = flag("--unreachable", "Also take outputs that are no step of any --experiment."),
    scale: Scale | None = choice("--scale", Scale, "Scale of the experiments; without it, both scales count."),
    kinds: tuple[GarbageKind, ...] = choice("--only", GarbageKind, "Only this group (repeatable).", multiple=True),
    older_than: float = option(
        "--older-than",
        "Leave garbage younger than DAYS, unless it has a lifetime of its own.",
        metavar="DAYS",
        type=click.FloatRange(min=0),
        default=OLDER_THAN,
    ),
    at_once: bool = flag("--now", "Take garbage of any age; work in progress only together with --only work."),
    delete: bool = flag("--delete", "Delete, after listing everything."),
    every: bool = flag("--every", "List every piece, not only the largest."),
    even_if_read: bool = flag(
        "--even-if-read", "Take STEP although other outputs were built from it, or although it is adopted."
    ),
    latest: bool = LATEST,
    prefix: str = PREFIX,
    as_json: bool = JSON,
) -> int:
    """List outputs that nothing needs, and the space that deleting them would free. Deletes only with --delete.

    It lists outputs whose lifetime is over, data that a rebuild replaced, attempts that never committed, and forgotten
    work in progress. It keeps outputs that a run needs, files that an output shares with another one that stays, and
    the results and pins of the named experiments. Records of deleted outputs stay, for lineage.

    With STEP (op/label, label, operator, identity, path) it takes only these outputs, at once. An output stays if a
    running run needs it, or if another output shares its files. It also stays if an output that stays was built from
    it, unless you give --even-if-read.

    Exit code 5 if the store refused to delete something, 4 if a named output stays.
    """
    if steps:
        others = experiments or unreachable or set(kinds) - {GarbageKind.NAMED} or at_once or scale is not None
        if others or older_than != OLDER_THAN:
            raise click.UsageError(
                "a STEP is deleted at any age: leave out STEP, or the options that choose among outputs"
            )
        return _take_named(steps, prefix, even_if_read, latest, delete=delete, as_json=as_json)
    if even_if_read or latest:
        raise click.UsageError("--even-if-read and --latest need the name of an output: marin gc STEP")
    unreachable = unreachable or GarbageKind.UNREACHABLE in kinds
    if unreachable and not experiments:
        raise BadField("--unreachable needs every experiment to keep: give --experiment FILE once for each")
    scales = [scale] if scale is not None else list(Scale)
    options = GcOptions(
        roots=roots_of(built_by(*load_build(file), each) for file in experiments for each in scales),
        older_than=older_than,
        unreachable=unreachable,
        kinds=frozenset(kinds or GarbageKind),
        at_once=at_once,
    )
    return _take_away(existing_store(prefix), options, delete=delete, every=every, as_json=as_json)[0]


def _take_named(
    steps: tuple[str, ...], prefix: str, even_if_read: bool, latest: bool, *, delete: bool, as_json: bool
) -> int:
    inventory = read_inventory(open_store(prefix))
    named = {record.identity: record for name in steps for record in [output_called(inventory, name, latest=latest)]}
    adopted = [record.name for record in named.values() if record.op == ADOPT]
    if adopted and not even_if_read:
        raise BadField(f"{', '.join(adopted)}: nobody can make adopted data again; add --even-if-read to delete it")
    kinds = frozenset({GarbageKind.NAMED})
    options = GcOptions(kinds=kinds, at_once=True, named=frozenset(named), though_read=even_if_read)
    code, found = _take_away(inventory.store, options, delete=delete, every=True, as_json=as_json)
    for identity, record in named.items() if not as_json else ():
        reads = [(each.name, {(read.identity, read.root) for read in each.inputs}) for each in inventory.newest_first()]
        readers = listed([name for name, read in reads if (identity, record.root) in read], READERS)
        if identity in found.named:
            reason = found.named[identity]
            way_on = f" ({readers}); --even-if-read" if reason is KeepReason.READ else ""
            say(open_console(), f"stays: {record.name}: {reason}{way_on}", "yellow")
        elif readers:
            say(open_console(), f"stays, although built from {record.name}: {readers}", "yellow")
    return code or (Exit.EXPERIMENT if found.named else Exit.OK)


def _take_away(store: Store, options: GcOptions, *, delete: bool, every: bool, as_json: bool) -> tuple[int, Selection]:
    """List the garbage, and delete it if asked to. Return the exit code and the selection."""
    console = open_console()
    if not delete:
        found = look(store, options)
        if as_json:
            echo_json(_as_json(store.prefix, found, None))
        else:
            _print(console, found, store.prefix, every=every)
            if found.goes:
                again = marin(str(click.get_current_context().info_name), *sys.argv[2:], "--delete")
                say(console, f"nothing was deleted; to delete: {again}")
        return Exit.OK, found
    selections: list[Selection] = []
    with ExitStack() as stack:

        def begin(found: Selection) -> None:
            selections.append(found)
            if not as_json:
                _print(console, found, store.prefix, every=every)
            if found.goes:
                bar = byte_bar(open_console(stderr=True), sum(piece.bytes for piece in found.goes))
                advance.append(stack.enter_context(bar))

        advance: list[Any] = []
        swept = sweep(
            store,
            options,
            begin,
            on_taken=lambda piece: advance[0](piece.bytes),
            on_message=lambda message: click.echo(message, err=True),
        )
    [found] = selections
    if as_json:
        echo_json(_as_json(store.prefix, found, swept))
    else:
        for name, why in swept.left.items():
            say(console, f"stays after all: {name}: {why}", "yellow")
        for name, why in swept.refused.items():
            say(console, f"refused: {name}: {why}", "red")
        if found.goes:
            say(console, f"deleted: {_amount(swept.gone)}", "bold")
    return (Exit.STORE if swept.refused else Exit.OK), found


def _print(console: Console, found: Selection, prefix: str, *, every: bool) -> None:
    for kind in GarbageKind:
        pieces = sorted((piece for piece in found.goes if piece.kind is kind), key=lambda piece: -piece.bytes)
        if not pieces:
            continue
        days = sorted(_day(piece) for piece in pieces)
        span = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
        say(console, f"{counted(len(pieces), *HEADINGS[kind])}: {_amount(pieces)}, last touched {span}", "bold")
        alike = pieces[0].why if len({piece.why for piece in pieces}) == 1 else ""
        if alike:
            say(console, f"  {alike}", "dim")
        shown, rows = pieces if every else pieces[:NAMED], list[list[Text | str]]()
        for piece in shown:
            identity = piece.identities[0][:12] if len(piece.identities) == 1 else ""
            dim = [Text(text, style="dim") for text in (identity, "" if alike else piece.why)]
            rows.append([f"  {piece.name}", dim[0], write_bytes(piece.bytes), _day(piece), dim[1]])
        print_table(console, COLUMNS, rows)
        if len(shown) < len(pieces):
            say(console, f"  and {len(pieces) - len(shown)} more; --every lists them")
        console.print()
    for directory in found.unknown:
        line = f"stays: {directory}: no run began this step here; if nobody needs the folder, delete it by hand"
        say(console, line, "yellow")
    say(console, f"stays: {counted(sum(found.stays.values()), 'output')}, {write_bytes(found.bytes)}")
    reasons = [[f"  {count}", reason] for reason, count in found.stays.most_common()]
    print_table(console, columns_of("> |"), reasons)
    frees = f"frees {_amount(found.goes)}" if found.goes else "nothing to free"
    say(console, f"{frees} — store {prefix}", "bold")


def _day(piece: Garbage) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(piece.since)) if piece.since else ""


def _amount(pieces: Sequence[Garbage]) -> str:
    files = counted(sum(piece.files for piece in pieces), "file")
    return f"{write_bytes(sum(piece.bytes for piece in pieces))} in {files}"


def _as_json(prefix: str, found: Selection, swept: SweepResult | None) -> dict[str, Any]:
    def shown(pieces: Sequence[Garbage]) -> list[dict[str, Any]]:
        return [{name: getattr(piece, name) for name in SHOWN} for piece in pieces]

    selection = {**asdict(found), "goes": shown(found.goes)}
    return {"store": prefix, "selection": selection, "swept": swept and {**asdict(swept), "gone": shown(swept.gone)}}
