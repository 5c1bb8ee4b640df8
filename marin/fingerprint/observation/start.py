"""How a process that only runs steps began: its variables and import path, before the project's code changed them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

_variables: dict[str, str] = {}
_import_path: list[str] = []


def remember_start() -> None:
    """In such a process, before it imports what it runs."""
    if not _import_path:
        _variables.update(os.environ)
        _import_path.extend(sys.path)


def variables() -> Mapping[str, str]:
    """As they are, in a process that did not say ``remember_start``."""
    return _variables if _import_path else os.environ


def import_path() -> list[str]:
    return _import_path or sys.path
