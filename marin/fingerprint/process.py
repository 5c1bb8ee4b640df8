"""Compare the code in this process with its files.

This finds a patched function, a constant that other code set, a module imported before somebody edited its file, and a
module from bytecode that Python mistakes for the file's.

Steps run in processes that import the files, so these changes would not reach the steps, although their author expects
that. marin names each change, unless code that the step itself reaches makes the change. It does not find changes
inside an object.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

from marin.fingerprint.captured import inner_codes, is_given
from marin.fingerprint.lookup.definitions import Key
from marin.fingerprint.lookup.units import Unit, Units
from marin.fingerprint.observation.imports import Imported, imported_as
from marin.fingerprint.observation.observation import stamp_of
from marin.fingerprint.origin import is_local
from marin.fingerprint.source.bindings import FUNCTIONS, bound_names
from marin.fingerprint.source.module import Module
from marin.fingerprint.source.normalize import normalise
from marin.fingerprint.source.syntax import Syntax, parse

_MISSING = object()
_PLAIN = (int, float, bool, str, bytes, type(None))


class Live:
    """A comparison of units with the objects in this process."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._modules: dict[str, ModuleType] = {}  # by file
        self._seen = 0
        self._outdated = functools.cache(self._why_outdated)
        self._syntax = functools.cache(_parsed)

    def differences(self, reached: Mapping[Key, Unit]) -> list[str]:
        """Return one line for each reached definition that the process holds differently than the source."""
        found: list[str] = []
        for key in reached:
            module = self._module(key.module.path)
            if module is None:
                continue
            if outdated := self._outdated(key.module.path, module):
                found.append(f"{key.module.path} was edited {outdated}")
                continue
            value = vars(module).get(key.name, _MISSING)
            if value is not _MISSING and (defined := self._definition(key)) is not None:
                found += self._of_unit(key, value, defined, reached)
        return list(dict.fromkeys(found))

    def _module(self, path: Path) -> ModuleType | None:
        if len(sys.modules) != self._seen:
            self._seen = len(sys.modules)
            for name, value in list(sys.modules.items()):
                file = getattr(value, "__dict__", {}).get("__file__")
                if isinstance(file, str) and file.endswith(".py") and _is_followed(name, file):
                    self._modules.setdefault(os.path.realpath(file), value)
        return self._modules.get(str(path))

    def _of_unit(self, key: Key, value: Any, defined: ast.stmt, reached: Mapping[Key, Unit]) -> Iterator[str]:
        name = key.qualified
        if isinstance(value, type):
            if isinstance(defined, ast.ClassDef) and value.__qualname__ == key.name and not issubclass(value, Enum):
                yield from self._of_class(key, cast(type[Any], value), defined, reached)
        elif isinstance(defined, ast.Assign) and isinstance(defined.targets[0], ast.Name):
            module = self._module(key.module.path)
            imported = imported_as(module.__file__ or "") if module is not None else None
            if imported is None or imported.constants.get(key.name, _MISSING) is not value:  # else the import set it
                yield from _set(name, value, defined.value, reached)
        elif isinstance(defined, FUNCTIONS) and not defined.decorator_list:
            yield from self._replaced(key, name, value, reached)

    def _of_class(self, key: Key, cls: type, defined: ast.ClassDef, reached: Mapping[Key, Unit]) -> Iterator[str]:
        names = [name for each in defined.body for name in _names(each)]
        held: dict[str, Any] = dict(cls.__dict__)
        for node in defined.body:
            name, *others = _names(node) or [""]
            if others or name not in held or names.count(name) > 1:
                continue
            if isinstance(node, FUNCTIONS) and not node.decorator_list:
                yield from self._replaced(key, f"{key.qualified}.{name}", held[name], reached)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and type(held[name]) in (*_PLAIN, tuple):
                yield from _set(f"{key.qualified}.{name}", held[name], node.value, reached)
        for name, value in held.items():
            if name not in names and isinstance(value, FunctionType):
                yield from self._replaced(key, f"{key.qualified}.{name}", value, reached)

    def _replaced(self, key: Key, name: str, value: Any, reached: Mapping[Key, Unit]) -> Iterator[str]:
        if not isinstance(value, FunctionType):
            if not callable(value) or isinstance(value, type) or hasattr(value, "__wrapped__"):
                return
            yield f"{name} is now {value!r:.80}"
            return
        file, here = value.__code__.co_filename, str(key.module.path)
        if file == here or os.path.realpath(file) == here or not _is_followed(value.__module__, file):
            return
        if not self._is_reached(value, reached):
            yield f"{name} was replaced by {value.__module__}.{value.__qualname__} ({file})"

    def _is_reached(self, value: FunctionType, reached: Mapping[Key, Unit]) -> bool:
        """Return whether the unit of a function is reached; for a lambda, whether any unit of its module is."""
        file = value.__code__.co_filename
        if not os.path.isfile(file):
            return False
        made_in = self._units.resolver.module(Path(file).resolve())
        symbol = value.__qualname__.split(".")[0]
        if symbol in made_in.source.bindings:
            return Key(made_in, symbol) in reached
        return any(key.module is made_in for key in reached)

    def _definition(self, key: Key) -> ast.stmt | None:
        """Return the only statement that binds a name of a module; None if others may bind it."""
        syntax = self._syntax(key.module)
        if syntax is None or key.name in syntax.imports or syntax.stars:
            return None
        statements = normalise(syntax.bindings.get(key.name, []), syntax)
        return statements[0] if len(statements) == 1 and key.name in bound_names(statements[0]) else None

    def _why_outdated(self, path: Path, module: ModuleType) -> str:
        """Return when the file of a module was edited after its import, and what to do; "" if it was not."""
        held = imported_as(module.__file__ or "")
        with suppress(OSError, SyntaxError, ValueError):  # said elsewhere
            is_of_bytecode = isinstance(module.__loader__, SourceFileLoader)  # not what pytest rewrites
            return _why_outdated(path, held, is_of_bytecode) if held is not None else ""
        return ""


def _why_outdated(path: Path, held: Imported, is_of_bytecode: bool) -> str:
    if held.stamp != stamp_of(str(path)):
        if held.code is not None and {*inner_codes(_anywhere(held.code))} <= {*inner_codes(_compiled(path))}:
            return ""
        return "after this process imported it; start a new process"
    # Python takes bytecode for the file's if the size and the time in whole seconds are equal.
    bytecode = Path(importlib.util.cache_from_source(path))
    if held.code is None or not is_of_bytecode or bytecode.stat().st_mtime_ns >= path.stat().st_mtime_ns:
        return ""
    if _anywhere(held.code) == _compiled(path):
        return ""
    with suppress(OSError):  # the next process compiles the file
        bytecode.unlink()
    return "within the second in which Python compiled it, so this process runs it as it was; start a new process"


def _parsed(module: Module) -> Syntax | None:
    path = module.path
    with suppress(OSError, SyntaxError, ValueError):  # edited since it was read
        return parse(path.read_bytes(), module.name, path, is_package=path.name == "__init__.py")
    return None


def _compiled(path: Path) -> CodeType:
    return _anywhere(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))


def _names(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a class's body binds or declares."""
    declared = [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []
    return declared or bound_names(node)


def _set(name: str, value: object, written: ast.expr | None, reached: Mapping[Key, Unit]) -> Iterator[str]:
    """Yield a line if a constant has another value than its file says, unless reached code sets this name.

    Constants are numbers, strings, bytes, bools and None, and tuples with only such parts.
    """
    try:
        literal: Any = ast.literal_eval(written) if written is not None else _MISSING
    except (ValueError, TypeError, MemoryError, RecursionError):
        return
    is_same = type(value) is type(literal) and repr(value) == repr(literal)
    parts = cast(tuple[Any, ...], literal) if isinstance(literal, tuple) else (literal,)
    if is_same or not all(type(part) in _PLAIN for part in parts):
        return
    own = name.rpartition(".")[2]
    sets = re.compile(rf"\bglobal\b.*\b{own}\b|\.{own}\s*(?:[-+*/|&]|\*\*|//)?=[^=]|setattr\(.*{own}")
    if not any(sets.search(unit.text) for unit in reached.values()):
        yield f"{name} is {value!r:.60}, its file says {literal!r:.60}"


def _is_followed(module: str, file: str) -> bool:
    """Return whether a fingerprint would include code of this file."""
    return not file.startswith("<") and not is_given(module) and is_local(file)


def _anywhere(code: CodeType) -> CodeType:
    """Return the code without its place in a file."""
    consts = tuple(_anywhere(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename="", co_firstlineno=1, co_linetable=b"", co_consts=consts)
