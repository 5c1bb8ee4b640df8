"""Seconds from ``python experiment.py`` to the first optimizer step, with a cold and with a warm compile cache.

    ./py benchmarks/training/first_step.py [REPEATS]

An experiment whose tokens already exist trains a Llama of about a million parameters, in this process and on Ray.
Beside it, Levanter's Trainer alone trains the same model in a process of its own. Cold: the cache has no compiled
programs. Warm: it has the programs of the run before. The operating system has read the libraries before.
"""

# pyright: basic
from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.training.overhead import bare
from marin.training.model import Llama
from marin.training.process import child_environment
from tests.training import faults

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENT = '''"""Exp 1: how soon does a training begin?"""

from pathlib import Path

from marin import BatchSchedule, Experiment, Scale, Stages, executor_main, mixture
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer


def build(scale: Scale) -> Experiment:
    text = TextFiles(path=str(Path(__file__).parent / "text"), label="own")
    tokenizer = TrainTokenizer(documents=(text,), vocabulary=512, label="own")
    tokens = Tokenize(documents=text, tokenizer=tokenizer, label="own")
    run = Train(
        label="run",
        model=Llama(hidden=128, intermediate=384, layers=4, heads=4, kv_heads=2, seq_len=128),
        vocabulary=512,
        optimizer=Adam(peak_lr=1e-3),
        schedule=Schedule(warmup=2),
        data=Stages({0: mixture({tokens: 1.0})}),
        batch=BatchSchedule({0: 8}),
        seq_len=128,
        seed=0,
        block=8,
        end_step=4,
        max_epochs=1000,
    )
    return Experiment(issue=1, repository="", question=__doc__, results={"tokens": tokens, "run": run})


if __name__ == "__main__":
    executor_main(build)
'''


def main(repeats: int) -> None:
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="first-step-") as name:
        folder = Path(name)
        (folder / "text").mkdir()
        (folder / "text/own.txt").write_text("\n".join(f"{n} and {n + 1} make {2 * n + 1}." for n in range(3000)))
        (folder / "experiment.py").write_text(EXPERIMENT)
        run(folder, "--only", "tokens")
        for way in WAYS.values():
            way(folder)  # from here on no file of Python's is compiled
        for _ in range(repeats):
            for name, way in WAYS.items():
                for programs in folder.glob("tmp/**/programs"):
                    shutil.rmtree(programs)
                for cache in ("cold", "warm"):
                    found.setdefault(f"{name}, {cache}", []).append(way(folder))
    for name, seconds in found.items():
        print(f"{name:24} {statistics.median(seconds):5.1f} s  ({min(seconds):.1f} to {max(seconds):.1f})")


def environment(folder: Path) -> dict[str, str]:
    (folder / "tmp").mkdir(exist_ok=True)
    own = {"TMPDIR": str(folder / "tmp"), "JAX_COMPILATION_CACHE_DIR": str(folder / "tmp/programs")}
    return {**os.environ, **own, "PYTHONPATH": str(ROOT), "RAY_TMPDIR": "/tmp"}


def run(folder: Path, *options: str) -> None:
    command = [sys.executable, "experiment.py", "--prefix", str(folder / "store"), *options]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def first_step(folder: Path, *way: str) -> float:
    """Return the seconds to the first step of a new training."""
    before = time.time()
    run(folder, *way, "--set", f"run.seed={time.time_ns() % 10**9}")
    metrics = max(folder.glob("store/**/metrics.jsonl"), key=lambda path: path.stat().st_mtime)
    return float(json.loads(metrics.read_text().splitlines()[0])["time"]) - before


def levanter(folder: Path) -> float:
    model = Llama(hidden=128, intermediate=384, layers=4, heads=4, kv_heads=2, seq_len=128)
    spec = faults.spec(folder / "alone", model=model, vocabulary=512, seq_len=128, batch={0: 8}, end_step=4, watch=None)
    kept = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "tmp/alone/programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return bare(spec, folder, {**child_environment(accelerator=False), **environment(folder), **kept})[1]


WAYS: dict[str, Callable[[Path], float]] = {
    "in this process": lambda folder: first_step(folder, "--backend", "inline"),
    "on Ray": lambda folder: first_step(folder, "--backend", "ray"),
    "Levanter alone": levanter,
}

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
