"""Walk the full plan of an experiment from end to end, small, on a simulated cluster.

    ./py benchmarks/full_walk.py [experiments/exp1295_llama.py] [--keep FOLDER]

The walk has the graph and the code path of ``--scale full``, with the sizes of the smaller full plan that
docs/full-scale.md describes (operators/shrunk.py). A lab has the hub, a bucket and TPU slices. Here a local server
speaks the hub's protocol, another serves the listings, and an emulator of Google's storage holds the store. Nodes of
one Ray cluster on this machine say that they are hosts of slices, with four JAX devices each. Once, the benchmark kills
the process of a second host (kill -9). It prints the plan, the results, the steps that are then left to run, and the
time of each operator. It ends with the exit code of the run.
"""

# pyright: basic
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infra.hardware import tpu
from marin import Experiment, Resources, Scale
from marin.store.inventory import read_inventory
from marin.store.store import open_store
from operators.shrunk import Listing, Shrink, shrunk
from tests.support.servers import Kind, StoreServer, environment_set
from tests.support.small_hub import VOCABULARY, SmallHub, small_hub

ROOT = Path(__file__).resolve().parents[1]
# A slice of two hosts, two slices of one, and one of those: each kind of gang.
MACHINES: dict[str, Resources] = {
    "4 × v5p-512": tpu("v4-8", slices=2),
    "3 × v5p-512": tpu("v4-8"),
    "v4-2048": tpu("v4-16"),
    "v4-32": tpu("v4-16"),
    "v4-8": tpu("v4-8"),
    "2 × v5litepod-256": tpu("v4-8", slices=2),
    "4 × v4-128": tpu("v4-16"),
}
KILLED_AFTER = 30.0  # seconds: its libraries are imported then
FILE = '''"""{question}"""

from benchmarks.full_walk import small
from {module} import build as full
from marin import Experiment, Scale, executor_main
from marin.data.http_file import HttpFile
from operators.shrunk import Listing

LISTINGS = {listings!r}


def build(scale: Scale) -> Experiment:
    return small(full(scale), LISTINGS)


if __name__ == "__main__":
    executor_main(build)
'''


def small(experiment: Experiment, listings: dict[str, Listing]) -> Experiment:
    by = Shrink(steps=1000, batch=64, length=128, machines=MACHINES, vocabulary=VOCABULARY, files=2, listings=listings)
    return shrunk(experiment, by)


def walk(source: str, folder: Path) -> int:
    module = ".".join(Path(source).with_suffix("").parts)
    experiment = import_module(module).build(Scale.FULL)
    with StoreServer(Kind.GS) as store, small_hub(experiment, folder / "tokenizer") as hub:
        prefix = store.new_prefix()
        with environment_set({**store.environment, **_environment(hub, folder)}):
            file = folder / f"{Path(source).stem}_small.py"
            question = " ".join((experiment.question or "").split('"')).splitlines()[0]
            file.write_text(FILE.format(question=question, module=module, listings=dict(hub.listings)))
            began = time.monotonic()
            code = _run(file, prefix)
            print(f"{time.monotonic() - began:,.0f} s; load {os.getloadavg()[0]:.1f}; {len(hub.log)} requests to hub")
            _print_times(prefix)
    return code


def _environment(hub: SmallHub, folder: Path) -> dict[str, str]:
    return {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HOME": str(folder / "hub"),
        "MARIN_CACHE": str(folder / "cache"),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4 --xla_cpu_multi_thread_eigen=false",
        "RAY_AUTH_MODE": "disabled",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "160",
    }


def _run(file: Path, prefix: str) -> int:
    """Run the plan in a new driver, on a cluster that ends with this process; then print the steps left to run."""
    from tests.executor.test_gangs import SlicedCluster

    cluster = SlicedCluster()
    try:
        command = [sys.executable, str(file), "--scale", "full", "--prefix", prefix, "--address", cluster.address]
        threading.Thread(target=_kill_one_host, args=(psutil.Process(),), daemon=True).start()
        code = subprocess.run(command, cwd=file.parent).returncode
        return subprocess.run([*command, "--dry-run"], cwd=file.parent).returncode or code
    finally:
        cluster.cluster.shutdown()


def _kill_one_host(root: psutil.Process) -> None:
    """Once: the training process of a second host, when it has begun to train."""
    while True:
        for process in root.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                command = " ".join(process.cmdline())
                if "marin.training.main" in command and "training-1.json" in command:
                    time.sleep(KILLED_AFTER)
                    process.kill()
                    print(f"killed {command}", flush=True)
                    return
        time.sleep(1)


def _print_times(prefix: str) -> None:
    """Seconds of each operator, all its steps together."""
    seconds: dict[str, list[float]] = {}
    for record in read_inventory(open_store(prefix)).newest_first():
        seconds.setdefault(record.op, []).append(record.provenance.seconds)
    for op, each in sorted(seconds.items(), key=lambda found: -sum(found[1])):
        print(f"{op:24} {len(each):4} steps  {sum(each):8.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", nargs="?", default="experiments/exp1295_llama.py")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    given = parser.parse_args()
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
        sys.exit(walk(given.experiment, given.keep.absolute()))
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(walk(given.experiment, Path(scratch)))
