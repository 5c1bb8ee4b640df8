"""luigi tasks with local targets, the local scheduler.  luigi_dag.py FOLDER STEPS"""

import os
import sys
from typing import Any

import luigi
from dag import SEED, layers, make_file

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])
NODES = {node.name: node for layer in layers(STEPS) for node in layer}


class Seed(luigi.ExternalTask):
    def output(self) -> Any:
        return luigi.LocalTarget(os.path.join(FOLDER, SEED))


class Step(luigi.Task):
    node = luigi.Parameter()

    def requires(self) -> list[Any]:
        return [Seed() if read == SEED else Step(node=read) for read in NODES[str(self.node)].reads]

    def output(self) -> Any:
        return luigi.LocalTarget(os.path.join(FOLDER, str(self.node)))

    def run(self) -> None:
        make_file(FOLDER, str(self.node), NODES[str(self.node)].reads)


if __name__ == "__main__":
    last = [Step(node=node.name) for node in list(layers(STEPS))[-1]]
    sys.setrecursionlimit(10_000)
    sys.exit(0 if luigi.build(last, local_scheduler=True, log_level="WARNING", workers=1) else 1)
