"""Time and peak memory of a rehearsal, by stage: from an empty store, then cached.

    ./py benchmarks/rehearsal.py [experiments/exp1529_mantis.py]

Memory is the summed proportional set size of the command and all its descendants (Ray's included), sampled five
times a second. A stage's peak is the largest sum while one of its steps ran. Stages overlap, so their seconds do
not add up to the whole.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

import psutil

from marin.store.inventory import Inventory
from marin.store.record import Record
from marin.store.store import open_store

SAMPLE_SECONDS = 0.2


def tree_memory(root: psutil.Process) -> int:
    """Bytes of a process and its descendants; shared pages are counted once."""
    total = 0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


def measured(command: list[str]) -> tuple[float, list[tuple[float, int]]]:
    """Wall seconds and (time, bytes) samples of one command."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    samples: list[tuple[float, int]] = []
    done = threading.Event()

    def sample() -> None:
        root = psutil.Process(process.pid)
        while not done.wait(SAMPLE_SECONDS):
            try:
                samples.append((time.time(), tree_memory(root)))
            except psutil.NoSuchProcess:
                return

    watcher = threading.Thread(target=sample)
    watcher.start()
    code = process.wait()
    done.set()
    watcher.join()
    if code:
        sys.exit(f"{' '.join(command)} ended with {code}")
    return time.monotonic() - began, samples


def stages(prefix: str) -> dict[str, list[Record]]:
    held: dict[str, list[Record]] = {}
    for record in Inventory(open_store(prefix)).records.values():
        held.setdefault(record.op, []).append(record)
    return held


def span(record: Record) -> tuple[float, float]:
    start = datetime.strptime(record.provenance.started, "%Y-%m-%d %H:%M:%S").timestamp()
    return start, start + 1 + record.provenance.seconds


def main() -> None:
    experiment = sys.argv[1] if len(sys.argv) > 1 else "experiments/exp1529_mantis.py"
    with tempfile.TemporaryDirectory() as folder:
        prefix = str(Path(folder) / "store")
        command = [sys.executable, experiment, "--prefix", prefix]
        seconds, samples = measured(command)
        peak = max(size for _, size in samples)
        print(f"{'stage':24} {'steps':>5} {'seconds':>8} {'peak GiB':>9}")
        for op, records in sorted(stages(prefix).items(), key=lambda item: min(map(span, item[1]))):
            total = sum(record.provenance.seconds for record in records)
            during = [size for moment, size in samples for start, end in map(span, records) if start <= moment <= end]
            most = f"{max(during) / 2**30:9.2f}" if during else "        –"
            print(f"{op:24} {len(records):5} {total:8.1f} {most}")
        print(f"{'whole, empty store':24} {'':5} {seconds:8.1f} {peak / 2**30:9.2f}")
        again = [measured(command) for _ in range(3)]
        fastest, held = min(again, key=lambda run: run[0])
        cached_peak = max((size for _, size in held), default=0)
        print(f"{'whole, cached (best of 3)':24} {'':4} {fastest:8.1f} {cached_peak / 2**30:9.2f}")


if __name__ == "__main__":
    main()
