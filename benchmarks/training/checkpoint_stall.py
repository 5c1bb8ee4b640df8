"""Measure how long a checkpoint holds up a training, and the cost of handing it over.

    ./py benchmarks/training/checkpoint_stall.py            (about 25 M parameters, 16 bytes each)

A save comes after the row of its step. The pause is therefore in the seconds of the next step, and the load of writing
in the step after next. ``complete_after`` is the cost of a save that waits.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from marin.store.files.directory import Directory  # noqa: E402
from marin.training import checkpoint  # noqa: E402
from marin.training.metrics import read_metrics  # noqa: E402
from marin.training.model import Llama  # noqa: E402
from marin.training.optimizer import Adam  # noqa: E402
from marin.training.process import Listeners, run_training  # noqa: E402
from marin.training.schedule import Schedule  # noqa: E402
from tests.training.runs import VOCABULARY, small_spec  # noqa: E402


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hidden", type=int, default=512)
    options.add_argument("--layers", type=int, default=8)
    options.add_argument("--steps", type=int, default=40)
    options.add_argument("--every", type=int, default=8)
    options.add_argument("--folder", type=Path, help="on the disk to measure; default: a temporary one")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkpoint-stall-", dir=given.folder) as folder:
        print(json.dumps(measure(Path(folder), given), indent=1))


def measure(folder: Path, given: argparse.Namespace) -> dict[str, object]:
    model = Llama(
        hidden=given.hidden, intermediate=4 * given.hidden, layers=given.layers, heads=8, kv_heads=8, seq_len=32
    )
    spec = small_spec(
        folder / "run", model=model, optimizer=Adam(peak_lr=1e-4, ema=0.9), schedule=Schedule(warmup=2),
        end_step=given.steps, checkpoint_every=given.every, max_epochs=1e3,
    )  # fmt: skip
    complete: dict[int, float] = {}
    began: dict[int, float] = {}

    def on_step(done: int, _loss: float) -> None:
        began[done] = time.monotonic()

    def on_checkpoint(done: int) -> None:
        complete[done] = time.monotonic() - began[done]

    run_training(spec, folder / "training.log", Listeners(step=on_step, checkpoint=on_checkpoint))
    rows = read_metrics(Directory(spec.state))
    steps = {row["step"]: row["seconds"] for row in rows if row["step"] >= 2}
    paused = {row["step"]: row["paused_seconds"] for row in rows if row["step"] % given.every == 0 and row["step"]}
    # A save comes after the row of its step, so its pause is in the row of the next step.
    saved = [steps[step] for step in steps if step % given.every == 0 and step]
    usual = [steps[step] for step in steps if step % given.every > 1]
    after = [steps[step] for step in steps if step % given.every == 1]
    last = checkpoint.step_directory(Directory(spec.state) / "checkpoints", given.steps)
    size = sum(last.size(name) for name in last.names())
    start = time.monotonic()
    checkpoint.copy(last, Directory(str(folder / "out")))
    return {
        "parameters": float(model.parameters(VOCABULARY)),
        "checkpoint_mib": round(size / 2**20, 1),
        "step_seconds": round(statistics.median(usual), 3),
        "step_with_save_seconds": round(statistics.median(saved), 3),
        "paused_seconds": paused,
        "step_after_seconds": round(statistics.median(after), 3),
        "complete_after_seconds": round(statistics.median(list(complete.values())), 3),
        "hand_over_seconds": round(time.monotonic() - start, 4),
    }


if __name__ == "__main__":
    main()
