"""A Prefect flow: tasks cached by their inputs, results persisted on disk.  prefect_flow.py FOLDER STEPS"""

import sys
from pathlib import Path

from dag import SEED, SEED_VALUE, answer, layers, make
from prefect import flow, task
from prefect.cache_policies import INPUTS

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])


@task(cache_policy=INPUTS - "folder", persist_result=True, log_prints=False)
def step(folder: str, name: str, reads: tuple[str, ...], values: tuple[str, ...]) -> str:
    return make(folder, reads, values)


@flow(log_prints=False)
def dag() -> str:
    held: dict[str, str] = {SEED: SEED_VALUE}
    last: list[str] = []
    for layer in layers(STEPS):
        for node in layer:
            held[node.name] = step(FOLDER, node.name, node.reads, tuple(held[read] for read in node.reads))
        last = [node.name for node in layer]
    return answer([held[name] for name in last])


if __name__ == "__main__":
    Path(FOLDER).mkdir(exist_ok=True)
    print("answer", dag())
