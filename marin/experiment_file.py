"""An experiment file as an importable module, so that every process can import the classes it defines."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import cast

from marin.errors import ExperimentError
from marin.experiment import Experiment
from marin.scale import Scale

type Build = Callable[[Scale], Experiment]


def load_build(path: str) -> tuple[Build, Path]:
    """``build`` of an experiment file. Raises ExperimentError naming what the file lacks."""
    source = Path(path).absolute()
    if not source.is_file():
        raise ExperimentError(f"{path}: no such experiment file")
    if source.suffix != ".py":
        raise ExperimentError(f"{path} is not a Python file; an experiment is one, e.g. experiments/exp1529_mantis.py")
    build = getattr(load_module(source), "build", None)
    if not callable(build):
        raise ExperimentError(f"{path} has no function build(scale) -> Experiment")
    return cast(Build, build), source


def importable(build: Build) -> Build:
    """The same function from its file imported by name: a worker process cannot import ``__main__``."""
    name = getattr(build, "__qualname__", "")
    if build.__module__ != "__main__" or not name.isidentifier():
        return build
    source = source_of(build)
    _leave_script_folder(source)
    return cast(Build, getattr(load_module(source), name))


def source_of(build: Build) -> Path:
    return Path(build.__code__.co_filename).absolute()  # pyright: ignore[reportFunctionMemberAccess]


def load_module(source: Path) -> ModuleType:
    """Imported under the name that the packages around it give it; the folder above them joins Python's path."""
    package = source.parent
    name = source.stem
    while (package / "__init__.py").exists():
        name = f"{package.name}.{name}"
        package = package.parent
    if str(package) not in sys.path:
        sys.path.insert(0, str(package))
    module = importlib.import_module(name)
    if module.__file__ is None or not source.samefile(module.__file__):
        raise ExperimentError(f"{source}: Python already has a module {name!r} ({module.__file__}); rename the file")
    return module


def built_by(build: Build, source: Path, scale: Scale) -> Experiment:
    """Raises ExperimentError if the file's build() gives something else."""
    built = build(scale)
    if not isinstance(cast(object, built), Experiment):
        raise ExperimentError(f"{source.name}: build() returned {type(built).__name__}; it must return an Experiment")
    return built


def _leave_script_folder(source: Path) -> None:
    """``python experiments/x.py`` puts experiments/ first on the path, where ``datasets`` would hide a package's."""
    folder = str(source.parent)
    if (source.parent / "__init__.py").exists() and folder in sys.path:
        sys.path.remove(folder)
