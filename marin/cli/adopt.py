"""``marin adopt``."""

from __future__ import annotations

import json
from typing import Any, cast

import click
from rich.text import Text

from marin.cli.completions import complete_path
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json
from marin.cli.parameters import argument, command_line, option, reason
from marin.errors import BadField
from marin.report.lineage_tree import described
from marin.report.table import open_console, say
from marin.report.words import describe_facts
from marin.store.numbers import counted, write_bytes
from marin.store.store import open_store


@command_line()
def command(
    source: str = argument(metavar="PATH_OR_URL", complete=complete_path),
    kind: str = option("--kind", "The kind of output: documents, tokens, raw_files …, or module:Class.", default=""),
    label: str = option("--label", "The output is called adopt/LABEL.", required=True),
    because: str = reason("--because", "Why others may rely on the data; recorded and shown."),
    facts: str = option(
        "--facts", 'Facts that the files do not tell: \'{"architecture": "llama"}\'.', default="{}", metavar="JSON"
    ),
    prefix: str = PREFIX,
    as_json: bool = JSON,
) -> int:
    """Copy outside data into the store as a committed output, and print the line that pins it.

    PATH_OR_URL is a file or folder, or gs://, s3://. marin opens every file as KIND. It adopts the same bytes once; of
    two commands at the same time one waits. For outputs of another store use `marin mirror`, which keeps their lineage.
    """
    from marin.upkeep.adopt import adopt

    adopted = adopt(
        open_store(prefix),
        source,
        kind=kind,
        label=label,
        because=because,
        facts=_facts(facts),
        on_message=lambda line: click.echo(line, err=True),
    )
    record, made = adopted.record, adopted.record.provenance
    if as_json:
        echo_json({"new": adopted.new, "pin": adopted.pin, "source": adopted.source, **described(record)})
        return Exit.OK
    console = open_console()
    verb = "adopted" if adopted.new else "there already, every byte right"
    console.print(Text.assemble(f"{verb}: ", (record.name, "bold"), f" {record.identity[:12]}"), soft_wrap=True)
    size = f"{counted(record.files, 'file')}, {write_bytes(record.bytes)}"
    say(console, f"    {record.kind}, {size}: {describe_facts(record.facts)}")
    origin = f" from {', '.join(record.outside)}" if record.op == "adopt" else ""
    reason = f": {made.because}" if made.because else ""
    say(console, f"    {made.ended} by {made.who}{origin}{reason}", "dim")
    say(console, "use it in an experiment as")
    say(console, f"    {adopted.pin}", "green")
    return Exit.OK


def _facts(given: str) -> dict[str, Any]:
    try:
        facts = json.loads(given)
    except ValueError as error:
        raise BadField(f"--facts is not JSON: {error}; wanted an object like '{{\"step\": 1000}}'") from error
    if not isinstance(facts, dict):
        raise BadField(f"--facts is {given}; wanted a JSON object like '{{\"step\": 1000}}'")
    return cast(dict[str, Any], facts)
