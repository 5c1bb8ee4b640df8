"""Writes a module with one function a step, as Hamilton wants it.  hamilton_module.py FOLDER STEPS"""

import sys
from pathlib import Path

from dag import layers


def main(folder: str, steps: int) -> None:
    lines = ["from dag import make", f"FOLDER = {folder!r}", ""]
    for layer in layers(steps):
        for node in layer:
            lines += [
                f"def {node.name}({', '.join(f'{read}: str' for read in node.reads)}) -> str:",
                f"    return make(FOLDER, {node.reads!r}, ({', '.join(node.reads)},))",
                "",
            ]
    (Path(folder) / "steps.py").write_text("\n".join(lines))


main(sys.argv[1], int(sys.argv[2]))
