"""A plan of many committed steps over an object store that takes 20 ms to answer: calls and seconds.

    ./py -m benchmarks.engine.object_store [--sizes 1000,10000] [--delay 0.02] [--repeats 3]

The records come from a real cold run on local disk, and are copied into the store unchanged. The times are of whole
processes that plan (Python's start included): first with every record read alone, then with the packs that a run
leaves. The client is the real one, the server quick_s3.py on this machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec.structs import replace
from rich.table import Table

from benchmarks.engine.cell import samples
from benchmarks.engine.environments import environment
from benchmarks.engine.peers import dag
from benchmarks.engine.quick_s3 import Serving, quick_s3
from benchmarks.engine.report import wide_console
from benchmarks.engine.tools import TOOLS, Phase
from marin.store.inventory import Inventory
from marin.store.record import parse_record
from marin.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("ends", "actions", "code")
WRITERS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="1000,10000", help="numbers of steps, multiples of ten")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds before each answer")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    console = wide_console()
    table = Table(title=f"plan over s3, {given.delay * 1000:.0f} ms a call", header_style="bold")
    for heading in ("steps", "records read", "seconds (median)", "least – most", "calls of each"):
        table.add_column(heading, justify="right", no_wrap=True)
    with quick_s3() as server:
        for steps in map(int, given.sizes.split(",")):
            for how, seconds, calls in measured(server, steps, given.delay, given.repeats):
                said = ", ".join(f"{count} {operation}" for operation, count in sorted(calls.items()))
                spread = f"{min(seconds):.2f} – {max(seconds):.2f}"
                table.add_row(f"{steps:,}", how, f"{statistics.median(seconds):.2f}", spread, said)
    console.print(table)


def measured(
    server: Serving, steps: int, delay: float, repeats: int
) -> Iterator[tuple[str, list[float], dict[str, int]]]:
    with tempfile.TemporaryDirectory(prefix="marin-bench-") as scratch:
        server.delay(0.0)
        local, prefix = built(steps, Path(scratch)), f"s3://lab/{steps}"
        store = Store(prefix)
        put(local / "store", store)
        for how in ("one by one", "from packs"):
            if how == "from packs":
                server.delay(0.0)
                store.packs.pack(Inventory(store).records)
            seconds: list[float] = []
            for _ in range(repeats):
                server.delay(delay)
                seconds.append(planned(local, prefix, steps))
            yield how, seconds, server.calls()


def built(steps: int, scratch: Path) -> Path:
    """The folder of an experiment that ran on local disk."""
    tool = next(tool for tool in TOOLS if tool.name == "marin")
    for sample in samples(tool, environment(tool, scratch), steps, scratch / "cell", 1800.0):
        if sample.problem or sample.phase is Phase.COLD:
            assert not sample.problem, sample.problem
            return scratch / "cell"
    raise AssertionError("nothing ran")


def put(local: Path, store: Store) -> None:
    """Copy the files that a plan reads from one store into another."""

    def copy(path: Path) -> None:
        content = path.read_bytes()
        if path.parent.name == "ends":  # no object store has times that tell whether a file was touched
            content = replace(parse_record(content, str(path)), stamp="").to_bytes()
        store.objects.write(str(path.relative_to(local)), content)

    paths = [path for folder in NEEDED for path in (local / ".marin" / folder).iterdir() if path.is_file()]
    paths += local.glob("*/*/.marin/record.json")
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(copy, paths))


def planned(folder: Path, prefix: str, steps: int) -> float:
    """Seconds of one process. Raises if it does not find every step committed."""
    command = [sys.executable, "-m", "marin", "plan", str(folder / "experiment.py"), "--prefix", prefix]
    path = os.pathsep.join([str(ROOT), str(Path(dag.__file__).parent)])
    began = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    assert f"{steps} cached" in done.stdout.replace(",", ""), done.stdout[-2000:] + done.stderr[-2000:]
    return seconds


if __name__ == "__main__":
    main()
