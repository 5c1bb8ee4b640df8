"""Rehearse every experiment from one empty store: ``./py -m experiments.rehearse FOLDER [NAME …] [--alone]``.

Writes the answer and the duration of each experiment to rehearsed.json. FOLDER: a new folder for the store. With
--alone, each experiment has its own store in FOLDER.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from experiments.rehearsed import RunTime, answers, version_of, write
from experiments.table import FOLDER, entries
from marin.executor.events import git_revision
from marin.store.store import open_store


def rehearse(name: str, version: str, store: Path) -> RunTime:
    """Run one experiment and return its duration. Raises SystemExit if the run ends with an error."""
    before, began = os.getloadavg()[0], time.monotonic()
    code = subprocess.run([sys.executable, FOLDER / f"{name}.py", "--prefix", store], check=False).returncode
    if code:
        raise SystemExit(f"{name} ended with {code}; its output says why")
    return RunTime(
        seconds=round(time.monotonic() - began),
        version=version,
        day=time.strftime("%Y-%m-%d"),
        revision=git_revision(FOLDER)[:12],
        cores=os.cpu_count() or 0,
        load=(round(before, 1), round(os.getloadavg()[0], 1)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="exp898_raccoon …; without names all, in the table's order"
    )
    parser.add_argument("--alone", action="store_true", help="each in an empty store of its own")
    given = parser.parse_args()
    every = {entry.name: entry.rehearsal for entry in entries()}
    if strange := sorted(set(given.names) - set(every)):
        parser.error(f"no experiment is called {', '.join(strange)}; there are {', '.join(every)}")
    if given.folder.exists():
        parser.error(f"{given.folder} exists already; durations need an empty store: name a new folder")
    if given.alone:
        given.folder.mkdir(parents=True)
    for name in given.names or every:
        store = given.folder / name if given.alone else given.folder
        took = rehearse(name, version_of(every[name]), store)
        found = answers(open_store(str(store)), name, every[name])
        write(name, found, {"alone" if given.alone else "shared": took})


if __name__ == "__main__":
    main()
