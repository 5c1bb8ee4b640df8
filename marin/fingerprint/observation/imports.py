"""Modules of the project as this process imported them: their code, their files and the constants that they bound."""

from __future__ import annotations

import inspect
import sys
from types import CodeType
from typing import Any, NamedTuple

from marin.fingerprint.observation.observation import Stamp, stamp_of
from marin.fingerprint.origin import Origin, origin_of

_CONSTANTS = (int, float, bool, str, bytes, type(None), tuple)


class Imported(NamedTuple):
    """A module as this process ran it, and its file as it then was.

    code: None if that ran before anybody listened. constants: the values that its names had when its import ended.
    """

    code: CodeType | None
    stamp: Stamp
    constants: dict[str, Any]


_imported_as: dict[str, Imported] = {}  # by file


def imported_as(file: str) -> Imported | None:
    """Return how a module of the project was imported. file: as the module has it."""
    return _imported_as.get(file)


def edited() -> bool:
    """Return whether the file of any imported module of the project changed since its import."""
    return any(held.stamp != stamp_of(file) for file, held in list(_imported_as.items()))


def remember_imported() -> None:
    """Note the modules that were imported before anybody listened."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and origin_of(file) is Origin.PROJECT:
            _imported_as[file] = Imported(None, stamp_of(file), {})


def import_begins(code: CodeType, tool: int) -> None:
    """Note a module whose code is about to run. tool: the number of marin's tool in ``sys.monitoring``."""
    _imported_as[code.co_filename] = Imported(code, stamp_of(code.co_filename), {})
    sys.monitoring.set_local_events(tool, code, sys.monitoring.events.PY_RETURN)


def import_ended(code: CodeType, _offset: int, _value: Any) -> Any:
    """Keep the constants that a module has bound by itself. Called by ``sys.monitoring`` when its code returns."""
    here = inspect.currentframe()
    frame, held = here.f_back if here is not None else None, _imported_as.get(code.co_filename)
    if frame is not None and frame.f_code is code and held is not None:
        held.constants.update((name, value) for name, value in frame.f_locals.items() if type(value) in _CONSTANTS)
    return sys.monitoring.DISABLE
