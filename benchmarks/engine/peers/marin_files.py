"""Copies the experiment with its own number of steps.  marin_files.py FOLDER STEPS"""

import sys
from pathlib import Path


def main(folder: str, steps: str) -> None:
    source = (Path(__file__).parent / "marin_experiment.py").read_text()
    written = source.replace("STEPS = 100\n", f"STEPS = {steps}\n").replace('FOLDER = "."\n', f"FOLDER = {folder!r}\n")
    (Path(folder) / "experiment.py").write_text(written)


main(sys.argv[1], sys.argv[2])
