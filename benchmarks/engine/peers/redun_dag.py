"""redun tasks; its database is SQLite in the folder.  redun_dag.py FOLDER STEPS"""

import sys

from dag import SEED, SEED_VALUE, answer, layers, make
from redun import Scheduler, task
from redun.config import Config

redun_namespace = "bench"
FOLDER, STEPS = sys.argv[1], int(sys.argv[2])


@task()
def step(folder: str, name: str, reads: tuple[str, ...], values: tuple[str, ...]) -> str:
    return make(folder, reads, values)


@task()
def dag(folder: str, steps: int) -> list[str]:
    held = {SEED: SEED_VALUE}
    last: list[str] = []
    for layer in layers(steps):
        for node in layer:
            held[node.name] = step(folder, node.name, node.reads, tuple(held[read] for read in node.reads))
        last = [held[node.name] for node in layer]
    return last


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    settings = {"backend": {"db_uri": f"sqlite:///{FOLDER}/redun.db"}, "executors.default": {"type": "local"}}
    scheduler = Scheduler(config=Config(settings))
    scheduler.load()
    print("answer", answer(scheduler.run(dag(FOLDER, STEPS))))
