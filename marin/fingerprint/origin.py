"""Whose code a file or a module holds: the project's, the engine's, Python's, or an installed package's.

Following code stops at the engine: it decides when code runs, not what it makes, and its own formats carry versions.
Following it would make every output of a lab drift with each release of the executor. So in ``marin`` only the library
is followed; a test holds what operators and the library import of the rest.
"""

from __future__ import annotations

import functools
import os
import sysconfig
from enum import Enum
from pathlib import Path

# In ``marin`` only these are library: code that experiments are made of. All else there is engine.
LIBRARY = frozenset({"data", "evaluation", "text", "training"})
INSTALLED = {"site-packages", "dist-packages"}
_MARIN = f"{Path(__file__).parents[1]}{os.sep}"
_OPENS_FOR_OTHERS = f"store{os.sep}files{os.sep}"  # of the engine: opens what it is told to


class Origin(Enum):
    """GENERATED: text that some code made and ran; it belongs to whoever called it. IMPORT: Python's import system."""

    PROJECT = "project"
    ENGINE = "engine"
    PYTHON = "python"
    PACKAGE = "package"
    GENERATED = "generated"
    IMPORT = "import"


def is_engine(module: str) -> bool:
    """Whether a dotted module belongs to the engine."""
    top, _, rest = module.partition(".")
    return top == "marin" and rest != "" and rest.split(".")[0] not in LIBRARY  # marin/__init__ only passes names on


def is_local(path: Path | str) -> bool:
    """Whether a file lies neither in the standard library nor in a folder of installed packages."""
    file = str(path)
    if any(name in file and name in Path(file).parts for name in INSTALLED):
        return False
    return not f"{file}{os.sep}".startswith(_standard_library())


@functools.lru_cache(maxsize=100_000)
def origin_of(filename: str) -> Origin:
    """By the file name that a code object tells."""
    if filename.startswith("<frozen importlib"):
        return Origin.IMPORT
    if filename.startswith("<frozen "):
        return Origin.PYTHON
    if filename.startswith("<"):
        return Origin.GENERATED
    if filename.startswith(_MARIN):
        inside = filename.removeprefix(_MARIN)
        if inside.startswith(_OPENS_FOR_OTHERS):
            return Origin.GENERATED
        part = inside.split(os.sep)[0].removesuffix(".py")
        return Origin.PROJECT if part in LIBRARY else Origin.ENGINE
    if is_local(filename):
        return Origin.PROJECT
    return Origin.PYTHON if not any(name in filename for name in INSTALLED) else Origin.PACKAGE


@functools.cache
def _standard_library() -> tuple[str, ...]:
    paths = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")]
    return tuple({f"{path}{os.sep}" for path in (*paths, *(path.resolve() for path in paths))})
