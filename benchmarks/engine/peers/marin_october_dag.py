"""Marin's runner of October 2026: StepSpec and StepRunner.  marin_october_dag.py FOLDER STEPS"""

import os
import sys

from dag import SEED, SEED_VALUE, answer, layers, make

from marin.execution.step_runner import StepRunner
from marin.execution.step_spec import StepSpec

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])


def step_of(name: str, reads: tuple[str, ...], built: dict[str, StepSpec]) -> StepSpec:
    deps = [built[read] for read in reads if read != SEED]

    def step(output: str) -> None:
        values = tuple(read_value(dep.output_path) for dep in deps) or (SEED_VALUE,)
        os.makedirs(output, exist_ok=True)
        with open(os.path.join(output, "value"), "w", encoding="ascii") as handle:
            handle.write(make(FOLDER, reads, values))

    return StepSpec(name=name, output_path_prefix=f"{FOLDER}/store", deps=deps, hash_attrs={"reads": reads}, fn=step)


def read_value(output: str) -> str:
    with open(os.path.join(output, "value"), encoding="ascii") as handle:
        return handle.read()


if __name__ == "__main__":
    built: dict[str, StepSpec] = {}
    last: list[StepSpec] = []
    for layer in layers(STEPS):
        for node in layer:
            built[node.name] = step_of(node.name, node.reads, built)
        last = [built[node.name] for node in layer]
    dry = "--dry-run" in sys.argv
    StepRunner().run(last, dry_run=dry)
    if not dry:
        print("answer", answer([read_value(spec.output_path) for spec in last]))
