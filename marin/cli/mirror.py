"""``marin mirror``."""

from __future__ import annotations

import functools
import time
from typing import Any

from rich.console import Console
from rich.text import Text

from marin.cli.completions import complete_output, complete_path
from marin.cli.exits import Exit
from marin.cli.options import JSON, echo_json
from marin.cli.parameters import argument, command_line, flag, option
from marin.errors import StoreError
from marin.plan.cost.egress import Route
from marin.report.lineage_tree import described
from marin.report.table import byte_bar, columns_of, open_console, print_table, say
from marin.store.numbers import counted, write_bytes, write_duration
from marin.store.record import Record
from marin.store.region import MACHINE, bucket_region
from marin.store.store import open_store
from marin.upkeep.mirror.copy import MirroredOutput, mirror
from marin.upkeep.mirror.plan import Mirroring, plan_mirroring

AMOUNTS = ("copied_bytes", "copied_files", "resumed_bytes", "resumed_files")


@command_line()
def command(
    steps: tuple[str, ...] = argument(nargs=-1, required=True, metavar="STEP...", complete=complete_output),
    prefix: str = option("--from", "The store to copy from.", default="store", complete=complete_path),
    target: str = option("--to", "The store to copy to.", required=True, complete=complete_path),
    with_inputs: bool = flag("--with-inputs", "Copy all their inputs too."),
    dry_run: bool = flag("--dry-run", "Only list the copies and their size."),
    as_json: bool = JSON,
) -> int:
    """Copy committed outputs to another store and verify every byte. Identity, digest and provenance stay the same.

    STEP is op/label, label, operator, identity or path. An experiment on the other store then reuses the outputs. marin
    does not copy outputs that are already there, and resumes a copy that was killed. Exit code 5 if an output is
    damaged, 3 if it is revoked.
    """
    plan = plan_mirroring(open_store(prefix), open_store(target), steps, with_inputs=with_inputs)
    console = open_console()
    if not as_json:
        _print_plan(console, plan)
    began, mirrored = time.monotonic(), list[MirroredOutput]()
    if not dry_run:
        # On a terminal one console keeps the bar below the lines.
        watched = console if console.is_terminal and not as_json else open_console(stderr=True)
        with byte_bar(watched, plan.bytes) as advance:
            for output in mirror(plan, functools.partial(say, watched, style="yellow"), advance):
                mirrored.append(output)
                if not as_json:
                    say(console, _line(output))
    if as_json:
        echo_json(_as_json(plan, mirrored, dry_run=dry_run))
    elif dry_run:
        console.print("dry run: nothing was copied")
    elif mirrored:
        size = sum(output.progress.copied_bytes for output in mirrored)
        count = counted(sum(output.copied for output in mirrored), "output")
        took = write_duration(time.monotonic() - began)
        verified = f"every byte verified — store {plan.target.prefix}"
        say(console, f"{count} mirrored, {write_bytes(size)} copied in {took}, {verified}")
    return Exit.OK


def _route(plan: Mirroring) -> tuple[Route | None, str]:
    """Return the route between the regions of the stores, and the route in words.

    The route is None if both stores are on this machine, or if the region of a bucket is unknown.
    """
    try:
        here, there = bucket_region(plan.source.prefix), bucket_region(plan.target.prefix)
    except StoreError as error:
        return None, f"; a region is unknown: {error}"
    if here is None and there is None:
        return None, ""
    route = Route(here or MACHINE, there or MACHINE)
    return route, f": within {route.source}" if route.source.is_where(route.target) else f": {route}"


def _print_plan(console: Console, plan: Mirroring) -> None:
    say(console, f"{plan.source.prefix} → {plan.target.prefix}", "bold")
    every = {record.identity for record in (*plan.todo, *plan.there)}
    rows = [[Text("there", style="dim"), *_cells(record)] for record in plan.there]
    for record in plan.todo:
        rows.append([Text("alias" if record.alias_of in every else "copy", style="cyan"), *_cells(record)])
    print_table(console, columns_of("| output | identity ?2 | >files ?1 | >size"), rows)
    for note in plan.notes:
        say(console, note, "yellow")
    if plan.todo:
        say(console, f"{counted(len(plan.todo), 'output')}, {write_bytes(plan.bytes)} to copy{_route(plan)[1]}")
    else:
        say(console, "nothing to copy: every output is there")


def _cells(record: Record) -> list[Text | str]:
    return [record.name, record.identity[:12], f"{record.files:,}", write_bytes(record.bytes)]


def _line(output: MirroredOutput) -> str:
    name, progress = output.record.name, output.progress
    if not output.copied:
        return f"· {name}  another call copied it meanwhile"
    if output.record.alias_of:
        return f"≡ {name}  shares {output.record.attempt}"
    resumed = f", {progress.resumed_files:,} more were there from an earlier call" if progress.resumed_files else ""
    return f"✓ {name}  {write_bytes(progress.copied_bytes)}, {counted(progress.copied_files, 'file')}{resumed}"


def _as_json(plan: Mirroring, mirrored: list[MirroredOutput], *, dry_run: bool) -> dict[str, Any]:
    route, _ = _route(plan)
    return {
        "source": plan.source.prefix,
        "target": plan.target.prefix,
        "dry_run": dry_run,
        "bytes": plan.bytes,
        "route": route and route._asdict(),
        "notes": plan.notes,
        "there": list(map(described, plan.there)),
        "todo": list(map(described, plan.todo)),
        "mirrored": [
            {
                **described(each.record),
                "copied": each.copied,
                **{name: getattr(each.progress, name) for name in AMOUNTS},
            }
            for each in mirrored
        ],
    }
