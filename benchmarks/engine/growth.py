"""Does the cost of a step grow with the size of the graph? Cold in one process, cached, planned.

    ./py benchmarks/engine/growth.py [--sizes 1000,3000,10000,30000,100000] [--repeats 1]

The time of a process that only starts is subtracted; dividing the rest by the steps gives the cost of one step.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from rich.table import Table

from benchmarks.engine.cell import Sample, samples
from benchmarks.engine.environments import environment
from benchmarks.engine.report import wide_console
from benchmarks.engine.tools import TOOLS, Phase

SMALLEST = 10  # steps: the cost of a process with almost no steps
PHASES = (Phase.COLD, Phase.CACHED, Phase.PLAN)


def measure(steps: int, repeats: int, timeout: float, scratch: str | None) -> list[Sample]:
    tool = next(tool for tool in TOOLS if tool.name == "marin")
    found: list[Sample] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="marin-bench-", dir=scratch) as folder:
            found += samples(tool, environment(tool, Path(folder)), steps, Path(folder) / "cell", timeout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="1000,3000,10000,30000,100000")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one command")
    parser.add_argument("--scratch", default=None, help="where the graphs are run; a local disk")
    given = parser.parse_args()
    console = wide_console()
    start: dict[Phase, float] = {}
    table = Table(title="microseconds a step, beyond the start of the process", header_style="bold")
    table.add_column("steps", justify="right")
    for phase in PHASES:
        for heading in (f"{phase} s", "µs a step", "peak MB"):
            table.add_column(heading, justify="right", no_wrap=True)
    for steps in (SMALLEST, *map(int, given.sizes.split(","))):
        found = measure(steps, given.repeats, given.timeout, given.scratch)
        cells: list[str] = []
        for phase in PHASES:
            counted = [held for held in found if held.phase is phase and held.counts]
            problems = [held.problem for held in found if held.phase is phase and held.problem]
            if problems or not counted:
                cells += [problems[0] if problems else "–", "", ""]
                continue
            seconds = statistics.median(held.seconds for held in counted)
            peak = max(held.peak for held in counted)
            start.setdefault(phase, seconds)
            each = f"{(seconds - start[phase]) / steps * 1e6:.0f}" if steps > SMALLEST else ""
            cells += [f"{seconds:.2f}", each, f"{peak / 1e6:.0f}"]
        table.add_row(f"{steps:,}", *cells)
        console.print(f"{steps:,}: {', '.join(cells)}", highlight=False)
    console.print(table)


if __name__ == "__main__":
    main()
