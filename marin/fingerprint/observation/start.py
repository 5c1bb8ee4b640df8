"""The variables and import path with which a process of steps began, before the project's code changed them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

_variables: dict[str, str] = {}
_import_path: list[str] = []


def remember_start() -> None:
    """Keep the variables and import path. Called in a process that runs steps, before it imports their code."""
    if not _import_path:
        _variables.update(os.environ)
        _import_path.extend(sys.path)


def variables() -> Mapping[str, str]:
    """Return the variables at the start, or today's in a process that did not call ``remember_start``."""
    return _variables if _import_path else os.environ


def import_path() -> list[str]:
    return _import_path or sys.path
