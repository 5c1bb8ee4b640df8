"""Time a family: many small trainings of one shape, then their evaluations, from one run each.

    ./py benchmarks/training/family.py FOLDER [--members 64] [--steps 100] [--hidden 64] [--batch 16]

FOLDER: a new folder for the store. --hidden: width of the model, whose MLP is three times as wide. --batch: in
sequences. The trainings are proxies of exp2345_mixture's rehearsal. Prints the seconds of each part, and a digest of
all losses and scores, to compare with another commit's.
"""

# pyright: basic
from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.exp2345_mixture import search
from experiments.swarm import SIZES, Size, Swarm
from marin import Experiment, Scale, executor_main
from marin.evaluation.results import SCORES_FILE
from marin.store.inventory import read_inventory
from marin.store.store import open_store
from marin.training.metrics import TIMINGS, read_metrics
from operators.datasets import gsm8k

SIZE, PART = "FAMILY_SIZE", "FAMILY_PART"
TOKENS, TRAININGS, SCORES = "tokens", "trainings", "scores"


class Family(Swarm):
    @property
    def size(self) -> Size:
        size, given = SIZES[self.scale], json.loads(os.environ[SIZE])
        model = replace(size.model, hidden=given["hidden"], intermediate=3 * given["hidden"])
        return replace(size, proxies=given["members"], steps=given["steps"], batch=given["batch"], model=model)


def build(scale: Scale) -> Experiment:
    family = search(Family(scale=scale, items=gsm8k.test_items(scale)))
    made = {TOKENS: family.sources, TRAININGS: family.trainings, SCORES: family.scores}[os.environ[PART]]
    results = {f"{at}": step for at, step in enumerate(made)}
    return Experiment(issue=2345, question="How long does a family take?", results=results)


def digest(folder: str) -> str:
    """Return a digest of the metrics of all trainings, but for their times, and of all scores."""
    store, made = open_store(folder), hashlib.sha256()
    every = read_inventory(store).records
    for identity in sorted(every):
        output = store.output(every[identity])
        if every[identity].op == "train":
            rows = [{name: row[name] for name in row if name not in TIMINGS} for row in read_metrics(output)]
            made.update(repr([{**row, "process": None} for row in rows]).encode())
        elif every[identity].op == "evaluate":
            made.update(output.read_bytes(SCORES_FILE))
    return made.hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    for name, default in {"members": 64, "steps": 100, "hidden": 64, "batch": 16}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    environment = {**os.environ, SIZE: json.dumps(vars(given))}
    for part in (TOKENS, TRAININGS, SCORES):
        began = time.monotonic()
        command = [sys.executable, __file__, "--prefix", given.folder]
        subprocess.run(command, env={**environment, PART: part}, check=True, stdout=subprocess.DEVNULL)
        print(f"{part}: {time.monotonic() - began:.0f} s", flush=True)
    print(f"outputs {digest(given.folder)}")


if __name__ == "__main__":
    if PART in os.environ:
        executor_main(build)
    else:
        main()
