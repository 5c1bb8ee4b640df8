"""Names that classes carry into identities and records: one class for each.

An operator's ``op``, a value's tag and an artifact's kind stand for the class in every identity and record. If two
classes had one name, the output of the first would be served as the result of the second.
"""

from __future__ import annotations

import dataclasses
import gc
import inspect
import os
import re
import sys
from enum import StrEnum
from typing import Any
from weakref import ref

from marin.errors import ExperimentError

# Control characters, line and paragraph separators, what turns the direction of the text around it, half characters.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


_FILE = "__marin_file__"  # on a class: the file of its class statement


class Namespace(StrEnum):
    """The kinds of names that classes carry."""

    OPERATOR = "op"
    VALUE = "value tag"
    ARTIFACT = "artifact kind"


_DEFINITIONS: dict[tuple[Namespace, str], tuple[ref[type], str]] = {}  # the class, and its place


def define(namespace: Namespace, name: str, cls: type) -> None:
    """Give a class its name. Called while its class statement runs.

    If the same class comes again (its module was reloaded, a notebook's cell was run twice), it replaces the old one.
    Raises ExperimentError naming both places if another class that is still in use has the name.
    """
    if strange := unprintable(name):
        raise ExperimentError(f"{cls.__qualname__}: its {namespace} is {name!r}, which holds {strange}; use plain text")
    file, line = _place_of(cls)
    setattr(cls, _FILE, file)
    here = f"{cls.__module__}.{cls.__qualname__} ({file}:{line})"
    known, there = _DEFINITIONS.get((namespace, name), (ref(cls), here))
    if _is_other(known, cls):
        gc.collect()  # a class refers to itself, so one that nobody uses any more may still be there
        if _is_other(known, cls):
            raise ExperimentError(
                f"two classes have the {namespace} {name!r}: {there} and {here}. It stands for the class in "
                "every identity and record, so the output of one would be taken for the other's; give one another name"
            )
    _DEFINITIONS[namespace, name] = ref(cls), here


def must_be_free(cls: type[Any], root: type[Any]) -> None:
    """Raise ExperimentError if a field has the name of an attribute that every ``root`` has, and would hide it."""
    fields: set[str] = {spec.name for spec in dataclasses.fields(root)} if dataclasses.is_dataclass(root) else set()
    for name in (vars(root).keys() - fields).intersection(spec.name for spec in dataclasses.fields(cls)):
        raise ExperimentError(
            f"{cls.__qualname__}.{name}: every {root.__name__} has an attribute of that name, which the field would "
            "hide; give the field another name"
        )


def same_definition(one: type, other: type) -> bool:
    """Return whether two classes come from one class statement: a module that was loaded twice has each class twice."""
    if one is other:
        return True
    if one.__qualname__ != other.__qualname__:
        return False
    return one.__module__ == other.__module__ or bool(_file_of(one) and _file_of(one) == _file_of(other))


def _is_other(known: ref[type], cls: type) -> bool:
    before = known()
    return before is not None and not same_definition(before, cls)


def _file_of(cls: type) -> str:
    """Return the file of a class: the same for ``__main__`` and for the imported module of a file.

    Under a profiler, ``__main__`` is the profiler.
    """
    file = cls.__dict__.get(_FILE) or getattr(sys.modules.get(cls.__module__), "__file__", None)
    return os.path.realpath(file) if file else ""


def _place_of(cls: type) -> tuple[str, int]:
    """Return file and line of the class statement: the innermost frame that runs code of the class's own module."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") != cls.__module__:
        frame = frame.f_back
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def unprintable(text: str) -> str:
    """Return the first character that must not be in a name, as people look it up; "" if there is none.

    A terminal, a page and a log show a name unchanged on one line.
    """
    found = _UNPRINTABLE.search(text)
    if found is None:
        return ""
    character = found[0]
    known = {"\n": "a line break", "\r": "a carriage return", "\t": "a tab"}
    if character in known:
        return known[character]
    import unicodedata  # a megabyte of tables, which names that are fine do not need

    kind = unicodedata.name(character, "half a character" if character >= "\ud800" else "a control character")
    return f"U+{ord(character):04X} ({kind})"
