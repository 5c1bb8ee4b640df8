"""Load experiment files as importable modules, so that every process can import their classes; explain their errors."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import cast

from marin.errors import ExperimentError, MarinError, missing_dependency
from marin.steps.encoding import is_written_here
from marin.steps.experiment import MARIN, Experiment
from marin.steps.our_packages import BESIDE, must_be_found
from marin.steps.scale import Scale

_OURS = Path(__file__).parents[2] / "experiments"
# A name or a token before the host must not enter a link.
_ORIGIN = re.compile(r"(?:(?:https?|ssh|git)://)?(?:[^@/\s]+@)?([\w.-]+\.\w+)(?::\d+)?[:/]([\w./~-]+?)(?:\.git)?/?")

type Build = Callable[[Scale], Experiment]


def load_build(path: str) -> tuple[Build, Path]:
    """Return ``build`` of an experiment file. Raises ExperimentError naming the missing part of the file."""
    source = Path(path).absolute()
    if source.is_dir():
        raise ExperimentError(f"{path} is a folder; wanted an experiment file{_experiments_in(source)}")
    if not source.is_file():
        raise ExperimentError(f"{path}: no such experiment file{near_files(source)}")
    if source.suffix != ".py":
        raise ExperimentError(f"{path} is not a Python file; an experiment is one, e.g. experiments/exp1529_mantis.py")
    with explained(source):
        build = getattr(load_module(source), "build", None)
    if not callable(build):
        raise ExperimentError(f"{path} has no function build(scale) -> Experiment")
    return cast(Build, build), source


def near_files(source: Path) -> str:
    """Return "; did you mean experiments/exp1529_mantis.py?", or "". Looks beside the file and one folder below."""
    there = [*source.parent.glob("*.py"), *source.parent.glob("*/*.py")] if source.parent.is_dir() else []
    names = difflib.get_close_matches(source.name, {path.name for path in there}, n=2, cutoff=0.6)
    near = sorted((path for path in there if path.name in names), key=lambda path: names.index(path.name))[:2]
    return f"; did you mean {' or '.join(_relative(str(path)) for path in near)}?" if near else ""


def _experiments_in(folder: Path) -> str:
    found = sorted(folder.glob("exp*.py"))[:3]
    return f", such as {' or '.join(_relative(str(path)) for path in found)}" if found else ""


def importable(build: Build) -> Build:
    """Return the same function from its file, imported by name: a worker process cannot import ``__main__``."""
    name = getattr(build, "__qualname__", "")
    if build.__module__ != "__main__" or not name.isidentifier():
        return build
    source = source_of(build)
    # ``python experiments/x.py`` puts experiments/ first, where its ``datasets`` would hide the package ``datasets``.
    if (source.parent / "__init__.py").exists() and str(source.parent) in sys.path:
        sys.path.remove(str(source.parent))
    return cast(Build, getattr(load_module(source), name))


def source_of(build: Build) -> Path:
    return Path(build.__code__.co_filename).absolute()  # pyright: ignore[reportFunctionMemberAccess]


def load_module(source: Path) -> ModuleType:
    """Import a file under the name that its packages give it. The folder above the packages joins Python's path."""
    package = source.parent
    name = source.stem
    while (package / "__init__.py").exists():
        name = f"{package.name}.{name}"
        package = package.parent
    if str(package) not in sys.path:
        sys.path.insert(0, str(package))
        must_be_found()
    module = importlib.import_module(name)
    if module.__file__ is None or not source.samefile(module.__file__):
        raise ExperimentError(f"{source}: Python already has a module {name!r} ({module.__file__}); rename the file")
    return module


def built_by(build: Build, source: Path, scale: Scale) -> Experiment:
    """Build the experiment. Raises ExperimentError if the file's build() returns something else."""
    try:
        inspect.signature(build).bind(scale)
    except TypeError as error:
        raise ExperimentError(
            f"{source.name}: build{inspect.signature(build)} cannot be called with the scale alone ({error}); write "
            "def build(scale: Scale) -> Experiment"
        ) from error
    with explained(source):
        built = build(scale)
    if not isinstance(cast(object, built), Experiment):
        raise ExperimentError(f"{source.name}: build() returned {type(built).__name__}; it must return an Experiment")
    return built if built.repository is not None else built.of(_repository_of(source))


def _repository_of(source: Path) -> str:
    """Return the repository of a file's issues: marin's, or the origin of the clone; "" if it is not on the web."""
    if source.is_relative_to(_OURS):
        return MARIN
    try:
        asked = ["git", "-C", str(source.parent), "config", "--get", "remote.origin.url"]
        origin = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _ORIGIN.fullmatch(origin)
    return f"https://{found[1]}/{found[2]}" if found else ""


@contextmanager
def explained(source: Path) -> Generator[None]:
    """Turn every exception of the experiment's code into a MarinError that names the line.

    A MarinError keeps its class and gets the line as a note. Any other exception becomes an ExperimentError.
    """
    try:
        yield
    except MarinError as error:
        folder = str(source.parent) + os.sep
        if places := _places(error, source, lambda filename: filename.startswith(folder)):
            error.add_note(places)
        raise
    except SyntaxError as error:
        where = f"{_relative(error.filename or str(source))}:{error.lineno}"
        code = f"\n    {error.text.strip()}" if error.text else ""
        raise ExperimentError(f"{where}: {error.msg}{code}") from error
    except SystemExit as error:
        raise ExperimentError(
            f"{_relative(str(source))} ends Python (code {error.code}) when it is imported; move the call that does so "
            "below `if __name__ == '__main__':`"
        ) from error
    except Exception as error:
        if (missing := missing_dependency(error, _relative(str(source)))) is not None:
            raise missing from error
        places = _places(error, source, is_written_here) or f"  in {_relative(str(source))}"
        raise ExperimentError(f"{_described(error)}\n{places}") from error


def _described(error: Exception) -> str:
    """Return ``Type: message`` of an error in an experiment file, with a similar name if there is one."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"ModuleNotFoundError: {error}{_near_module(error.name)}"
    if isinstance(error, ImportError) and error.name and error.name_from:
        near = difflib.get_close_matches(error.name_from, dir(sys.modules.get(error.name)), n=1)
        return f"ImportError: {error}{f'; did you mean {near[0]}?' if near else ''}"
    # Python itself suggests names of variables and attributes.
    return "".join(traceback.TracebackException.from_exception(error).format_exception_only()).strip()


def _near_module(name: str) -> str:
    """Return "; did you mean operators.filter?" for a module that is not found, or ""."""
    package, _, last = name.rpartition(".")
    inside = getattr(sys.modules.get(package), "__path__", ())
    known = [found.name for found in pkgutil.iter_modules(inside)] if package else ["marin", *BESIDE]
    near = difflib.get_close_matches(last, known, n=1)
    return f"; did you mean {'.'.join(filter(None, (package, *near)))}?" if near else ""


def _places(error: BaseException, source: Path, counts: Callable[[str], bool]) -> str:
    """Return the innermost line of the files that count, and the line of the experiment file that led there."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if counts(frame.filename)]
    lines = [f"  at {_place(frame)}" for frame in frames[-1:]]
    own = [frame for frame in frames[:-1] if frame.filename == str(source)]
    if own and frames[-1].filename != str(source):
        lines.append(f"  called at {_place(own[-1])}")
    return "\n".join(lines)


def _place(frame: traceback.FrameSummary) -> str:
    return f"{_relative(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line}"


def _relative(filename: str) -> str:
    here = os.path.relpath(filename)
    return filename if here.startswith("..") else here
