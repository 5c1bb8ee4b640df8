"""Whether this process holds what the files say: a function that was patched, a constant that was set from outside, a
module imported before its file was edited, or from bytecode that Python takes for the file's.

Steps run in processes that import the files, so none of it would reach them, and whoever did it thinks that it does:
each is named, unless code that the step itself reaches makes it. What was changed inside an object is not looked for.
"""

from __future__ import annotations

import marshal
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from marin.fingerprint.captured import inner_codes
from marin.fingerprint.lookup.unit import Key, Unit
from marin.fingerprint.lookup.units import Units
from marin.fingerprint.origin import is_engine, is_local
from marin.fingerprint.source.unit_source import Shape
from marin.store.process import started

_MISSING = object()


class Process:
    """The modules that this process has imported, by file."""

    def __init__(self) -> None:
        self._started = _process_start()
        self._modules: dict[str, ModuleType] = {}
        self._seen = 0

    def module(self, path: Path) -> ModuleType | None:
        if len(sys.modules) != self._seen:
            self._seen = len(sys.modules)
            for name, value in list(sys.modules.items()):
                file = getattr(value, "__dict__", {}).get("__file__")
                if isinstance(file, str) and file.endswith(".py") and _is_followed(name, file):
                    self._modules.setdefault(os.path.realpath(file), value)
        return self._modules.get(str(path))

    def is_newer(self, path: Path) -> bool:
        """Whether the file was written after the process began."""
        try:
            return path.stat().st_mtime > self._started
        except OSError:
            return True


class Live:
    """Compares units with what the process holds."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._process = Process()
        self._outdated: dict[Path, str] = {}

    def differences(self, reached: Mapping[Key, Unit]) -> list[str]:
        """One line for each thing that the process holds otherwise than the reached source says."""
        found: list[str] = []
        for key, unit in reached.items():
            module = self._process.module(key.module.path)
            if module is None or unit.piece.shape is None:
                continue
            if outdated := self._why_outdated(key.module.path, module):
                found.append(f"{key.module.path} was edited {outdated}")
                continue
            value = vars(module).get(key.name, _MISSING)
            if value is not _MISSING:
                found += self._of_unit(key, value, unit.piece.shape, reached)
        return list(dict.fromkeys(found))

    def _of_unit(self, key: Key, value: Any, shape: Shape, reached: Mapping[Key, Unit]) -> Iterator[str]:
        if isinstance(value, type):
            yield from self._of_class(key, value, shape, reached)
            return
        for _, literal in shape.literals:
            if not _same(value, literal) and not _set_by(key.name, reached):
                yield f"{key.qualified} is {value!r:.60}, its file says {literal!r:.60}"
        if shape.functions:
            yield from self._replaced(key, key.qualified, value, reached)

    def _of_class(self, key: Key, cls: type, shape: Shape, reached: Mapping[Key, Unit]) -> Iterator[str]:
        if cls.__qualname__ != key.name or issubclass(cls, Enum):
            return
        for name in shape.functions:
            if name in cls.__dict__:
                yield from self._replaced(key, f"{key.qualified}.{name}", cls.__dict__[name], reached)
        for name, literal in shape.literals:
            value: object = cls.__dict__.get(name, _MISSING)
            plain = type(value) in (int, float, bool, str, bytes, tuple, type(None))
            if plain and not _same(value, literal) and not _set_by(name, reached):
                yield f"{key.qualified}.{name} is {value!r:.60}, its file says {literal!r:.60}"
        attributes: dict[str, Any] = dict(cls.__dict__)
        for name, value in attributes.items():
            if name not in shape.names and isinstance(value, FunctionType):
                yield from self._replaced(key, f"{key.qualified}.{name}", value, reached)

    def _replaced(self, key: Key, name: str, value: Any, reached: Mapping[Key, Unit]) -> Iterator[str]:
        if not isinstance(value, FunctionType):
            if not callable(value) or isinstance(value, type) or hasattr(value, "__wrapped__"):
                return
            yield f"{name} is now {value!r:.80}"
            return
        file = value.__code__.co_filename
        if _is_file(file, key.module.path) or not _is_followed(value.__module__, file):
            return
        if not self._is_reached(value, reached):
            yield f"{name} was replaced by {value.__module__}.{value.__qualname__} ({file})"

    def _is_reached(self, value: FunctionType, reached: Mapping[Key, Unit]) -> bool:
        """Whether the unit that a function came from is reached; of a lambda, anything in its module."""
        file = value.__code__.co_filename
        if not os.path.isfile(file):
            return False
        made_in = self._units.resolver.module(Path(file).resolve())
        symbol = value.__qualname__.split(".")[0]
        if symbol in made_in.bindings:
            return Key(made_in, symbol) in reached
        return any(key.module is made_in for key in reached)

    def _why_outdated(self, path: Path, module: ModuleType) -> str:
        """When a file was edited of which the process holds what it was before, and what to do; "" if it does not."""
        if path not in self._outdated:
            self._outdated[path] = ""
            with suppress(OSError, SyntaxError, ValueError, EOFError, TypeError):  # said elsewhere
                if self._process.is_newer(path) and _holds_other_functions(path, module):
                    self._outdated[path] = "after this process imported it; start a new process"
                elif _came_from_stale_bytecode(path, module):
                    self._outdated[path] = (
                        "within the second in which Python compiled it, so Python still runs it as it was; touch the "
                        "file and start a new process"
                    )
        return self._outdated[path]


def _holds_other_functions(path: Path, module: ModuleType) -> bool:
    """Whether functions in the process are other ones than the file would define now."""
    now = list(inner_codes(_compiled(path)))
    value = [code for code in _functions(module) if _is_file(code.co_filename, path)]
    return not all(any(_alike(code, other) for other in now) for code in value)


def _came_from_stale_bytecode(path: Path, module: ModuleType) -> bool:
    """Whether Python imported bytecode of what the file was: it compares whole seconds and the size alone."""
    cached, file = getattr(module, "__cached__", None), path.stat()
    if not cached or os.stat(cached).st_mtime_ns >= file.st_mtime_ns:
        return False
    bytecode = Path(cached).read_bytes()
    kind, seconds, size = (int.from_bytes(bytecode[start : start + 4], "little") for start in (4, 8, 12))
    if (kind, seconds, size) != (0, int(file.st_mtime) & 0xFFFFFFFF, file.st_size & 0xFFFFFFFF):
        return False
    return not _alike(marshal.loads(bytecode[16:]), _compiled(path))


def _compiled(path: Path) -> CodeType:
    return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)


def _same(value: object, literal: object) -> bool:
    return type(value) is type(literal) and repr(value) == repr(literal)


def _set_by(name: str, reached: Mapping[Key, Unit]) -> bool:
    """Whether reached code itself sets something of this name."""
    written = re.compile(rf"\bglobal\b.*\b{name}\b|\.{name}\s*(?:[-+*/|&]|\*\*|//)?=[^=]|setattr\(.*{name}")
    return any(written.search(unit.text) for unit in reached.values())


def _is_file(file: str, path: Path) -> bool:
    return file == str(path) or os.path.realpath(file) == str(path)


def _is_followed(module: str, file: str) -> bool:
    """Whether code of this file would be in a fingerprint at all."""
    if file.startswith("<") or is_engine(module) or module.split(".")[0] in sys.stdlib_module_names:
        return False
    return is_local(file)


def _functions(module: ModuleType) -> Iterator[CodeType]:
    """Functions and methods in a module's namespace, and what decorators wrapped."""
    pending: list[Any] = list(vars(module).values())
    pending += [each for value in pending if isinstance(value, type) for each in value.__dict__.values()]
    seen: set[int] = set()
    for value in pending:
        while not isinstance(value, FunctionType) and hasattr(value, "__func__") and id(value) not in seen:
            seen.add(id(value))
            value = value.__func__
        while isinstance(value, FunctionType) and id(value) not in seen:  # wraps(f)(f) wraps itself
            seen.add(id(value))
            yield value.__code__
            value = value.__dict__.get("__wrapped__")


def _alike(a: CodeType, b: CodeType) -> bool:
    """Whether two code objects do the same; where they stand in the file does not matter."""
    parts = [(each.co_qualname, each.co_code, each.co_names, each.co_varnames, each.co_freevars) for each in (a, b)]
    if parts[0] != parts[1] or len(a.co_consts) != len(b.co_consts):
        return False
    for one, other in zip(a.co_consts, b.co_consts, strict=True):
        if isinstance(one, CodeType) and isinstance(other, CodeType):
            if not _alike(one, other):
                return False
        elif type(one) is not type(other) or repr(one) != repr(other):
            return False
    return True


def _process_start() -> float:
    """Seconds since the epoch; 0 where that cannot be told, so that every file counts as newer."""
    try:
        since_boot = int(started(os.getpid())) / os.sysconf("SC_CLK_TCK")
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot
    except (OSError, ValueError, AttributeError):
        return 0.0
