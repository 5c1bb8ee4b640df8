"""Measure the cost of observation: 1,000 trivial steps from nothing, with their reads and code observed and without.

    ./py -m benchmarks.engine.observation [STEPS [REPEATS]]

Runs alternate, each in a new process and a new store below the temporary folder; printed are seconds of processor time.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PEERS = Path(__file__).with_name("peers")
# The same program, in which nothing is observed while a step runs.
BLIND = """
import contextlib, runpy, sys
import marin.executor.attempt as attempt
from marin.fingerprint.observation.observation import Observation
from marin.store.record import Observed
attempt.observing = lambda scope, *_: contextlib.nullcontext(Observation(scope=scope))
attempt.describe = lambda *_: Observed()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def seconds(steps: int, *, observed: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(PEERS / "marin_files.py"), folder, str(steps)], check=True)
        program = [f"{folder}/experiment.py", "--prefix", f"{folder}/store", "--backend", "inline"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *([] if observed else ["-c", BLIND]), *program],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(PEERS), "MARIN_CACHE": f"{folder}/cache"},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(steps: int = 1000, repeats: int = 9) -> None:
    found: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(repeats):
        for observed in (False, True):
            found[observed].append(seconds(steps, observed=observed))
    for observed, samples in found.items():
        spread = f"{min(samples):.2f}–{max(samples):.2f}"
        print(f"{'observed' if observed else 'not observed':13} {statistics.median(samples):.2f} ({spread})")
    print(f"observing costs {statistics.median(found[True]) / statistics.median(found[False]) - 1:+.1%}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
