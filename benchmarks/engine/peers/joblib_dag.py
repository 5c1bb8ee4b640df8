"""joblib.Memory around the step function, called in order.  joblib_dag.py FOLDER STEPS"""

import sys

from dag import SEED, SEED_VALUE, answer, layers, make
from joblib import Memory

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])
memory = Memory(f"{FOLDER}/cache", verbose=0)


@memory.cache(ignore=["folder"])
def step(folder: str, name: str, reads: tuple[str, ...], values: tuple[str, ...]) -> str:
    return make(folder, reads, values)


if __name__ == "__main__":
    held: dict[str, str] = {SEED: SEED_VALUE}
    last: list[str] = []
    for layer in layers(STEPS):
        for node in layer:
            held[node.name] = step(FOLDER, node.name, node.reads, tuple(held[read] for read in node.reads))
        last = [node.name for node in layer]
    print("answer", answer([held[name] for name in last]))
