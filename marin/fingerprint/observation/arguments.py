"""Read paths and programs from the arguments of audit events, as text."""

from __future__ import annotations

import dis
import functools
import importlib
import os
import shlex
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from urllib.parse import unquote

from marin.fingerprint.origin import Origin, origin_of

IMPORT_MODULE = importlib.import_module.__code__
_PATHS = (os.path.exists, os.path.isfile, os.path.isdir, Path.exists, Path.is_file, Path.is_dir)
LOOKS = frozenset(function.__code__ for function in _PATHS)  # that tell whether something is there


def absolute(path: Any) -> str:
    """Return an absolute path; "" for a file descriptor and for anything else that is no path."""
    name = text_of(path)
    try:
        return os.path.abspath(name) if name and name != ":memory:" else ""
    except (OSError, ValueError):
        return ""


def text_of(path: Any) -> str:
    try:
        return os.fsdecode(path)
    except (TypeError, ValueError):
        return ""


def database(path: Any) -> str:
    """Return the path of an SQLite database, given as a path or as ``file:/data/text.db?mode=ro``."""
    text = text_of(path)
    return unquote(text.removeprefix("file:").partition("?")[0]) if text.startswith("file:") else text


def module_asked(called: FrameType | None) -> tuple[str, bool, bool]:
    """Return the full name of the module that ``importlib.import_module`` is asked for, and two facts about the call.

    The first fact is whether the project's code makes the call. The second is whether the name is a constant, which
    the source then shows.
    """
    asked = called.f_locals if called is not None else {}
    name, package = asked.get("name"), asked.get("package")
    try:
        full = resolve_name(name, package if isinstance(package, str) else None) if isinstance(name, str) else ""
    except (ImportError, ValueError):  # import_module is about to raise this itself
        full = ""
    caller = called.f_back if called is not None else None
    literal = caller is not None and caller.f_lasti in _literal_calls(caller.f_code)
    return full, _is_called_by_project(called), literal


@functools.lru_cache(maxsize=1000)
def _literal_calls(code: CodeType) -> frozenset[int]:
    """Return the offsets of calls with one argument that is a constant string: ``import_module("lib")``."""
    found, steps = set[int](), list(dis.get_instructions(code))
    for before, call, after in zip(steps, steps[1:], steps[2:], strict=False):
        if call.opname == "CALL" and call.arg == 1 and before.opname == "LOAD_CONST":
            found.update(range(call.offset, after.offset))  # with its cache, where Python says that it stands
    return frozenset(found)


def looked_for(called: FrameType | None) -> str:
    """Return the missing path that the project's code passes to ``os.path.exists`` or ``Path.is_file``, or ""."""
    if called is None or not _is_called_by_project(called):
        return ""
    path = absolute(called.f_locals.get(called.f_code.co_varnames[0]))
    return "" if os.path.lexists(path) else path


def _is_called_by_project(called: FrameType | None) -> bool:
    caller = called.f_back if called is not None else None
    return caller is not None and origin_of(caller.f_code.co_filename) is Origin.PROJECT


def words_of(arguments: Any) -> list[str]:
    """Return the words of a command, also of one that a shell runs."""
    given = [arguments] if isinstance(arguments, (str, bytes)) else list(arguments or [])
    words = [text for word in given if (text := text_of(word))]
    if len(words) == 3 and words[1] == "-c" and os.path.basename(words[0]) in ("sh", "bash"):
        return _split(words[2])
    return _split(words[0]) if len(words) == 1 else words


def files_named(words: list[str], folder: Any) -> Iterator[tuple[str, bool]]:
    """Yield the file that each argument may name, and whether it is the source of a module that is run with -m.

    The program itself is included if the command gives its path.
    """
    for before, word in pairwise(["", *words] if os.sep in words[0] else words):
        word = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        at = os.path.abspath(os.path.join(os.fsdecode(folder) if folder else os.getcwd(), word))
        if before == "-m":
            yield getattr(sys.modules.get(word), "__file__", None) or f"{at.replace('.', os.sep)}.py", True
        else:
            yield at, False


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
