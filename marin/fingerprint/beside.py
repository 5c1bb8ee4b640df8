"""Files next to the code: ``(Path(__file__).parent / "words.txt").read_text()``.

What such an expression reads is told from the source wherever its parts are constants. Where a part is
computed, the whole folder up to there counts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from marin.fingerprint.scopes import Step
from marin.fingerprint.special import PACKAGE_FILES, PACKAGE_FOLDER

PACKAGE = "package folder"  # a step: from a package to its folder
_SAME = frozenset({"resolve", "absolute", "expanduser", "as_posix", "as_uri", "__fspath__", "__str__"})
_LISTS = frozenset({"iterdir", "glob", "rglob", "walk"})
_BY_NAME = frozenset({"with_name", "with_stem", "with_suffix"})
_READS = frozenset({"read_text", "read_bytes", "open", "exists", "is_file", "is_dir", "stat", "lstat", "as_file"})
_ONLY_NAMES = frozenset(
    {"name", "stem", "suffix", "suffixes", "parts", "relative_to", "is_relative_to", "match", "is_absolute"}
)
PATHLIKE = _SAME | _LISTS | _READS | _BY_NAME | {"parent", "parents", "joinpath"}

_WRAPPERS = frozenset(
    {
        *("pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "str", "os.fspath", "open"),
        *("os.path.abspath", "os.path.realpath", "os.path.normpath", "os.path.expanduser"),
    }
)


def path_steps(node: ast.expr, dotted: Callable[[ast.expr], str]) -> tuple[ast.expr, tuple[Step, ...]]:
    """(where it starts, what it goes through): ``HERE.parent / "x"`` starts at HERE. No steps: no such expression."""
    match node:
        case ast.Call(func=func) if (called := dotted(func)) in PACKAGE_FILES or called == PACKAGE_FOLDER:
            return node, ()
        case ast.Attribute(value=inner, attr=name):
            start, steps = path_steps(inner, dotted)
            return start, (*steps, ("attr", name))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            start, steps = path_steps(left, dotted)
            return start, (*steps, ("join", _text(right)))
        case ast.Subscript(value=inner, slice=index):
            start, steps = path_steps(inner, dotted)
            return start, (*steps, ("index", index.value if isinstance(index, ast.Constant) else None))
        case ast.Call(func=func, args=[first, *rest]) if (called := dotted(func)) in _WRAPPERS or called in (
            "os.path.join",
            "os.path.dirname",
        ):
            start, steps = path_steps(first, dotted)
            if called == "os.path.dirname":
                return start, (*steps, ("attr", "parent"))
            if called == "open":
                return start, (*steps, ("attr", "open"), ("call", ()))
            return start, (*steps, ("attr", "absolute"), ("call", ()), *(("join", _text(part)) for part in rest))
        case ast.Call(func=ast.Attribute() as func, args=arguments):
            start, steps = path_steps(func, dotted)
            return start, (*steps, ("call", tuple(_text(argument) for argument in arguments)))
        case _:
            return node, ()


def computed(node: ast.expr, start: ast.expr) -> Iterator[ast.expr]:
    """The parts of such an expression that are no constants: they are code of their own."""
    while node is not start:
        match node:
            case ast.BinOp(left=inner, right=right):
                parts: Sequence[ast.expr] = [right]
            case ast.Subscript(value=inner, slice=index):
                parts = [index]
            case ast.Call(func=ast.Attribute(value=inner) as func, args=arguments, keywords=keywords) if _is_method(
                func, start
            ):
                parts = [*arguments, *(keyword.value for keyword in keywords)]
            case ast.Call(args=[inner, *rest], keywords=keywords):
                parts = [*rest, *(keyword.value for keyword in keywords)]
            case ast.Attribute(value=inner):
                parts = []
            case _:
                return
        yield from (part for part in parts if not isinstance(part, ast.Constant))
        node = inner


def _is_method(func: ast.Attribute, start: ast.expr) -> bool:
    """Whether ``….joinpath`` is a method of the path itself, and not a function that is given it."""
    return any(part is start for part in ast.walk(func))


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


class Use(Enum):
    """What became of a path. FILE: what it names is read. FOLDER: something in it is. NOTHING: its name is used."""

    PATH = "path"
    FILE = "file"
    FOLDER = "folder"
    NOTHING = "nothing"


class Outcome(NamedTuple):
    use: Use
    path: Path


def walk_path(path: Path, steps: Sequence[Step]) -> Outcome:
    """Where the steps lead from a path."""
    queue = list(steps)
    while queue:
        kind, what = queue.pop(0)
        if kind == "join":
            if what is None:
                return Outcome(Use.FOLDER, path)
            path = path / str(what)
        elif kind == "attr" and what == "parent":
            path = path.parent
        elif kind == "attr" and what == "parents":
            index = queue.pop(0)[1] if queue and queue[0][0] == "index" else None
            if not isinstance(index, int) or not 0 <= index < len(path.parents):
                return Outcome(Use.FOLDER, path.parent)
            path = path.parents[index]
        elif kind == "attr" and what in _ONLY_NAMES:
            return Outcome(Use.NOTHING, path)
        elif kind == "attr" and queue and queue[0][0] == "call":
            _, arguments = queue.pop(0)
            if what in _LISTS:
                return Outcome(Use.FOLDER, path)
            if what in _SAME:
                continue
            if (what == "joinpath" or what in _BY_NAME) and None in arguments:
                return Outcome(Use.FOLDER, path if what == "joinpath" else path.parent)
            if what == "joinpath":
                path = path.joinpath(*arguments)
            elif what in _BY_NAME and len(arguments) == 1:
                path = getattr(path, what)(arguments[0])
            else:
                return Outcome(Use.FILE, path)
        else:
            return Outcome(Use.FILE, path)
    return Outcome(Use.PATH, path)
