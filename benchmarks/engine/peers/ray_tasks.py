"""Plain Ray tasks that pass references: no cache, no record, nothing but the work.  ray_tasks.py FOLDER STEPS

Ray is started as marin/backends/cluster.py does: with a token, on the loopback interface, with its dashboard.
"""

import os
import secrets
import sys
from typing import Any

from dag import SEED, SEED_VALUE, answer, layers, make

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])

if __name__ == "__main__":
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))  # its workers import dag too
    import ray

    ray.init(address="local", object_store_memory=256 << 20, log_to_driver=False, logging_level="ERROR")

    @ray.remote(max_retries=0)
    def step(folder: str, reads: tuple[str, ...], *values: str) -> str:
        return make(folder, reads, values)

    held: dict[str, Any] = {SEED: SEED_VALUE}
    last: list[Any] = []
    for layer in layers(STEPS):
        for node in layer:
            held[node.name] = step.remote(FOLDER, node.reads, *(held[read] for read in node.reads))
        last = [held[node.name] for node in layer]
    print("answer", answer(ray.get(last)))
    ray.shutdown()
