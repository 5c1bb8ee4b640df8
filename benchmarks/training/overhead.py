"""Measure the cost of our trainer on top of a bare Levanter run, and of watching the weights and held-out text.

    ./py benchmarks/training/overhead.py [STEPS]

Steps take about 40 ms or about 500 ms on two quiet cores. Three runs have the same model, optimizer and batches:
Levanter's Trainer alone on one batch in memory; our trainer; our trainer with a Watch every 20 steps. The table has
medians of the steps after the first twenty, and the Watch's share of the whole time.
"""

# pyright: basic
from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from marin.store.files.directory import Directory
from marin.training.metrics import read_metrics
from marin.training.model import Llama
from marin.training.process import Listeners, child_environment, run_training
from marin.training.spec import TrainingSpec, from_json, to_json
from tests.training import faults

FIRST = 20  # steps that are not counted
SIZES: dict[str, dict[str, Any]] = {  # about so long is a step
    "40 ms": {"hidden": 64, "intermediate": 192, "layers": 3},
    "500 ms": {"hidden": 256, "intermediate": 768, "layers": 6},
}


def main(steps: int) -> None:
    for name, sizes in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            model = Llama(heads=4, kv_heads=2, seq_len=faults.SEQ_LEN, **sizes)
            spec = faults.spec(
                Path(folder), model=model, end_step=steps, checkpoint_every=steps, watch=None, batch={0: 32}, block=32,
                max_epochs=1000.0,
            )  # fmt: skip
            watch = dataclasses.replace(faults.spec(Path(folder)).watch, every=20)
            alone, _ = bare(spec, Path(folder))
            rows = ours(spec, Path(folder))
            watched = ours(dataclasses.replace(spec, watch=watch), Path(folder))
        own = statistics.median(row["seconds"] - row["paused_seconds"] for row in rows)
        looked = sum(row.get("watch_seconds", 0) for row in watched) / sum(row["seconds"] for row in watched)
        norms = sum(row.get("watch_seconds", 0) for row in rows) / sum(row["seconds"] for row in rows)
        print(
            f"{name}: Levanter alone {1e3 * alone:.1f} ms, ours {1e3 * own:.1f} ms ({own / alone - 1:+.1%}); "
            f"norms {norms:.2%} of the time, with held-out text {looked:.2%}",
            flush=True,
        )


def ours(spec: TrainingSpec, folder: Path) -> list[dict[str, Any]]:
    """The rows after the first steps."""
    spec = dataclasses.replace(spec, state=str(folder / f"state-{spec.watch is not None}"))
    run_training(spec, folder / "training.log", Listeners())
    return read_metrics(Directory(spec.state))[FIRST:]


def bare(spec: TrainingSpec, folder: Path, environment: dict[str, str] | None = None) -> tuple[float, float]:
    """Run Levanter's Trainer in a new process; return median seconds of a step, and seconds until the first is done."""
    (folder / "spec.json").write_text(to_json(spec))
    before = time.time()
    done = subprocess.run(
        [sys.executable, __file__, "bare", str(folder / "spec.json")],
        env=environment or child_environment(accelerator=False), check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    usual, first = json.loads(done.stdout.splitlines()[-1])
    return usual, first - before


def measure_bare(spec: TrainingSpec, first: int = FIRST) -> tuple[float, float]:
    """Return the median seconds of the steps after ``first``, and when the first step was done."""
    import haliax as hax
    import jax
    import jax.numpy as jnp
    import jmp
    from levanter.layers.attention import AttentionMask
    from levanter.models.lm_model import LmExample
    from levanter.tracker.tracker import NoopConfig
    from levanter.trainer import Trainer, TrainerConfig

    from marin.training.levanter_model import build_model
    from marin.training.levanter_optimizer import averaging, build_optimizer
    from marin.training.trainer import POLICIES

    config = TrainerConfig(
        id="bare", seed=0, mp=jmp.get_policy(POLICIES[spec.precision]), model_averaging=averaging(spec.optimizer),
        tracker=NoopConfig(), num_train_steps=spec.end_step, load_checkpoint=False, log_jaxprs=False, log_xla_hlo=False,
    )  # fmt: skip

    def loss(model: Any, example: Any, key: Any = None, **_: Any) -> Any:
        return model.compute_next_token_loss(example, key=key, logsumexp_weight=spec.optimizer.z_loss)

    axes = hax.Axis("batch", spec.batch[0]), hax.Axis("position", spec.seq_len)
    optimizer = build_optimizer(spec.optimizer, spec.schedule)
    with Trainer(config, optimizer, loss, add_default_hooks=False) as trainer:
        tokens = hax.random.randint(jax.random.PRNGKey(1), axes, 1, spec.vocabulary).astype(jnp.int32)
        example = LmExample(tokens=tokens, loss_weight=hax.ones(axes), attn_mask=AttentionMask.causal())
        key = jax.random.PRNGKey(0)
        state = trainer.initial_state(key, model_init=lambda: build_model(spec.model, spec.vocabulary, key))
        seconds: list[float] = []
        before = time.monotonic()
        for _ in trainer.training_steps(state, itertools.repeat(example)):
            if not seconds:
                at_first = time.time()
            seconds.append(time.monotonic() - before)
            before = time.monotonic()
    return statistics.median(seconds[first:] or seconds), at_first


if __name__ == "__main__":
    if sys.argv[1:2] == ["bare"]:
        print(json.dumps(measure_bare(from_json(Path(sys.argv[2]).read_text()))), flush=True)
        import os

        os._exit(0)  # Levanter's threads would hold the interpreter up
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
