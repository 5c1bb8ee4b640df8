"""``marin mirror``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn
from rich.text import Text

from marin.cli.completions import complete_output, complete_path
from marin.cli.exits import Exit
from marin.cli.options import JSON, echo_json, ends
from marin.errors import StoreError
from marin.numbers import write_bytes
from marin.plan.cost.egress import Route
from marin.report.table import Column, open_console, print_table
from marin.store.record import Record
from marin.store.region import MACHINE, bucket_region
from marin.store.store import open_store
from marin.upkeep.mirror.copy import MirroredOutput, mirror
from marin.upkeep.mirror.plan import Mirroring, plan_mirroring

COLUMNS = (
    Column(),
    Column(heading="output"),
    Column(heading="identity", spare=2),
    Column(heading="files", right=True, spare=1),
    Column(heading="size", right=True),
)


@click.command()
@click.argument("steps", nargs=-1, required=True, metavar="STEP...", shell_complete=complete_output)
@click.option("--from", "prefix", default="store", show_default=True, help="The store.", shell_complete=complete_path)
@click.option("--to", "target", required=True, help="The store to copy to.", shell_complete=complete_path)
@click.option("--with-inputs", is_flag=True, help="And everything that they were made from.")
@click.option("--dry-run", is_flag=True, help="Say what would be copied, and how much; copy nothing.")
@JSON
@ends
def command(steps: tuple[str, ...], prefix: str, target: str, with_inputs: bool, dry_run: bool, as_json: bool) -> int:
    """Copy committed outputs to another store and verify every byte; identity, digest and provenance stay.

    STEP is op/label, label, operator, identity or path. An experiment on the other store then runs nothing for them.
    What is there already is not copied; a copy that was killed goes on where it was. Exit code 5 if an output is
    damaged, 3 if it is revoked.
    """
    plan = plan_mirroring(open_store(prefix), open_store(target), steps, with_inputs=with_inputs)
    where = _Where(plan)
    console = open_console()
    if not as_json:
        _print_plan(console, plan, where)
    if dry_run:
        if as_json:
            echo_json(_as_json(plan, where, [], dry_run=True))
        else:
            console.print("dry run: nothing was copied")
        return Exit.OK
    began, done = time.monotonic(), list[MirroredOutput]()
    # Where both are one terminal, one console keeps the bar below the lines.
    for held in _with_progress(plan, console if console.is_terminal and not as_json else open_console(stderr=True)):
        done.append(held)
        if not as_json:
            console.print(Text(_line(held)), soft_wrap=True)
    if as_json:
        echo_json(_as_json(plan, where, done, dry_run=False))
    elif done:
        size = sum(held.tally.copied_bytes for held in done)
        console.print(
            Text(
                f"{_count(sum(held.copied for held in done), 'output')} mirrored, {write_bytes(size)} copied in "
                f"{time.monotonic() - began:.1f} s, every byte verified — store {plan.target.prefix}"
            ),
            soft_wrap=True,
        )
    return Exit.OK


def _with_progress(plan: Mirroring, watched: Console) -> Iterator[MirroredOutput]:
    """By bytes, on a terminal that somebody looks at; not in a pipe."""

    def tell(text: str) -> None:
        watched.print(Text(text, style="yellow"), soft_wrap=True)

    if not watched.is_terminal:
        yield from mirror(plan, tell)
        return
    columns = (BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=watched, transient=True) as progress:
        task = progress.add_task("", total=plan.bytes)
        yield from mirror(plan, tell, lambda count: progress.advance(task, count))


class _Where:
    """The regions of the two stores, as far as their buckets say them. unknown: why one does not."""

    def __init__(self, plan: Mirroring) -> None:
        self.unknown = ""
        self.route: Route | None = None
        try:
            here, there = bucket_region(plan.source.prefix), bucket_region(plan.target.prefix)
        except StoreError as error:
            self.unknown = str(error)
            return
        if here is not None or there is not None:
            self.route = Route(here or MACHINE, there or MACHINE)

    def describe(self) -> str:
        """The way that the bytes take; "" where both stores are on this machine."""
        if self.unknown:
            return f"between which regions is unknown: {self.unknown}"
        if self.route is None:
            return ""
        return f"within {self.route.source}" if self.route.source.is_where(self.route.target) else str(self.route)


def _print_plan(console: Console, plan: Mirroring, where: _Where) -> None:
    console.print(Text(f"{plan.source.prefix} → {plan.target.prefix}", style="bold"), soft_wrap=True)
    print_table(
        console,
        COLUMNS,
        [
            *([Text("there", style="dim"), *_cells(record)] for record in plan.there),
            *(
                [Text("alias" if _shares(plan, record) else "copy", style="cyan"), *_cells(record)]
                for record in plan.todo
            ),
        ],
    )
    for note in plan.notes:
        console.print(Text(note, style="yellow"), soft_wrap=True)
    if not plan.todo:
        console.print(Text("nothing to copy: every output is there"))
        return
    way = where.describe()
    said = f"{_count(len(plan.todo), 'output')}, {write_bytes(plan.bytes)} to copy{f': {way}' if way else ''}"
    console.print(Text(said), soft_wrap=True)


def _cells(record: Record) -> list[Text | str]:
    return [record.name, record.identity[:12], f"{record.files:,}", write_bytes(record.bytes)]


def _shares(plan: Mirroring, record: Record) -> bool:
    return bool(record.alias_of) and record.alias_of in {held.identity for held in (*plan.todo, *plan.there)}


def _line(held: MirroredOutput) -> str:
    name, tally = held.record.name, held.tally
    if not held.copied:
        return f"· {name}  another call brought it meanwhile"
    if held.record.alias_of:
        return f"≡ {name}  shares {held.record.attempt}"
    resumed = f", {tally.resumed_files:,} more were there from an earlier call" if tally.resumed_files else ""
    return f"✓ {name}  {write_bytes(tally.copied_bytes)}, {_count(tally.copied_files, 'file')}{resumed}"


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _as_json(plan: Mirroring, where: _Where, done: list[MirroredOutput], *, dry_run: bool) -> dict[str, Any]:
    brought = {held.record.identity: held for held in done}

    def described(record: Record, state: str) -> dict[str, Any]:
        held = brought.get(record.identity)
        here = {"step": record.name, "identity": record.identity, "root": record.root, "bytes": record.bytes}
        if held is None:
            return {**here, "state": state, "output": record.attempt if state == "there" else None}
        tally = held.tally
        return {
            **here,
            "state": "mirrored" if held.copied else "there",
            "output": held.record.attempt,
            "copied": {"bytes": tally.copied_bytes, "files": tally.copied_files},
            "resumed": {"bytes": tally.resumed_bytes, "files": tally.resumed_files},
        }

    route = where.route
    return {
        "from": plan.source.prefix,
        "to": plan.target.prefix,
        "dry_run": dry_run,
        "bytes": plan.bytes,
        "regions": None if route is None else {"from": str(route.source), "to": str(route.target)},
        "notes": plan.notes,
        "outputs": [
            *(described(record, "there") for record in plan.there),
            *(described(record, "to copy") for record in plan.todo),
        ],
    }
