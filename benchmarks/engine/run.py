"""Every tool on the same trivial graphs, side by side in one run.

    ./py benchmarks/engine/run.py --peers ninja,doit,marin --sizes 100,1000 --repeats 3 --out results.json

Repeats are interleaved over the tools, so that a disturbance of the machine affects all tools alike. Each cell gets a
fresh folder, and is run cold, then cached, then planned. A check then demands that it ran every step cold and none
after that, and gave the right answer. Folders stay until the end: on ext4 without a journal, making files is slow for
minutes after many were deleted. Tools are installed on first use, each in its own environment.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from rich.console import Console

from benchmarks.engine.cell import Sample, samples
from benchmarks.engine.environments import NotInstalled, default_cache, environment, packages
from benchmarks.engine.report import as_json, markdown, print_tables, short, wide_console
from benchmarks.engine.tools import TOOLS, Tool

TIMEOUT = 500.0


def main() -> None:
    given = arguments()
    console = wide_console()
    tools = chosen(given.peers)
    sizes = [int(size) for size in given.sizes.split(",")]
    out = Path(given.out) if given.out else None
    bins = installed(console, tools, Path(given.cache))
    tools = [tool for tool in tools if tool.name in bins]
    versions = {tool.name: packages(bins[tool.name]) for tool in tools}
    about = description(given.repeats)
    found: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="marin-bench-", dir=given.scratch, delete=not given.keep) as scratch:
        try:
            for sample in all_samples(console, tools, bins, sizes, given.repeats, given.timeout, Path(scratch)):
                found.append(sample)
                if out is not None:
                    out.write_text(as_json(found, about, versions))
                    out.with_suffix(".md").write_text(markdown(found, about))
        except KeyboardInterrupt:
            console.print("interrupted; this is what was measured until then")
    print_tables(console, found)


def all_samples(
    console: Console,
    tools: list[Tool],
    bins: dict[str, Path],
    sizes: list[int],
    repeats: int,
    timeout: float,
    scratch: Path,
) -> Iterator[Sample]:
    """Sizes in order, repeats interleaved. A tool that did not manage once is not tried again, nor at larger sizes."""
    gave_up: set[str] = set()
    for steps in sizes:
        for repeat in range(repeats):
            order = [tool for tool in tools if tool.name not in gave_up]
            random.Random(repeat).shuffle(order)
            for tool in order:
                folder = scratch / f"{tool.name}-{steps}-{repeat}"
                for sample in samples(tool, bins[tool.name], steps, folder, timeout):
                    said = sample.problem or f"{short(sample.seconds)} s, {sample.peak / 1e6:.0f} MB"
                    console.print(
                        f"{steps:>7} {repeat + 1}/{repeats} {sample.tool:16} {sample.phase:7} {said}",
                        markup=False,
                        highlight=False,
                        soft_wrap=True,
                    )
                    if sample.problem:
                        gave_up.add(tool.name)
                    yield sample


def installed(console: Console, tools: list[Tool], cache: Path) -> dict[str, Path]:
    bins: dict[str, Path] = {}
    for tool in tools:
        try:
            bins[tool.name] = environment(tool, cache)
        except NotInstalled as error:
            console.print(f"left out: {error}", markup=False, highlight=False, soft_wrap=True)
    return bins


def chosen(names: str) -> list[Tool]:
    known = {tool.name: tool for tool in TOOLS}
    wanted = list(known) if names == "all" else names.split(",")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"no tool is called {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in wanted]


def description(repeats: int) -> dict[str, str]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{processor()}, {os.cpu_count()} processors, {psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "repeats": str(repeats),
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = ", ".join(tool.name for tool in TOOLS)
    parser.add_argument("--peers", default="all", help=f"comma-separated, of: {names}")
    parser.add_argument("--sizes", default="100,1000", help="numbers of steps, multiples of ten")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT, help="seconds for one command; more is 'did not finish'"
    )
    parser.add_argument("--out", default="", help="where the results go: this file as JSON, and .md beside it")
    parser.add_argument("--cache", default=str(default_cache()), help="where the tools' environments are kept")
    parser.add_argument("--scratch", default=None, help="where the graphs are run; a local disk")
    parser.add_argument("--keep", action="store_true", help="leave what did not work there, with its logs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
