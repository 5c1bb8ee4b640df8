"""Measure the cost of starting: whole processes that import, build or plan an experiment, or do nothing.

./py benchmarks/engine/import_time.py [--repeats 15]
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from typing import NamedTuple

from rich.table import Table

from benchmarks.engine.report import wide_console

BUILD = "import experiments.exp1529_mantis as e; from marin import Scale; e.build(Scale('{}')).steps()"
DRY_RUN = (  # makes no store
    "import experiments.exp1529_mantis as e; from marin import executor_main; "
    "executor_main(e.build, ['--dry-run', '--scale', '{}', '--prefix', 'no-store'])"
)
STATEMENTS = {
    "nothing": "pass",
    "an operator's view": "import marin",
    "an experiment": "import experiments.exp1529_mantis",
    "built, rehearsal": BUILD.format("rehearsal"),
    "dry run, rehearsal": DRY_RUN.format("rehearsal"),
    "built, full": BUILD.format("full"),
    "dry run, full": DRY_RUN.format("full"),
    "the command line": "import marin.cli.commands",
}
SLOWEST = 15


class Module(NamedTuple):
    """Seconds: its own statements, and with everything that it imported first."""

    name: str
    own: float
    whole: float


def process_seconds(statement: str) -> float:
    """Return the processor time of a process, which other work on the machine changes less than its duration."""
    began = os.times()
    subprocess.run([sys.executable, "-c", statement], stdout=subprocess.DEVNULL, check=True)
    ended = os.times()
    return ended.children_user + ended.children_system - began.children_user - began.children_system


def modules(statement: str) -> list[Module]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement], capture_output=True, text=True, check=True
    )
    lines = re.findall(r"^import time:\s+(\d+) \|\s+(\d+) \|\s*(\S+)$", done.stderr, re.MULTILINE)
    return [Module(name, int(own) / 1e6, int(whole) / 1e6) for own, whole, name in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats: int = parser.parse_args().repeats
    console = wide_console()
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(repeats):  # interleaved, so that noise hits all alike
        for name, statement in STATEMENTS.items():
            seconds[name].append(process_seconds(statement))
    table = Table(title=f"whole process, milliseconds of a processor, of {repeats}", header_style="bold")
    for heading in ("imports", "median", "least", "most", "modules"):
        table.add_column(heading, justify="left" if heading == "imports" else "right")
    for name, held in seconds.items():
        spread = (statistics.median(held), min(held), max(held))
        table.add_row(name, *(f"{each * 1e3:.0f}" for each in spread), str(len(modules(STATEMENTS[name]))))
    console.print(table)
    for name in ("an experiment", "the command line"):
        started = {module.name for module in modules("pass")}
        found = [module for module in modules(STATEMENTS[name]) if module.name not in started]
        table = Table(title=f"{name}: slowest modules, milliseconds", header_style="bold")
        for heading in ("module", "own", "with what it imports"):
            table.add_column(heading, justify="left" if heading == "module" else "right")
        for module in sorted(found, key=lambda module: -module.own)[:SLOWEST]:
            table.add_row(module.name, f"{module.own * 1e3:.1f}", f"{module.whole * 1e3:.1f}")
        console.print(table)


if __name__ == "__main__":
    main()
