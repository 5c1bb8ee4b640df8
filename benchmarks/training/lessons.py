"""Test the lessons of the retrospectives at small scale, each with a control, over several seeds.

    ./py benchmarks/training/lessons.py [SEEDS]

A Llama of two layers learns arithmetic sequences for 300 steps; a run takes some ten seconds on one core. The effect is
the difference between two runs of the same seed that differ in one thing. A lesson shows if the 95 % interval over
seeds (Student's t) leaves out 0; otherwise the table says that it does not show.
"""

# pyright: basic
from __future__ import annotations

import dataclasses
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scipy.stats import t as student

from marin.errors import NonFiniteLoss
from marin.store.files.directory import Directory
from marin.training.checkpoint import step_directory
from marin.training.metrics import read_metrics
from marin.training.model import Architecture
from marin.training.optimizer import Adam
from marin.training.process import Listeners, run_training
from marin.training.schedule import Cycles, Decay, Rewarmup, Schedule
from marin.training.spec import Start, StartMode, TrainingSpec
from tests.training import faults

QWEN3 = dataclasses.replace(faults.MODEL, architecture=Architecture.QWEN3)
ADAM = Adam(peak_lr=3e-3, max_grad_norm=1.0, ema=0.95)
BARE = dataclasses.replace(ADAM, max_grad_norm=None, clip_update_norm=None, skip_bad_steps=None)
HELD_OUT, AVERAGED = "held_out/micro_loss", "held_out_ema/micro_loss"
HALF = 200  # where forks begin
BAD = range(150, 156)

Rows = list[dict[str, Any]]
Effects = dict[str, float]


def ran(spec: TrainingSpec) -> Rows:
    """Rows of a run; of one that diverges until then."""
    with suppress(NonFiniteLoss):
        run_training(spec, Path(spec.state).parent / "training.log", Listeners())
    return read_metrics(Directory(spec.state))


def at(rows: Rows, step: int, metric: str = HELD_OUT) -> float:
    """As of the first look after so many steps; a run that diverged before knows nothing."""
    found = (row[metric] for row in rows if row["step"] + 1 >= step and metric in row)
    return next(found, math.log(faults.VOCABULARY))


def forked(parent: TrainingSpec, folder: Path, mode: StartMode, **changes: Any) -> TrainingSpec:
    checkpoint = step_directory(Directory(parent.state) / "checkpoints", HALF).url
    start = Start(mode=mode, checkpoint=checkpoint)
    return faults.spec(folder, first_step=HALF, seed=parent.seed, start=start, **changes)


def z_loss(folder: Path, seed: int) -> Effects:
    def grown(weight: float) -> tuple[float, float]:
        decay = Schedule(warmup=20, decay=Decay(100, faults.STEPS))
        recipe = dataclasses.replace(ADAM, z_loss=weight)
        rows = ran(faults.spec(folder / f"z-{weight}", seed=seed, optimizer=recipe, schedule=decay))
        head = at(rows, faults.STEPS, "norm/lm_head") / at(rows, 100, "norm/lm_head")
        return head, at(rows, faults.STEPS, "held_out/log_z")

    without, control = grown(0.0), grown(1e-4)
    return {
        "no z-loss in a deep cooldown: growth of the lm_head norm": without[0] - control[0],
        "no z-loss in a deep cooldown: log Z at its end": without[1] - control[1],
    }


def ema_gap(folder: Path, seed: int) -> Effects:
    def gap(name: str, schedule: Schedule) -> float:
        rows = ran(faults.spec(folder / name, seed=seed, optimizer=ADAM, schedule=schedule))
        return at(rows, faults.STEPS) - at(rows, faults.STEPS, AVERAGED)

    held = gap("hold", Schedule(warmup=20))
    return {
        "EMA over the weights at the peak rate (held-out loss)": held,
        "EMA gap that a cooldown closes": held - gap("decay", Schedule(warmup=20, decay=Decay(100, faults.STEPS))),
    }


def warm_start(folder: Path, seed: int) -> Effects:
    llama = faults.spec(folder / "llama", seed=seed, optimizer=ADAM, end_step=HALF)
    ran(llama)
    same = ran(forked(llama, folder / "same", StartMode.ALL, optimizer=ADAM))
    qwen = ran(forked(llama, folder / "qwen", StartMode.WARM_ALL, optimizer=ADAM, model=QWEN3))
    return {
        f"Llama → QK-Norm: held-out loss after {steps} steps": at(qwen, HALF + steps) - at(same, HALF + steps)
        for steps in (5, faults.STEPS - HALF)
    }


def qk_norm(folder: Path, seed: int) -> Effects:
    def end(model: Any, rate: float) -> float:
        recipe = dataclasses.replace(BARE, peak_lr=rate)
        name = f"{model.architecture.value}-{rate}"
        return at(ran(faults.spec(folder / name, seed=seed, optimizer=recipe, model=model)), faults.STEPS)

    return {
        f"no QK-Norm at a peak rate of {rate:g}: held-out loss": end(faults.MODEL, rate) - end(QWEN3, rate)
        for rate in (3e-3, 1e-1)
    }


def guards(folder: Path, seed: int) -> Effects:
    def after(name: str, recipe: Adam) -> float:
        recipe = dataclasses.replace(recipe, peak_lr=1e-2)
        return at(ran(faults.poisoned(folder / name, BAD, seed=seed, optimizer=recipe)), BAD[-1] + 5)

    guarded = after("guarded", ADAM)
    return {
        "bad batches, no guard: held-out loss after them": after("bare", BARE) - guarded,
        "bad batches, gradient clipping alone": after("grad", dataclasses.replace(BARE, max_grad_norm=1.0)) - guarded,
        "bad batches, skipping alone": after("skip", dataclasses.replace(BARE, skip_bad_steps=ADAM.skip_bad_steps))
        - guarded,
    }


def rewarm(folder: Path, seed: int) -> Effects:
    cycle = Schedule(warmup=20, cycles=Cycles(HALF, 100, HALF), floor=0.1)
    cooled = faults.spec(folder / "cooled", seed=seed, optimizer=ADAM, schedule=cycle, end_step=HALF)
    ran(cooled)
    low = ran(forked(cooled, folder / "low", StartMode.ALL, optimizer=ADAM, schedule=cycle))
    again = dataclasses.replace(cycle, rewarmups=(Rewarmup(HALF, 10),))
    high = ran(forked(cooled, folder / "high", StartMode.ALL, optimizer=ADAM, schedule=again))
    return {f"rewarm after a cooldown: held-out loss after {n} steps": at(high, HALF + n) - at(low, HALF + n) for n in (
        20, faults.STEPS - HALF)}  # fmt: skip


LESSONS: tuple[Callable[[Path, int], Effects], ...] = (z_loss, ema_gap, warm_start, qk_norm, guards, rewarm)


def main(seeds: int) -> None:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"  # two runs side by side on two cores
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        print(f"| {seeds} seeds | effect | 95 % | |\n|---|---:|---|---|", flush=True)
        for lesson in LESSONS:
            each = list(pool.map(lambda seed, of=lesson: of(Path(folder, of.__name__, str(seed)), seed), range(seeds)))
            for name in each[0]:
                held = [found[name] for found in each]
                mean = statistics.fmean(held)
                wide = float(student.ppf(0.975, seeds - 1)) * statistics.stdev(held) / math.sqrt(seeds)
                shows = "shows" if abs(mean) > wide else "does not show"
                print(f"| {name} | {mean:+.4f} | {mean - wide:+.4f} … {mean + wide:+.4f} | {shows} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
