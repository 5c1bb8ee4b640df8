"""What a name of a module stands for, in depth, as text that is the same in every process that made it alike.

Values are told by what they hold, never by where they lie: containers entry by entry, functions by their defaults,
closures and attributes, classes by their attributes, any other object by what a copy of it would be made of.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, cast

from marin.steps.step import ExecutorStep

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), type(...)})
_MANY = 100  # plain entries from which a container is known by one digest
_DEEPEST = 40
_LONGEST = 200  # characters of a text that are kept as they are
# What a plan asks of a step's class counts by what it answers: in the identity, or compared with it in the worker.
_PLANNED = frozenset({"op", "version", "isolated", "outside", "outside_bytes", "work", "expected_size", "evaluated_on"})
# An enum keeps every combination of its flags that was ever asked for; its members have names of their own.
_REMEMBERED = frozenset({"_value2member_map_"})
_WRAPPING = (
    "marin.steps.step",
    "marin.steps.value",
    "marin.steps.field_types",
    "marin.steps.encoding",
)  # what these put around a class is told by its fields


def described(value: object) -> dict[str, str]:
    """Text by place: ``{"": "dict", "['a']": "dict", "['a']['b']": "1"}``."""
    describer = _Describer()
    if isinstance(value, type):
        describer.body("", value)
    else:
        describer.walk("", value)
    return describer.lines


class _Describer:
    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        self._open: set[int] = set()  # what is being described, so that a cycle ends

    def walk(self, place: str, value: Any) -> None:
        if type(value) in _PLAIN:
            self.lines[place] = _short(repr(value))
        elif isinstance(value, type):
            self.lines[place] = f"class {value.__module__}.{value.__qualname__}"
        elif isinstance(value, ModuleType):
            self.lines[place] = f"module {value.__name__}"
        elif isinstance(value, BuiltinFunctionType):
            self.lines[place] = f"function {value.__module__}.{value.__qualname__}"
        elif isinstance(value, ExecutorStep):
            self.lines[place] = f"step {cast(Any, value).identity}"
        elif id(value) in self._open or len(self._open) > _DEEPEST:
            self.lines[place] = "…"
        else:
            self._open.add(id(value))
            self._inside(place, value)
            self._open.remove(id(value))

    def body(self, place: str, cls: type) -> None:
        """A class by its attributes, those inside of it by theirs."""
        self.lines[place] = f"class {cls.__module__}.{cls.__qualname__} of {cls.__bases__!r}"
        attributes = list(vars(cls).items())
        left_out = (
            _PLANNED if issubclass(cls, ExecutorStep) else _REMEMBERED if issubclass(cls, Enum) else frozenset[str]()
        )
        for name, value in attributes:
            if name in left_out:
                continue
            if isinstance(value, type) and value.__qualname__.startswith(f"{cls.__qualname__}."):
                self.body(f"{place}.{name}", value)
            elif not (name.startswith("__") and name.endswith("__")) or _functions(value):
                self.walk(f"{place}.{name}", value)

    def _inside(self, place: str, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._function(place, value)
        elif functions := _functions(value):
            self.lines[place] = type(value).__qualname__
            for part, function in functions.items():
                self.walk(f"{place}{part}", function)
        elif isinstance(value, (dict, MappingProxyType)):
            mapping = cast(Mapping[Any, Any], value)
            self._entries(place, value, ((f"[{_key(key)}]", item) for key, item in mapping.items()))
        elif isinstance(value, (list, tuple, deque)):
            items = cast(Iterable[Any], value)
            self._entries(place, value, ((f"[{number}]", item) for number, item in enumerate(items)))
        elif isinstance(value, (set, frozenset)):
            self._entries(place, value, ((f" entry {_key(item)}", True) for item in cast(Iterable[Any], value)))
        else:
            self._object(place, value)

    def _entries(self, place: str, value: Any, entries: Iterable[tuple[str, Any]]) -> None:
        self.lines[place] = type(value).__qualname__
        listed = list(entries)
        if len(listed) > _MANY and all(type(item) in _PLAIN for _, item in listed):
            text = repr(sorted((where, repr(item)) for where, item in listed))
            self.lines[place] += f" of {len(listed):,} entries, {_digest(text)}"
        else:
            for where, item in listed:
                self.walk(place + where, item)
        self._attributes(place, value, getattr(value, "__dict__", None))

    def _function(self, place: str, value: FunctionType) -> None:
        code = value.__code__
        self.lines[place] = f"function {value.__module__}.{code.co_qualname}"
        if value.__module__ in _WRAPPING:
            return
        if code.co_name == "<lambda>":
            constants = [item for item in code.co_consts if type(item) in _PLAIN]
            self.lines[place] += f" {_digest(repr((code.co_code, code.co_names, constants)))}"
        for number, item in enumerate(value.__defaults__ or ()):
            self.walk(f"{place}.__defaults__[{number}]", item)
        for name, item in (value.__kwdefaults__ or {}).items():
            self.walk(f"{place}.__kwdefaults__[{name!r}]", item)
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
            if name != "__class__" and _is_filled(cell):
                self.walk(f"{place} closing over {name}", cell.cell_contents)
        self._attributes(place, value, value.__dict__)

    def _object(self, place: str, value: Any) -> None:
        """As ``copy.copy`` would take it apart."""
        kind: type = type(cast(object, value))
        self.lines[place] = f"{kind.__module__}.{kind.__qualname__}"
        try:
            reduce = copyreg.dispatch_table.get(kind)
            made: Any = reduce(value) if reduce is not None else value.__reduce_ex__(4)
        except Exception:  # what cannot be copied: a lock, a file, an object that holds such a thing by slots
            self._attributes(place, value, getattr(value, "__dict__", None))
            return
        if isinstance(made, str):
            self.lines[place] += f" {made}"
            return
        parts: list[Any] = [*made, None, None, None, None]
        _, arguments, state, items, pairs, *_ = parts
        for number, item in enumerate(arguments or ()):
            if item is not kind:
                self.walk(f"{place}({number})", item)
        states = cast(tuple[Any, ...], state) if isinstance(state, tuple) else ()
        for part in states if len(states) == 2 else [cast(Any, state)]:  # what is in __dict__ and what in slots
            if isinstance(part, dict):
                self._attributes(place, value, cast(dict[str, Any], part))
            elif part is not None:
                self.walk(f"{place} state", part)
        for number, item in enumerate(items or ()):
            self.walk(f"{place}[{number}]", item)
        for key, item in pairs or ():
            self.walk(f"{place}[{_key(key)}]", item)

    def _attributes(self, place: str, value: object, attributes: Mapping[str, Any] | None) -> None:
        """Without what a cached property has computed from the others."""
        for name, item in list((attributes or {}).items()):
            if not isinstance(getattr(type(value), str(name), None), functools.cached_property):
                self.walk(f"{place}.{name}", item)


def _functions(value: Any) -> dict[str, Any]:
    """The functions that something stands around, by where: of a property, a static or class method, a cache."""
    if isinstance(value, FunctionType):
        return {"": value}
    if isinstance(value, property):
        parts = {".fget": value.fget, ".fset": value.fset, ".fdel": value.fdel}
        return {name: part for name, part in parts.items() if part is not None}
    if isinstance(value, MethodType):
        return {"": value.__func__, ".__self__": value.__self__}
    if isinstance(value, (staticmethod, classmethod)):
        return {"": cast(Any, value).__func__}
    wrapped = getattr(value, "__dict__", {}).get("__wrapped__")
    return {"": wrapped} if isinstance(wrapped, FunctionType) else {}


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell.cell_contents
    except ValueError:
        return False


def _key(value: Any) -> str:
    if type(value) in _PLAIN:
        return _short(repr(value))
    lines = described(value)
    return lines[""] if len(lines) == 1 else f"{lines['']} {_digest(repr(sorted(lines.items())))}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… {_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]
