"""Measure the commands that list a whole store, by its number of outputs: CPU seconds of the whole process.

    ./py -m benchmarks.engine.listing [--outputs 100000] [--scratch FOLDER]

The store has only records, as a run of that many steps leaves them, because ``ls`` opens nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from benchmarks.engine.report import wide_console
from marin.store.layout import ENDS, attempt_directory, end_name
from marin.store.record import Input, Provenance, Record
from marin.store.store import Store

COMMANDS = (("ls",), ("ls", "--json"), ("ls", "--sort", "made"), ("ls", "layer-7/*"), ("ls", "layer-3/node 1003"))


def fill(store: Store, outputs: int) -> None:
    (Path(store.prefix) / ENDS).mkdir(parents=True)
    for number in range(outputs):
        identity = hashlib.sha256(str(number).encode()).hexdigest()
        record = _record(identity, f"layer-{number % 10}", f"node {number}")
        (Path(store.prefix) / end_name(identity, record.token)).write_bytes(record.to_bytes())


def _record(identity: str, op: str, label: str) -> Record:
    packages = {f"package-{number}": f"{number}.0.1" for number in range(12)}
    reads = [Input(name=f"{op}/of {number}", identity=identity[::-1], root=identity) for number in range(3)]
    return Record(
        identity=identity,
        op=op,
        version=1,
        label=label,
        attempt=attempt_directory(op, label, identity, 1),
        token=1,
        kind="documents",
        facts={"documents": 1234, "bytes": 56789, "shards": 2, "dropped": {"short": 12, "long": 3}},
        config={"parts": [f"{held.name}#{held.identity[:12]}" for held in reads], "rule": {"least": 3, "most": 9.5}},
        inputs=reads,
        outside={},
        code=identity,
        packages=packages,
        root=identity,
        files=2,
        bytes=56789,
        provenance=Provenance(
            who="ada", host="lab", started=f"2026-11-21 13:21:{int(identity[:2], 16) % 60:02}", seconds=0.5
        ),
        action=identity,
        stamp=identity[:32],
        content=identity,
    )


class Measured(NamedTuple):
    """cpu, wall: seconds. said: bytes."""

    cpu: float
    wall: float
    said: int


def measure(prefix: str, arguments: tuple[str, ...]) -> Measured:
    before, began = os.times(), time.monotonic()
    command = [sys.executable, "-m", "marin", *arguments, "--prefix", prefix]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Measured(cpu, time.monotonic() - began, len(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--outputs", type=int, default=100_000)
    parser.add_argument("--scratch", default=None, help="where the store is made; a local disk")
    given = parser.parse_args()
    table = Table(title=f"{given.outputs:,} outputs", header_style="bold")
    for heading in ("marin", "CPU s", "wall s", "MB said"):
        table.add_column(heading, justify="left" if heading == "marin" else "right")
    with tempfile.TemporaryDirectory(prefix="marin-bench-", dir=given.scratch) as folder:
        store = Store(f"{folder}/store")
        fill(store, given.outputs)
        for arguments in COMMANDS:
            cpu, wall, said = measure(store.prefix, arguments)
            table.add_row(" ".join(arguments), f"{cpu:.1f}", f"{wall:.1f}", f"{said / 1e6:.1f}")
    wide_console().print(table)


if __name__ == "__main__":
    main()
