"""Marin's executor of June 2026: ExecutorStep and executor_main.  marin_june_dag.py (FOLDER, STEPS in BENCH_…)"""

import os
import sys
from dataclasses import dataclass

from dag import SEED, SEED_VALUE, answer, layers, make

from marin.execution.executor import executor_main
from marin.execution.types import ExecutorStep, output_path_of, this_output_path, versioned

FOLDER, STEPS = os.environ["BENCH_FOLDER"], int(os.environ["BENCH_STEPS"])


@dataclass(frozen=True)
class StepConfig:
    name: object
    reads: object
    inputs: object
    output: object


def step(config: StepConfig) -> None:
    values: list[str] = []
    for path in config.inputs:
        with open(os.path.join(path, "value"), encoding="ascii") as handle:
            values.append(handle.read())
    made = make(FOLDER, tuple(config.reads), tuple(values) or (SEED_VALUE,))
    os.makedirs(config.output, exist_ok=True)
    with open(os.path.join(config.output, "value"), "w", encoding="ascii") as handle:
        handle.write(made)


def main() -> None:
    built: dict[str, ExecutorStep] = {}
    last: list[str] = []
    for layer in layers(STEPS):
        for node in layer:
            config = StepConfig(
                name=versioned(node.name),
                reads=versioned(list(node.reads)),
                inputs=[output_path_of(built[read]) for read in node.reads if read != SEED],
                output=this_output_path(),
            )
            built[node.name] = ExecutorStep(name=node.name, fn=step, config=config)
        last = [node.name for node in layer]
    executor_main(steps=[built[name] for name in last])
    if "--dry_run" in " ".join(sys.argv):
        return
    where = {path.rpartition("-")[0]: path for path in os.listdir(f"{FOLDER}/store")}
    held: list[str] = []
    for name in last:
        with open(f"{FOLDER}/store/{where[name]}/value", encoding="ascii") as handle:
            held.append(handle.read())
    print("answer", answer(held))


if __name__ == "__main__":
    main()
