"""A Metaflow flow: a foreach and a join for every layer.  Writes flow.py (FOLDER, STEPS in BENCH_…)

Written out layer by layer because Metaflow reads the graph from the source of the class.
"""

import os

from dag import LAYERS, layers, make

FOLDER = os.environ["BENCH_FOLDER"]
STEPS = int(os.environ["BENCH_STEPS"])


def fan_out(flow: object, depth: int, held: dict[str, str]) -> None:
    flow.held = held
    flow.nodes = [*layers(STEPS)][depth]


def work(flow: object) -> None:
    flow.node, reads = flow.input
    flow.value = make(FOLDER, reads, tuple(flow.held[read] for read in reads))


HEADER = '''"""Written by metaflow_dag.py."""
from dag import SEED, SEED_VALUE, answer
from metaflow import FlowSpec, step
from metaflow_dag import fan_out, work

class Dag(FlowSpec):
    @step
    def start(self):
        fan_out(self, 0, {SEED: SEED_VALUE})
        self.next(self.work0, foreach="nodes")
'''
LAYER = """
    @step
    def work{depth}(self):
        work(self)
        self.next(self.join{depth})

    @step
    def join{depth}(self, inputs):
        self.held = {{each.node: each.value for each in inputs}}
        self.next(self.{next})
"""
SPLIT = """
    @step
    def split{depth}(self):
        fan_out(self, {depth}, self.held)
        self.next(self.work{depth}, foreach="nodes")
"""
FOOTER = """
    @step
    def end(self):
        print("answer", answer([self.held[name] for name in sorted(self.held)]))

if __name__ == "__main__":
    Dag()
"""


def written() -> str:
    parts = [HEADER]
    for depth in range(LAYERS):
        if depth:
            parts.append(SPLIT.format(depth=depth))
        following = f"split{depth + 1}" if depth + 1 < LAYERS else "end"
        parts.append(LAYER.format(depth=depth, next=following))
    return "".join([*parts, FOOTER])


if __name__ == "__main__":
    with open(os.path.join(FOLDER, "flow.py"), "w", encoding="ascii") as handle:
        handle.write(written())
