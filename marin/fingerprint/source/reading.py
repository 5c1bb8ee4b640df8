"""Read a source file as a whole: its syntax, and the source of each unit."""

from __future__ import annotations

import ast
from contextlib import suppress
from pathlib import Path

from marin.fingerprint.source.module import AS_SCRIPT, ON_IMPORT, Imported, Lines, ModuleSource, Target, UnitSource
from marin.fingerprint.source.syntax import Syntax, parse
from marin.fingerprint.source.unit_source import read_unit


def read(source: bytes, name: str, path: Path, *, is_package: bool) -> ModuleSource:
    """Return the content of a file. Raises SyntaxError for a file that Python could not import either."""
    syntax = parse(source, name, path, is_package=is_package)
    # The lines come before the units, because reading a unit changes its statements.
    bindings = {bound: tuple(map(_lines, statements)) for bound, statements in syntax.bindings.items()}
    units: dict[str, UnitSource] = {}
    for unit in [*bindings, *([ON_IMPORT] if syntax.effects else []), *([AS_SCRIPT] if syntax.script else [])]:
        with suppress(RecursionError):
            units[unit] = read_unit(syntax, unit)
    return ModuleSource(
        bindings=bindings,
        effects=tuple(map(_lines, syntax.effects)),
        imported=tuple(
            Imported(_lines(each.node), each.loads, tuple(bound for bound, _ in each.binds)) for each in syntax.imported
        ),
        imports=_imports(syntax),
        has_script=bool(syntax.script),
        announced=syntax.announced,
        exports=syntax.exports,
        conjures=syntax.conjures,
        units=units,
    )


def _imports(syntax: Syntax) -> dict[str, tuple[tuple[int, Target], ...]]:
    found: dict[str, list[tuple[int, Target]]] = {}
    for each in syntax.imported:
        for name, target in each.binds:
            found.setdefault(name, []).append((each.node.lineno, target))
    return {name: tuple(targets) for name, targets in found.items()}


def _lines(node: ast.stmt) -> Lines:
    """Return the lines of a statement, with its decorators."""
    first = min(each.lineno for each in [node, *getattr(node, "decorator_list", ())])
    return first, node.end_lineno or first
