"""Count classes that no source file shows whole: made inside a function, in a notebook, or from text.

Such a class captures variables of the enclosing function and attributes set on it, which count by their values.
Code without a source file counts by its bytecode.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import logging
import re
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, cast

from msgspec import Struct, field

from marin.errors import UnencodableValue
from marin.fingerprint.origin import is_engine, is_local
from marin.steps.value import encode

_OWN = frozenset(
    {"op", "version", "isolated", "uses_accelerator", "kind", "label", "resources", "_abc_impl"}
)  # the engine's, in identities
# What dataclasses writes; a step's fields are in its identity.
_GENERATED = frozenset(
    {"__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__replace__", "__match_args__"}
)


class SourcelessCode(Struct):
    """shows: whether a file of source shows a function or class. texts: by the name under which they count.

    roots: functions, classes and modules with source that it leads to. problems: what cannot be counted.
    """

    shows: Callable[[FunctionType | type], bool]
    texts: dict[str, str] = field(default_factory=dict[str, str])
    roots: list[FunctionType | type | ModuleType] = field(default_factory=list[FunctionType | type | ModuleType])
    packages: set[str] = field(default_factory=set[str])
    problems: list[str] = field(default_factory=list[str])
    _seen: set[int] = field(default_factory=set[int])

    def add_class(self, cls: type) -> None:
        """Add everything of a class that its file does not show."""
        if id(cls) in self._seen:
            return
        self._seen.add(id(cls))
        name = f"{cls.__module__}.{cls.__qualname__}"
        sourceless = not self.shows(cls)
        known: Any = cls
        fields = {spec.name for spec in dataclasses.fields(known)} if dataclasses.is_dataclass(known) else set[str]()
        lines: list[str] = []
        for attribute, value in list(cls.__dict__.items()):
            functions = list(_functions(value))
            if attribute in _GENERATED and fields:
                continue
            for function in functions:
                lines += self._function(function, f"{name}.{attribute}", sourceless)
            generated = attribute.startswith("__") and attribute.endswith("__")
            if functions or generated or attribute in _OWN or attribute in fields:
                continue
            if not isinstance(value, MemberDescriptorType):
                lines += self._value(f"{name}.{attribute}", attribute, value)
        if sourceless:
            lines += [f"base {base.__module__}.{base.__qualname__}" for base in cls.__bases__]
        if lines:
            suffix = "" if sourceless else ".<captured>"
            self.texts[f"{name}{suffix}"] = "\n".join(sorted(lines))

    def _function(self, function: FunctionType, name: str, sourceless: bool) -> list[str]:
        lines: list[str] = []
        if is_engine(function.__module__):  # the engine may wrap the class's own functions
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
            inner = [value for value in cells if isinstance(value, FunctionType)]
            return [line for value in inner for line in self._function(value, name, sourceless)]
        own = not self.shows(function)
        if sourceless and not own:
            lines += self._code(name, name, function)
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if variable == "__class__":
                continue
            try:
                lines += self._value(name, variable, cell.cell_contents)
            except ValueError:
                continue  # not assigned yet
        if own and id(function.__code__) not in self._seen:
            self._seen.add(id(function.__code__))
            lines += [f"{name}: {line}" for line in _bytecode(function.__code__)]
            for number, default in enumerate(
                (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
            ):
                lines += self._value(name, f"default {number}", default)
            for used in _named(function.__code__, "LOAD_GLOBAL", "LOAD_NAME"):
                if used in function.__globals__:
                    lines += self._value(name, used, function.__globals__[used])
            for used in _named(function.__code__, "IMPORT_NAME"):  # when it runs
                if (module := sys.modules.get(used)) is not None:  # of others we hear when they are imported
                    self._add_module(module)
        return lines

    def _value(self, owner: str, name: str, value: Any) -> list[str]:
        """Return the lines by which a captured object counts."""
        if isinstance(value, functools.partial):
            inner = cast("functools.partial[Any]", value)
            parts = [("function", inner.func), *enumerate(inner.args), *inner.keywords.items()]
            return [line for part, item in parts for line in self._value(owner, f"{name} {part}", item)]
        if isinstance(value, MethodType):
            return self._value(owner, f"{name} self", value.__self__) + self._value(owner, name, value.__func__)
        if isinstance(value, ModuleType):
            self._add_module(value)
            return [f"{name} is {value.__name__}"]
        if isinstance(value, (FunctionType, type)):
            return self._code(owner, name, value)
        if isinstance(value, BuiltinFunctionType):
            return [f"{name} is {value.__module__}.{value.__qualname__}"]
        try:
            return [f"{name} is {value!r:.40} {encode(value, name, []).hex()}"]
        except UnencodableValue:
            if isinstance(value, re.Pattern):
                return [f"{name} is {value!r}"]
            if isinstance(value, logging.Logger):
                return []
            self.problems.append(
                f"{owner} uses {name} ({type(cast(object, value)).__qualname__}), which exists only in this process"
            )
            return []

    def _code(self, owner: str, name: str, value: FunctionType | type) -> list[str]:
        """Return the lines of a function or class: by its source, or by its bytecode if it has none."""
        module = value.__module__ or "builtins"
        where = f"{module}.{value.__qualname__}"
        lines = [f"{name} is {where}"]
        if is_given(module):
            return lines
        shown = self.shows(value)
        if shown and not is_local(file_of(value)):
            self.packages.add(module.split(".")[0])
            return lines
        if shown:
            self.roots.append(value)
        if isinstance(value, FunctionType):
            lines += self._function(value, where, sourceless=not shown)
        elif "<locals>" in value.__qualname__ or not shown:
            self.add_class(value)
        return lines

    def _add_module(self, module: ModuleType) -> None:
        if is_given(module.__name__):
            return
        file = getattr(module, "__file__", None)
        if file is not None and is_local(file):
            self.roots.append(module)
        else:
            self.packages.add(module.__name__.split(".")[0])


def is_given(module: str) -> bool:
    """Return whether a module is the engine's or Python's, which no fingerprint holds."""
    return is_engine(module) or module.split(".")[0] in sys.stdlib_module_names


def file_of(value: FunctionType | type) -> str:
    """Return the source file; "" if unknown, or if the module does not hold the class by its name."""
    if isinstance(value, FunctionType):
        return value.__code__.co_filename
    module = sys.modules.get(value.__module__)
    return getattr(module, "__file__", None) or "" if hasattr(module, value.__qualname__.split(".")[0]) else ""


def _functions(value: Any) -> Iterator[FunctionType]:
    if isinstance(value, property):
        parts: tuple[Any, ...] = (value.fget, value.fset, value.fdel)
    elif isinstance(value, functools.cached_property):
        parts = (cast(Any, value).func,)
    else:
        parts = (getattr(value, "__func__", value),)  # static and class methods
    for part in parts:
        while isinstance(part, FunctionType):
            yield part
            part = part.__dict__.get("__wrapped__")


def _named(code: CodeType, *operations: str) -> list[str]:
    """Return the names that these instructions use, in code and in code inside it."""
    instructions = [each for part in (code, *inner_codes(code)) for each in dis.get_instructions(part)]
    return sorted({str(each.argval) for each in instructions if each.opname in operations})


def inner_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the functions, classes and lambdas inside of code, at any depth."""
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield value
            yield from inner_codes(value)


def _bytecode(code: CodeType) -> Iterator[str]:
    """Yield the instructions, without parts that depend on the place of the code."""
    for number, instruction in enumerate(dis.get_instructions(code)):
        value = instruction.argval
        shown = f"<code {value.co_name}>" if isinstance(value, CodeType) else instruction.argrepr
        if isinstance(value, frozenset):
            shown = ", ".join(sorted(map(repr, cast(frozenset[object], value))))
        yield f"{number:04d} {instruction.opname} {shown}".rstrip()
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from (f"{value.co_name}: {line}" for line in _bytecode(value))
