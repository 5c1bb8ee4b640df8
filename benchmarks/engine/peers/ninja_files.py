"""Writes build.ninja: one rule, one build statement a step.  ninja_files.py FOLDER STEPS"""

import sys
from pathlib import Path

from dag import EXECUTIONS, layers


def main(folder: str, steps: int) -> None:
    lines = ["rule step", f"  command = md5sum $in > $out && printf . >> {EXECUTIONS}", "  description = $out", ""]
    lines += [f"build {node.name}: step {' '.join(node.reads)}" for layer in layers(steps) for node in layer]
    (Path(folder) / "build.ninja").write_text("\n".join(lines) + "\n")


main(sys.argv[1], int(sys.argv[2]))
