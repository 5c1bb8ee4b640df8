"""Find the caller that reads or runs a file, from the stack, while it happens.

This code must be quick and must raise nothing.
"""

from __future__ import annotations

import os
from types import FrameType
from typing import NamedTuple

from marin.fingerprint.observation.observation import CodePlace, Stack
from marin.fingerprint.origin import Origin, origin_of

_LISTENERS = frozenset({__file__, os.path.join(os.path.dirname(__file__), "listening.py")})
COMPILED = (".py", ".pyc")
# Modules of the standard library that open the paths that they are given.
_OPENERS = frozenset(
    """
    bz2 codecs contextlib csv fileinput fnmatch genericpath glob gzip io lzma os pathlib pickle posixpath shutil tarfile
    thread threading tokenize zipfile
    """.split()  # noqa: SIM905
)
_POOLS = (f"concurrent{os.sep}futures{os.sep}thread.py", f"multiprocessing{os.sep}pool.py")
_MULTIPROCESSING = f"{os.sep}multiprocessing{os.sep}"
_INSTALLED = f"importlib{os.sep}metadata{os.sep}__init__.py"  # looks where packages could be; their versions count
_GLOBS = frozenset({"glob", "rglob", "iglob"})


class Reader(NamedTuple):
    """The project's code that reads a file.

    below: the project's functions on the stack, innermost first. It ends with the module statement that runs on
    import, if there is one. direct: no package decided to read.
    """

    below: Stack
    direct: bool


def who_reads(frame: FrameType | None, name: str, *, listing: bool = False) -> Reader | None:
    """Return the project's functions that read a file, from the innermost outward; None if the project does not."""
    below: list[CodePlace] = []
    direct, pool, first, lines = True, False, True, False
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        if filename in _LISTENERS:
            frame = frame.f_back
            continue
        origin = origin_of(filename)
        if origin is Origin.PROJECT:
            if code.co_name == "<module>":
                below.append(CodePlace(filename, frame.f_lineno, code.co_name))
                return Reader(tuple(below), direct)
            below.append(CodePlace(filename, code.co_firstlineno, code.co_qualname))
        elif origin is Origin.ENGINE:
            break
        elif origin is Origin.IMPORT and below and code.co_name == "_handle_fromlist":
            pass  # ``from package import name`` where the package finds the name by a function
        elif origin is Origin.IMPORT:
            # Only pkgutil.get_data and importlib.resources open files through it that are not code.
            if not first or listing or code.co_name != "get_data" or name.endswith(COMPILED):
                break
        elif not below and origin is Origin.PYTHON:
            module = os.path.basename(filename).removesuffix(".py")
            direct = direct and module in _OPENERS
            pool = pool or filename.endswith(_POOLS)
            hidden = code.co_name in _GLOBS if listing else "rmtree" in code.co_name
            if module == "traceback" or (lines and module != "linecache") or hidden or filename.endswith(_INSTALLED):
                return None
            lines = lines or module == "linecache"  # which shows source, or gives the project a line of its file
        elif not below and origin is Origin.PACKAGE:
            direct = False
        first = False
        frame = frame.f_back
    return Reader(tuple(below), direct) if below or (pool and frame is None) else None


def who_runs(frame: FrameType | None, filename: str) -> tuple[Reader | None, bool]:
    """Return the caller that runs a Python file by its path (None for an import), and whether it runs as a program."""
    imported = False
    while frame is not None and (frame.f_code.co_filename in _LISTENERS or _is_import(frame)):
        imported = imported or frame.f_code.co_name == "_find_and_load"
        frame = frame.f_back
    program = frame is not None and frame.f_code.co_filename == "<frozen runpy>"
    return None if imported else who_reads(frame, filename), program


def is_engines(hears: FrameType | None) -> bool:
    """Return whether the engine itself caused the event that this frame hears. Then no step asks for the file."""
    frame = hears.f_back if hears is not None else None
    while frame is not None and origin_of(frame.f_code.co_filename) is Origin.GENERATED:
        frame = frame.f_back  # as of marin.store.files, which opens files for the engine and for steps
    return frame is not None and origin_of(frame.f_code.co_filename) is Origin.ENGINE


def is_of_pool(frame: FrameType | None) -> bool:
    """Return whether Python's own multiprocessing is the caller."""
    while frame is not None and frame.f_code.co_filename in _LISTENERS:
        frame = frame.f_back
    return frame is not None and _MULTIPROCESSING in frame.f_code.co_filename


def _is_import(frame: FrameType) -> bool:
    return origin_of(frame.f_code.co_filename) is Origin.IMPORT
