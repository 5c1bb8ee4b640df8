"""``marin revoke``."""

from __future__ import annotations

import click
from rich.console import Console

from marin.cli.completions import complete_output
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json, existing_store
from marin.cli.parameters import argument, command_line, flag, option, reason
from marin.errors import BadField, StoreError
from marin.report.lineage_tree import described
from marin.report.table import columns_of, open_console, print_table, say
from marin.store.lineage import output_of, read_lineage
from marin.store.lookup import bytes_named
from marin.store.record import Record
from marin.store.revocation import Revocation, Revocations, entry_of, revoke, revoked, withdraw
from marin.store.store import Store
from marin.store.trust import Taint


@command_line()
def command(
    step: str = argument(complete=complete_output),
    because: str = reason("--because", "The reason; recorded, and shown with every refusal."),
    replace_with: str | None = option(
        "--replace-with", "The output to use instead.", metavar="STEP", complete=complete_output
    ),
    back: bool = flag("--withdraw", "Take the revocation back."),
    dry_run: bool = flag("--dry-run", "Only list the outputs that would be revoked; record nothing."),
    prefix: str = PREFIX,
    as_json: bool = JSON,
) -> int:
    """Declare the bytes of STEP bad. From now on, every plan refuses them and everything built from them.

    STEP is op/label, label, identity, the path of an output, or the digest of its bytes.
    """
    store = existing_store(prefix)
    lineage = read_lineage(store)
    record = bytes_named(lineage, store, step)
    instead = bytes_named(lineage, store, replace_with) if replace_with is not None else None
    if back and instead is not None:
        raise BadField("--withdraw takes a revocation back and replaces nothing; leave out --replace-with")
    # The affected outputs are the same in a dry run and for --withdraw, so the entry counts as made.
    entry = entry_of(record, because, instead)
    concerned = Taint(lineage, Revocations([entry]))
    if instead is not None:
        if instead.kind != record.kind:
            wrong = f"is of kind {instead.kind}; it cannot replace {record.name}, a {record.kind}"
            raise BadField(f"{instead.name} {wrong}")
        bad = Taint(lineage, Revocations([*revoked(store).all, entry])).found.get(output_of(instead))
        if bad is not None:
            why = "holds revoked bytes itself" if bad.is_revoked else bad.way
            raise BadField(f"{instead.name} {instead.identity[:12]} cannot be the replacement: {why}")
    pages: list[str] = []
    if not dry_run:
        entry = withdraw(store, record, because) if back else revoke(store, record, because, instead)
        pages = _stamp_pages(store)
    groups: dict[str, list[Record]] = {"the same bytes": [], "checkpoints": [], "other outputs made from it": []}
    for output, each in lineage.records.items():
        if (bad := concerned.found.get(output)) is not None:
            made_from_it = "checkpoints" if each.kind == "checkpoint" else "other outputs made from it"
            groups["the same bytes" if bad.is_revoked else made_from_it].append(each)
    if as_json:
        echo_json(
            {
                "dry_run": dry_run,
                "revocation": entry,
                **{title.replace(" ", "_"): list(map(described, group)) for title, group in groups.items()},
                "unreadable": lineage.unreadable,
                "pages": pages,
            }
        )
    else:
        console = open_console()
        _print(console, entry, groups, back=back, dry_run=dry_run)
        for page in pages:
            say(console, f"this page {'no longer shows' if back else 'now shows'} the revocation: {page}", "dim")
    for text in lineage.unreadable:
        click.echo(f"incomplete: {text}", err=True)
    return Exit.OK


def _stamp_pages(store: Store) -> list[str]:
    """Mark the pages, and return their paths. The revocation is recorded even if marking a page fails."""
    from marin.report.page.revocations import stamp_pages

    try:
        return [f"{store.prefix}/{name}" for name in stamp_pages(store)]
    except StoreError as error:
        click.echo(f"recorded, but pages could not be marked: {error}", err=True)
        return []


def _print(console: Console, entry: Revocation, groups: dict[str, list[Record]], *, back: bool, dry_run: bool) -> None:
    verb = ("would be " if dry_run else "") + ("trusted again" if back else "revoked")
    say(console, f"{verb}: {entry.name} {entry.identity[:12]}, bytes {entry.root[:12]}: {entry.because}")
    if entry.replacement is not None:
        say(console, f"use instead: {entry.replacement.name}, {entry.replacement.at}")
    for title, group in groups.items():
        if not group:
            continue
        say(console, f"\n{title}: {len(group)}", "bold")
        rows: list[list[str]] = []
        for record in group:
            made = record.provenance
            rows.append([record.name, record.identity[:12], made.ended[:16], made.who, made.experiment, record.attempt])
        print_table(console, columns_of("output | identity | made | by | experiment | directory ?1"), rows)
    if not back:
        say(console, "\nplans that need one of these stop (exit code 3) and say why", "dim")
