"""Suggest the name that an experiment's code may have meant."""

from __future__ import annotations

import difflib
import pkgutil
import sys
from pathlib import Path
from traceback import TracebackException

from marin.steps.our_packages import BESIDE, RENAMED

OURS = ("marin", *BESIDE)


def described(error: Exception, source: Path) -> str:
    """Return ``Type: message`` of an error in an experiment file, with a similar name if there is one."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"ModuleNotFoundError: {error}{_module_hint(error.name, source)}"
    if isinstance(error, ImportError) and error.name and error.name_from:
        near = difflib.get_close_matches(error.name_from, dir(sys.modules.get(error.name)), n=1)
        return f"ImportError: {error}{f'; did you mean {near[0]}?' if near else ''}"
    if isinstance(error, (AttributeError, NameError)):  # Python itself suggests names for these
        return "".join(TracebackException.from_exception(error).format_exception_only()).strip()
    return f"{type(error).__name__}: {error}"


def _module_hint(name: str, source: Path) -> str:
    parts = name.split(".")
    searched = {Path(entry or ".").resolve() for entry in sys.path}
    for folder in source.resolve().parents[:3]:
        if folder not in searched and ((folder / parts[0]).is_dir() or (folder / f"{parts[0]}.py").is_file()):
            return (
                f"; it lies in {folder}, where Python does not look: move {source.name} there, or set PYTHONPATH to it"
            )
    if parts[0] in RENAMED:
        return f"; it is called {RENAMED[parts[0]]} now"
    if "datasets" in parts:
        return "; did you mean operators.datasets?"
    parent, _, last = name.rpartition(".")
    path = getattr(sys.modules.get(parent), "__path__", None)
    if path is None:  # the top-level package is not found
        near = ".".join([*difflib.get_close_matches(parts[0], OURS, n=1), *parts[1:]])
        return f"; did you mean {near}?" if near.split(".")[0] in OURS else ""
    near = difflib.get_close_matches(last, [found.name for found in pkgutil.iter_modules(path)], n=1)
    return f"; did you mean {parent}.{near[0]}?" if near else ""
