"""Seconds to plan a layered graph of trivial steps: nothing committed, then everything.

./py benchmarks/plan.py [steps, default 10000]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from marin import Artifact, Context, ExecutorStep
from marin.backends.inline import InlineBackend
from marin.experiment import Experiment
from marin.plan import Action, make_plan
from marin.scheduler import Scheduler
from marin.store import Store

LAYERS = 10


class Nothing(Artifact, kind="bench-nothing"):
    """No bytes."""


class Touch(ExecutorStep[Nothing], op="bench-touch"):
    number: int
    below: tuple[ExecutorStep[Nothing], ...] = ()

    def run(self, ctx: Context) -> Nothing:
        return Nothing()


def layered(steps: int) -> Experiment:
    width = steps // LAYERS
    layer = tuple(Touch(number=i) for i in range(width))
    for depth in range(1, LAYERS):
        layer = tuple(Touch(number=depth * width + i, below=(layer[i], layer[i - 1])) for i in range(width))
    return Experiment(issue=1, question="How fast?", results={str(i): step for i, step in enumerate(layer)})


def timed[T](what: str, work: object) -> T:
    began = time.perf_counter()
    made = work()  # type: ignore[operator]
    print(f"{what:32} {time.perf_counter() - began:8.2f} s")
    return made


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        store = Store(str(Path(folder) / "store"))
        experiment: Experiment = timed(f"build {steps} steps", lambda: layered(steps))
        plan = timed("plan, empty store", lambda: make_plan(experiment, store))
        timed("run inline", lambda: Scheduler(plan, InlineBackend(), lambda *_: None).execute())
        cached = timed("plan, everything committed", lambda: make_plan(experiment, store))
        assert len(cached.having(Action.CACHED)) == len(cached.decisions)


if __name__ == "__main__":
    main()
