"""Copies an experiment with its own number of steps.  marin_files.py FOLDER STEPS [FILE]"""

import sys
from pathlib import Path


def main(folder: str, steps: str, file: str = "marin_experiment.py") -> None:
    source = (Path(__file__).parent / file).read_text()
    written = source.replace("STEPS = 100\n", f"STEPS = {steps}\n").replace('FOLDER = "."\n', f"FOLDER = {folder!r}\n")
    (Path(folder) / "experiment.py").write_text(written)


main(*sys.argv[1:])
