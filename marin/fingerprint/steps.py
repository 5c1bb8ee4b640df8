"""The fingerprint of a step: from its class and the classes of its values."""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, cast

from marin.fingerprint.boundary import is_engine
from marin.fingerprint.closure import Closures, Key
from marin.fingerprint.locate import is_local
from marin.fingerprint.packages import python_version, versions
from marin.fingerprint.result import CodeFingerprint
from marin.step import ExecutorStep
from marin.value import EXECUTION

_LEAVES = frozenset({int, float, str, bool, bytes, type(None)})
_NONE: frozenset[type] = frozenset()


class Fingerprinter:
    """Computes fingerprints and remembers what it read: make a new one to see edited source.

    The cost is in the first step of each class: .25 s for the first that reaches 12,000 lines, 1 ms
    for the next. Each further step of a class costs a walk over its field values, 3 µs.
    """

    def __init__(self) -> None:
        self._closures = Closures()
        self._fields: dict[type, tuple[str, ...]] = {}
        self._steps: set[type] = set()
        self._made: dict[tuple[type, frozenset[type]], CodeFingerprint] = {}

    def fingerprint(self, step: ExecutorStep[Any]) -> CodeFingerprint:
        key = (type(step), self._value_classes(step))
        if key not in self._made:
            with _collector_paused():
                self._made[key] = self._make(*key)
        return self._made[key]

    def _value_classes(self, step: ExecutorStep[Any]) -> frozenset[type]:
        """Classes of @value dataclasses and enums in the fields, at any depth, not inside other steps."""
        found: set[type] = set()
        self._collect_fields(step, found)
        return frozenset(found) if found else _NONE

    def _collect_fields(self, instance: object, found: set[type]) -> None:
        cls = type(instance)
        names = self._fields.get(cls)
        if names is None:
            names = tuple(f.name for f in dataclasses.fields(cast(Any, instance)) if EXECUTION not in f.metadata)
            self._fields[cls] = names
        for name in names:
            item = getattr(instance, name)
            if type(item) not in _LEAVES:
                self._collect(item, found)

    def _collect(self, held: object, found: set[type]) -> None:
        kind = type(held)
        if kind in self._steps:
            return
        if isinstance(held, (tuple, list, frozenset, set)):
            for item in cast(tuple[Any, ...], held):
                if type(item) not in _LEAVES:
                    self._collect(item, found)
        elif isinstance(held, Mapping):
            mapping = cast(Mapping[Any, Any], held)
            self._collect((*mapping.keys(), *mapping.values()), found)
        elif isinstance(held, ExecutorStep):
            self._steps.add(kind)
        elif isinstance(held, Enum):
            found.add(kind)
        elif dataclasses.is_dataclass(held):
            found.add(kind)
            self._collect_fields(held, found)

    def _make(self, cls: type, values: frozenset[type]) -> CodeFingerprint:
        opaque: list[str] = []
        packages = {"python": python_version()}
        roots: list[Key] = []
        # Bases too, by what Python made of them: a computed base is not seen in the source.
        families = [kind.__mro__ for kind in (cls, *values)]
        classes = {(kind.__module__, kind.__qualname__): kind for family in families for kind in family}
        for _, member in sorted(classes.items(), key=lambda item: item[0]):
            roots += self._root(member, packages, opaque)
        for root in tuple(roots):
            if any(root.name == base.__qualname__.split(".")[0] for base in cls.__mro__):
                roots += self._closures.field_annotations(root)
        units = self._closures.reach(roots)
        named = sorted((key.qualified, unit) for key, unit in units.items() if unit.text)
        for _, unit in named:
            packages.update(unit.packages)
            opaque += unit.notes
        return CodeFingerprint(
            units={name: unit.digest for name, unit in named},
            packages=dict(sorted(packages.items())),
            opaque=tuple(sorted(set(opaque))),
            sources={name: unit.text for name, unit in named},
        )

    def _root(self, cls: type, packages: dict[str, str], opaque: list[str]) -> list[Key]:
        """The unit that defines a live class; none for the engine's, Python's and installed ones."""
        if cls.__module__ in sys.stdlib_module_names or is_engine(cls.__module__, cls.__qualname__):
            return []
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if file is None or not Path(file).is_file():
            opaque.append(f"{cls.__module__}.{cls.__qualname__} has no source file; its code is not fingerprinted")
            return []
        path = Path(file).resolve()
        if not is_local(path):
            top = cls.__module__.split(".")[0]
            if top not in sys.stdlib_module_names:
                packages.update(versions(top, True))
            return []
        module = self._closures.resolver.module(path)
        symbol = cls.__qualname__.split(".")[0]  # of a class made in a function: the function
        if symbol not in module.bindings:
            opaque.append(f"{module.name} does not define {cls.__qualname__} visibly; its code is not fingerprinted")
            return []
        return [Key(module, symbol)]


@contextmanager
def _collector_paused() -> Generator[None]:
    """Syntax trees are many objects and none of them garbage: looking for garbage took a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_FINGERPRINTER = Fingerprinter()


def code_fingerprint(step: ExecutorStep[Any]) -> CodeFingerprint:
    """The step's fingerprint, by source files as this process first read them."""
    return _FINGERPRINTER.fingerprint(step)
