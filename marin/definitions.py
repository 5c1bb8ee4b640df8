"""Whether two classes are one definition."""

from __future__ import annotations

import os
import sys


def same_definition(one: type, other: type) -> bool:
    """Whether two classes come from one class statement: a module that was loaded twice has two of each."""
    if one is other:
        return True
    if one.__qualname__ != other.__qualname__:
        return False
    return one.__module__ == other.__module__ or bool(_file_of(one) and _file_of(one) == _file_of(other))


def _file_of(cls: type) -> str:
    """``__main__`` and the module that other processes import are one file."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return os.path.realpath(file) if file else ""
