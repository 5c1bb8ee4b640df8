"""Tell the origin of a file or module: the project, the engine, Python, or an installed package.

Fingerprints do not follow code into the engine. The engine decides when code runs and does not change its output, and
its formats carry versions. Otherwise every output of a lab would drift with each release of the executor. So in
``marin`` only the library is followed. A test limits the engine modules that operators and the library may import.
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
_OPENS_FOR_OTHERS = f"store{os.sep}files{os.sep}"  # part of the engine that opens files for its callers


class Origin(Enum):
    """The owner of code. GENERATED: text that some code made and ran, and that belongs to its caller.

    IMPORT: Python's import system.
    """

    PROJECT = "project"
    ENGINE = "engine"
    PYTHON = "python"
    PACKAGE = "package"
    GENERATED = "generated"
    IMPORT = "import"


@functools.cache
def is_engine(module: str) -> bool:
    """Return whether a dotted module belongs to the engine."""
    top, _, rest = module.partition(".")
    return top == "marin" and rest != "" and rest.split(".")[0] not in LIBRARY  # marin/__init__ only passes names on


def is_local(path: Path | str) -> bool:
    """Return whether a file lies neither in the standard library nor in a folder of installed packages."""
    file = str(path)
    if any(name in file and name in Path(file).parts for name in INSTALLED):
        return False
    return not f"{file}{os.sep}".startswith(_standard_library())


@functools.lru_cache(maxsize=100_000)
def origin_of(filename: str) -> Origin:
    """Return the origin of code by the file name of its code object."""
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
