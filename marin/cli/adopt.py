"""``marin adopt``."""

from __future__ import annotations

import json
from typing import Any, cast

import click
from msgspec.structs import asdict
from rich.text import Text

from marin.cli.completions import complete_kind, complete_path
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json, ends
from marin.errors import BadField
from marin.numbers import write_bytes
from marin.report.table import open_console
from marin.report.terminal import describe_facts
from marin.store.store import open_store


@click.command()
@click.argument("source", metavar="PATH_OR_URL", shell_complete=complete_path)
@click.option(
    "--kind", default="", help="documents, tokens, raw_files …, or module:Class.", shell_complete=complete_kind
)
@click.option("--label", required=True, help="What to call it: adopt/LABEL.")
@click.option("--because", default="", metavar="REASON", help="Why it may be relied on; recorded and shown.")
@click.option(
    "--facts", default="{}", metavar="JSON", help='What the files do not tell: \'{"architecture": "llama"}\'.'
)
@PREFIX
@JSON
@ends
def command(source: str, kind: str, label: str, because: str, facts: str, prefix: str, as_json: bool) -> int:
    """Copy outside data into the store as a committed output, and print the line that pins it.

    A file or folder, or gs://, s3://. Every file is read as the KIND that it is said to be. The same bytes are adopted
    once; of two commands at a time one waits. What lies in another store comes with its lineage by `marin mirror`.
    """
    from marin.upkeep.adopt import adopt

    done = adopt(
        open_store(prefix),
        source,
        kind=kind,
        label=label,
        because=because,
        facts=_facts(facts),
        tell=lambda line: click.echo(line, err=True),
    )
    record = done.record
    if as_json:
        echo_json(
            {
                "new": done.new,
                "at": record.attempt,
                "digest": record.root,
                "pin": done.pin,
                "step": record.name,
                "identity": record.identity,
                "kind": record.kind,
                "facts": record.facts,
                "files": record.files,
                "bytes": record.bytes,
                "source": done.source,
                **asdict(record.provenance),
            }
        )
        return Exit.OK
    console = open_console()
    verb = "adopted" if done.new else "there already, every byte right"
    console.print(Text.assemble(f"{verb}: ", (record.name, "bold"), f" {record.identity[:12]}"), soft_wrap=True)
    files = f"{record.files} file{'' if record.files == 1 else 's'}, {write_bytes(record.bytes)}"
    console.print(Text(f"    {record.kind}, {files}: {describe_facts(record.facts)}"), soft_wrap=True)
    made = record.provenance
    origin = f" from {', '.join(record.outside)}" if record.op == "adopt" else ""
    reason = f": {made.because}" if made.because else ""
    console.print(Text(f"    {made.started} by {made.who}{origin}{reason}", style="dim"), soft_wrap=True)
    console.print("use it in an experiment as", soft_wrap=True)
    console.print(Text(f"    {done.pin}", style="green"), soft_wrap=True)
    return Exit.OK


def _facts(given: str) -> dict[str, Any]:
    try:
        made = json.loads(given)
    except ValueError as error:
        raise BadField(f"--facts is no JSON: {error}; wanted an object like '{{\"step\": 1000}}'") from error
    if not isinstance(made, dict):
        raise BadField(f"--facts is {given}; wanted a JSON object like '{{\"step\": 1000}}'")
    return cast(dict[str, Any], made)
