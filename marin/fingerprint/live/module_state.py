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
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, cast

from marin.steps.step import ExecutorStep

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None), type(...)})
_MANY = 100  # plain entries from which a container is known by one digest
_DEEPEST = 40
_LONGEST = 200  # characters of a text that are kept as they are
# What a plan asks of a step's class counts by what it answers: in the identity, or compared with it in the worker.
_PLANNED = frozenset({"op", "version", "isolated", "outside", "outside_bytes", "work", "expected_size"})
_WRAPPING = (
    "marin.steps.step",
    "marin.steps.value",
    "marin.steps.field_types",
    "marin.steps.encoding",
)  # what these put around a class is told by its fields


def described(held: object) -> dict[str, str]:
    """Text by place: ``{"": "dict", "['a']": "dict", "['a']['b']": "1"}``."""
    describer = _Describer()
    if isinstance(held, type):
        describer.body("", held)
    else:
        describer.walk("", held)
    return describer.lines


class _Describer:
    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        self._open: set[int] = set()  # what is being described, so that a cycle ends

    def walk(self, place: str, held: Any) -> None:
        if type(held) in _PLAIN:
            self.lines[place] = _short(repr(held))
        elif isinstance(held, type):
            self.lines[place] = f"class {held.__module__}.{held.__qualname__}"
        elif isinstance(held, ModuleType):
            self.lines[place] = f"module {held.__name__}"
        elif isinstance(held, BuiltinFunctionType):
            self.lines[place] = f"function {held.__module__}.{held.__qualname__}"
        elif isinstance(held, ExecutorStep):
            self.lines[place] = f"step {cast(Any, held).identity}"
        elif id(held) in self._open or len(self._open) > _DEEPEST:
            self.lines[place] = "…"
        else:
            self._open.add(id(held))
            self._inside(place, held)
            self._open.remove(id(held))

    def body(self, place: str, cls: type) -> None:
        """A class by its attributes, those inside of it by theirs."""
        self.lines[place] = f"class {cls.__module__}.{cls.__qualname__} of {cls.__bases__!r}"
        attributes = list(vars(cls).items())
        planned = _PLANNED if issubclass(cls, ExecutorStep) else frozenset[str]()
        for name, held in attributes:
            if name in planned:
                continue
            if isinstance(held, type) and held.__qualname__.startswith(f"{cls.__qualname__}."):
                self.body(f"{place}.{name}", held)
            elif not (name.startswith("__") and name.endswith("__")) or _functions(held):
                self.walk(f"{place}.{name}", held)

    def _inside(self, place: str, held: Any) -> None:
        if isinstance(held, FunctionType):
            self._function(place, held)
        elif functions := _functions(held):
            self.lines[place] = type(held).__qualname__
            for part, function in functions.items():
                self.walk(f"{place}{part}", function)
        elif isinstance(held, (dict, MappingProxyType)):
            mapping = cast(Mapping[Any, Any], held)
            self._entries(place, held, ((f"[{_key(key)}]", item) for key, item in mapping.items()))
        elif isinstance(held, (list, tuple, deque)):
            items = cast(Iterable[Any], held)
            self._entries(place, held, ((f"[{number}]", item) for number, item in enumerate(items)))
        elif isinstance(held, (set, frozenset)):
            self._entries(place, held, ((f" entry {_key(item)}", True) for item in cast(Iterable[Any], held)))
        else:
            self._object(place, held)

    def _entries(self, place: str, held: Any, entries: Iterable[tuple[str, Any]]) -> None:
        self.lines[place] = type(held).__qualname__
        listed = list(entries)
        if len(listed) > _MANY and all(type(item) in _PLAIN for _, item in listed):
            text = repr(sorted((where, repr(item)) for where, item in listed))
            self.lines[place] += f" of {len(listed):,} entries, {_digest(text)}"
        else:
            for where, item in listed:
                self.walk(place + where, item)
        self._attributes(place, held, getattr(held, "__dict__", None))

    def _function(self, place: str, held: FunctionType) -> None:
        code = held.__code__
        self.lines[place] = f"function {held.__module__}.{code.co_qualname}"
        if held.__module__ in _WRAPPING:
            return
        if code.co_name == "<lambda>":
            constants = [item for item in code.co_consts if type(item) in _PLAIN]
            self.lines[place] += f" {_digest(repr((code.co_code, code.co_names, constants)))}"
        for number, item in enumerate(held.__defaults__ or ()):
            self.walk(f"{place}.__defaults__[{number}]", item)
        for name, item in (held.__kwdefaults__ or {}).items():
            self.walk(f"{place}.__kwdefaults__[{name!r}]", item)
        for name, cell in zip(code.co_freevars, held.__closure__ or (), strict=True):
            if name != "__class__" and _is_filled(cell):
                self.walk(f"{place} closing over {name}", cell.cell_contents)
        self._attributes(place, held, held.__dict__)

    def _object(self, place: str, held: Any) -> None:
        """As ``copy.copy`` would take it apart."""
        kind: type = type(cast(object, held))
        self.lines[place] = f"{kind.__module__}.{kind.__qualname__}"
        try:
            reduce = copyreg.dispatch_table.get(kind)
            made: Any = reduce(held) if reduce is not None else held.__reduce_ex__(4)
        except Exception:  # what cannot be copied: a lock, a file, an object that holds such a thing by slots
            self._attributes(place, held, getattr(held, "__dict__", None))
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
                self._attributes(place, held, cast(dict[str, Any], part))
            elif part is not None:
                self.walk(f"{place} state", part)
        for number, item in enumerate(items or ()):
            self.walk(f"{place}[{number}]", item)
        for key, item in pairs or ():
            self.walk(f"{place}[{_key(key)}]", item)

    def _attributes(self, place: str, held: object, attributes: Mapping[str, Any] | None) -> None:
        """Without what a cached property has computed from the others."""
        for name, item in list((attributes or {}).items()):
            if not isinstance(getattr(type(held), str(name), None), functools.cached_property):
                self.walk(f"{place}.{name}", item)


def _functions(held: Any) -> dict[str, Any]:
    """The functions that something stands around, by where: of a property, a static or class method, a cache."""
    if isinstance(held, FunctionType):
        return {"": held}
    if isinstance(held, property):
        parts = {".fget": held.fget, ".fset": held.fset, ".fdel": held.fdel}
        return {name: part for name, part in parts.items() if part is not None}
    if isinstance(held, MethodType):
        return {"": held.__func__, ".__self__": held.__self__}
    if isinstance(held, (staticmethod, classmethod)):
        return {"": cast(Any, held).__func__}
    wrapped = getattr(held, "__dict__", {}).get("__wrapped__")
    return {"": wrapped} if isinstance(wrapped, FunctionType) else {}


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell.cell_contents
    except ValueError:
        return False


def _key(held: Any) -> str:
    if type(held) in _PLAIN:
        return _short(repr(held))
    lines = described(held)
    return lines[""] if len(lines) == 1 else f"{lines['']} {_digest(repr(sorted(lines.items())))}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… {_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]
