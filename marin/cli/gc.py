"""``marin gc``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn
from rich.text import Text

from marin.cli.completions import complete_path
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json, ends
from marin.errors import BadField
from marin.numbers import write_bytes
from marin.report.table import Column, open_console, print_table
from marin.report.typed import marin
from marin.steps.scale import Scale
from marin.store.inventory import must_exist
from marin.store.store import Store, open_store
from marin.upkeep.gc.garbage import Garbage, GarbageKind
from marin.upkeep.gc.select import OLDER_THAN, GcOptions, Roots, Selection, roots_of
from marin.upkeep.gc.sweep import SweepResult, look, sweep

if TYPE_CHECKING:
    from marin.steps.experiment import Experiment

NAMED = 8  # pieces of a kind, the largest
HEADINGS = {
    GarbageKind.EXPIRED: ("output whose lifetime is over", "outputs whose lifetime is over"),
    GarbageKind.UNREACHABLE: (
        "output that no named experiment reaches",
        "outputs that no named experiment reaches",
    ),
    GarbageKind.NAMED: ("output that was named", "outputs that were named"),
    GarbageKind.REPLACED: ("attempt whose output was replaced", "attempts whose outputs were replaced"),
    GarbageKind.UNFINISHED: ("attempt that never committed", "attempts that never committed"),
    GarbageKind.WORK: ("step's work in progress", "steps' work in progress"),
    GarbageKind.LEFTOVERS: ("kind of leftovers", "kinds of leftovers"),
}
COLUMNS = (Column(), Column(spare=2), Column(right=True), Column(spare=1), Column())


@click.command()
@click.option(
    "--experiment",
    "experiments",
    multiple=True,
    metavar="FILE",
    help="Keep its results and what it pins (repeatable).",
    shell_complete=complete_path,
)
@click.option("--unreachable", is_flag=True, help="Also outputs that are no step of any --experiment.")
@click.option(
    "--scale",
    type=click.Choice(Scale, case_sensitive=False),
    help="Of the experiments; else both count.",
)
@click.option(
    "--only",
    "kinds",
    multiple=True,
    type=click.Choice([kind for kind in GarbageKind if kind is not GarbageKind.NAMED], case_sensitive=False),
    help="Only this (repeatable).",
)
@click.option(
    "--older-than",
    metavar="DAYS",
    type=click.FloatRange(min=0),
    default=OLDER_THAN,
    help=f"Of what has no lifetime of its own, leave what is younger; {OLDER_THAN:g} where it is not given.",
)
@click.option(
    "--now", "at_once", is_flag=True, help="Without waiting any days; work in progress only if it is asked for."
)
@click.option("--delete", is_flag=True, help="Do it, having said what goes.")
@click.option("--every", is_flag=True, help="List every piece, not the largest.")
@PREFIX
@JSON
@ends
def command(
    experiments: tuple[str, ...],
    unreachable: bool,
    scale: Scale | None,
    kinds: tuple[GarbageKind, ...],
    older_than: float,
    at_once: bool,
    delete: bool,
    every: bool,
    prefix: str,
    as_json: bool,
) -> int:
    """What nothing needs any more, and what deleting it would free. Deletes only with --delete.

    That is: outputs whose lifetime is over, data that a rebuild replaced, attempts that never committed, and forgotten
    work in progress. It is never what a run needs, shares its files with an output that stays, or is a result or a pin
    of a named experiment. Records of what is deleted stay, for lineage.

    Exit code 5 if the store did not let something go.
    """
    unreachable = unreachable or GarbageKind.UNREACHABLE in kinds
    if unreachable and not experiments:
        raise BadField("--unreachable needs every experiment that is to stay: --experiment FILE, once for each")
    store = open_store(prefix)
    must_exist(store)
    asked = GcOptions(
        roots=_roots(experiments, scale),
        older_than=older_than,
        unreachable=unreachable,
        kinds=frozenset(kinds or GarbageKind),
        at_once=at_once,
    )
    return take_away(store, asked, delete=delete, every=every, as_json=as_json)[0]


def take_away(store: Store, asked: GcOptions, *, delete: bool, every: bool, as_json: bool) -> tuple[int, Selection]:
    """Say what goes, and let it go if that is asked for. Returns the exit code, and what was said."""
    console = open_console()
    if not delete:
        found = look(store, asked)
        if as_json:
            echo_json(_as_json(store.prefix, found, None))
        else:
            _print(console, found, store.prefix, every=every)
            if found.goes:
                again = marin(str(click.get_current_context().info_name), *sys.argv[2:], "--delete")
                console.print(Text(f"nothing was deleted; to do it: {again}"), soft_wrap=True)
        return Exit.OK, found
    said: list[Selection] = []

    def tell(found: Selection) -> None:
        said.append(found)
        if not as_json:
            _print(console, found, store.prefix, every=every)

    with _Progress() as progress:

        def begin(found: Selection) -> None:
            tell(found)
            progress.begin(found)

        swept = sweep(store, asked, begin, done=progress.done, wait=lambda said: click.echo(said, err=True))
    if as_json:
        echo_json(_as_json(store.prefix, said[0], swept))
    else:
        for name, why in swept.left.items():
            console.print(Text(f"stays after all: {name}: {why}", style="yellow"), soft_wrap=True)
        for name, why in swept.refused.items():
            console.print(Text(f"refused: {name}: {why}", style="red"), soft_wrap=True)
        if said[0].goes:
            console.print(Text(f"deleted: {_amount(swept.gone)}", style="bold"), soft_wrap=True)
    return (Exit.STORE if swept.refused else Exit.OK), said[0]


class _Progress:
    """By bytes, on a terminal that somebody looks at; not in a pipe."""

    def __init__(self) -> None:
        console = open_console(stderr=True)
        columns = (BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True) if console.is_terminal else None
        self._stack = ExitStack()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin(self, found: Selection) -> None:
        if self._bar is not None and found.goes:
            self._stack.enter_context(self._bar)
            self._bar.add_task("", total=sum(piece.bytes for piece in found.goes))

    def done(self, piece: Garbage) -> None:
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], piece.bytes)


def _roots(files: Sequence[str], scale: Scale | None) -> Roots:
    from marin.steps.experiment_file import built_by, load_build

    built: list[Experiment] = []
    for file in files:
        build, source = load_build(file)
        built += [built_by(build, source, each) for each in ([scale] if scale is not None else Scale)]
    return roots_of(built)


def _print(console: Console, found: Selection, prefix: str, *, every: bool) -> None:
    for kind in GarbageKind:
        pieces = sorted((piece for piece in found.goes if piece.kind is kind), key=lambda piece: -piece.bytes)
        if not pieces:
            continue
        one, many = HEADINGS[kind]
        days = sorted(_day(piece) for piece in pieces)
        span = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
        title = f"{len(pieces)} {one if len(pieces) == 1 else many}: {_amount(pieces)}, last touched {span}"
        alike = pieces[0].why if len({piece.why for piece in pieces}) == 1 else ""
        console.print(Text(title, style="bold"), soft_wrap=True)
        if alike:
            console.print(Text(f"  {alike}", style="dim"), soft_wrap=True)
        shown = pieces if every else pieces[:NAMED]
        print_table(console, COLUMNS, [_row(piece, "" if alike else piece.why) for piece in shown])
        if len(shown) < len(pieces):
            console.print(f"  and {len(pieces) - len(shown)} more; --every lists them", soft_wrap=True)
        console.print()
    for directory in found.unknown:
        line = f"stays: {directory} is of a step that was never leased here; delete it by hand if you know what it is"
        console.print(Text(line, style="yellow"), soft_wrap=True)
    outputs = sum(found.stays.values())
    stays = f"{outputs} output{'' if outputs == 1 else 's'}, {write_bytes(found.bytes)}"
    console.print(Text(f"stays: {stays}"), soft_wrap=True)
    print_table(
        console,
        (Column(right=True), Column()),
        [[f"  {count}", reason] for reason, count in found.stays.most_common()],
    )
    frees = f"frees {_amount(found.goes)}" if found.goes else "nothing to free"
    console.print(Text(f"{frees} — store {prefix}", style="bold"), soft_wrap=True)


def _row(piece: Garbage, why: str) -> list[Text | str]:
    identity = piece.identities[0][:12] if len(piece.identities) == 1 else ""
    return [
        f"  {piece.name}",
        Text(identity, style="dim"),
        write_bytes(piece.bytes),
        _day(piece),
        Text(why, style="dim"),
    ]


def _day(piece: Garbage) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(piece.since)) if piece.since else ""


def _amount(pieces: Sequence[Garbage]) -> str:
    files = sum(piece.files for piece in pieces)
    return f"{write_bytes(sum(piece.bytes for piece in pieces))} in {files:,} file{'' if files == 1 else 's'}"


def _as_json(prefix: str, found: Selection, swept: SweepResult | None) -> dict[str, Any]:
    gone = None if swept is None else {piece.key for piece in swept.gone}
    return {
        "store": prefix,
        "deleted": swept is not None,
        "bytes": sum(piece.bytes for piece in found.goes),
        "files": sum(piece.files for piece in found.goes),
        "goes": [
            {
                "kind": piece.kind,
                "name": piece.name,
                "identities": piece.identities,
                "why": piece.why,
                "bytes": piece.bytes,
                "files": piece.files,
                "since": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(piece.since)) if piece.since else None,
                "folders": piece.folders,
                "objects": piece.objects,
                "gone": gone is not None and piece.key in gone,
            }
            for piece in found.goes
        ],
        "stays": {reason: count for reason, count in found.stays.most_common()},
        "unknown": found.unknown,
        "named": found.named,
        "left": {} if swept is None else swept.left,
        "refused": {} if swept is None else swept.refused,
    }
