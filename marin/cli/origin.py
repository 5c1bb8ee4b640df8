"""Find the experiment in this folder that made an output of the store, by the output's record."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from marin.errors import ExperimentError
from marin.steps.experiment import Experiment
from marin.steps.scale import Scale
from marin.store.inventory import Inventory
from marin.store.record import Record


def origin_of(record: Record, inventory: Inventory) -> Path:
    """Return the file of the experiment that made an output. Raises ExperimentError if it is not here."""
    stem = record.provenance.experiment
    patterns = (f"{stem}.py", f"*/{stem}.py") if stem else ()
    there = next((found for pattern in patterns if (found := sorted(Path().glob(pattern)))), list[Path]())
    if len(there) == 1:
        return there[0]
    if there:
        raise ExperimentError(f"{record.name} was made by one of {', '.join(map(str, there))}; say which: --experiment")
    by = f"by {stem}.py, which is not in this folder or one below" if stem else "by an unknown experiment"
    raise ExperimentError(
        f"{record.name} in {inventory.store.prefix} was made {by}; go to the folder of that project, or give "
        "--experiment"
    )


def module_of(file: Path) -> str:
    """Return the name under which a file in this folder imports an experiment.

    Raises ExperimentError for an experiment elsewhere.
    """
    if not file.is_file():
        raise ExperimentError(f"--experiment {file}: there is no such file")
    here = Path().absolute()
    if not file.absolute().is_relative_to(here):
        raise ExperimentError(f"{file} is not below {here}; go to the folder of its project")
    parts = file.absolute().relative_to(here).with_suffix("").parts
    if not all(part.isidentifier() for part in parts):
        raise ExperimentError(f"{file} cannot be imported: {'.'.join(parts)} is no module name")
    return ".".join(parts)


def experiment_of(module: str, file: Path, scale: Scale) -> Experiment:
    """Import an experiment as a file in this folder does, and build it."""
    from marin.steps.experiment_file import built_by, explained

    if (here := str(Path().absolute())) not in sys.path:
        sys.path.insert(0, here)
    with explained(file):
        build = importlib.import_module(module).build
    return built_by(build, file, scale)
