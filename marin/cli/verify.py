"""``marin verify``."""

from __future__ import annotations

import click

from marin.cli.options import JSON, PREFIX, echo_json, ends
from marin.console import open_console
from marin.errors import BadPrefix, CorruptRecord, UnknownStep
from marin.exits import Exit
from marin.store import open_store


@click.command()
@click.argument("steps", nargs=-1)
@PREFIX
@click.option("--sizes-only", is_flag=True, help="Names and sizes, without reading every byte.")
@JSON
@ends
def command(steps: tuple[str, ...], prefix: str, sizes_only: bool, as_json: bool) -> int:
    """Re-read committed outputs and compare with their manifests; exit code 5 if any differs."""
    store = open_store(prefix)
    if not store.directory.exists():
        raise BadPrefix(f"{store.prefix} does not exist; --prefix names the store to verify")
    wrong: dict[str, list[str]] = {}
    checked = 0
    asked = set(steps)
    for identity in sorted(store.identities()):
        try:
            record = store.record(identity)
        except CorruptRecord as error:
            wrong[identity] = [str(error)]
            asked.discard(identity)
            continue
        if record is None:
            continue
        names = {record.name, record.op, record.label, identity, identity[:12]}
        if steps and not names & set(steps):
            continue
        asked -= names
        checked += 1
        found = store.verify(record, checksums=not sizes_only)
        if found:
            wrong[f"{record.name} {identity[:12]}"] = found
    if asked:
        raise UnknownStep(f"no committed output in {store.prefix} is called {', '.join(sorted(asked))}")
    if as_json:
        echo_json({"checked": checked, "wrong": wrong})
    else:
        console = open_console()
        for name, found in wrong.items():
            console.print(name, style="red", highlight=False, markup=False, soft_wrap=True)
            for line in found:
                console.print(f"    {line}", highlight=False, markup=False, soft_wrap=True)
        console.print(
            f"{checked} outputs checked, {len(wrong)} damaged — store {store.prefix}", markup=False, highlight=False
        )
        if wrong:
            console.print("make a damaged output again with --rebuild STEP when running its experiment")
    return Exit.STORE if wrong else Exit.OK
