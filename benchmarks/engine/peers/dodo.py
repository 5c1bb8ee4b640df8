"""doit tasks: Python actions with file dependencies and targets.  doit -f dodo.py -d FOLDER (STEPS in BENCH_STEPS)"""

import os
from collections.abc import Iterator
from typing import Any

from dag import layers, make_file

FOLDER = os.getcwd()
DOIT_CONFIG = {"verbosity": 0, "reporter": "error-only"}


def task_step() -> Iterator[dict[str, Any]]:
    for layer in layers(int(os.environ["BENCH_STEPS"])):
        for node in layer:
            yield {
                "name": node.name,
                "actions": [(make_file, [FOLDER, node.name, node.reads])],
                "file_dep": list(node.reads),
                "targets": [node.name],
            }
