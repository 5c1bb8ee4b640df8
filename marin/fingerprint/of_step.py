"""Compute the fingerprint of a step from its class and the classes of its values."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, cast

from msgspec import Struct

from marin.errors import PatchedCode, UnseenCode
from marin.fingerprint.captured import SourcelessCode, file_of
from marin.fingerprint.closure import DIGITS, Closures
from marin.fingerprint.fingerprint import CodeFingerprint
from marin.fingerprint.lookup.definitions import Key
from marin.fingerprint.lookup.import_path import python_version, versions
from marin.fingerprint.lookup.units import READ_WITHOUT_PYTHON, Unit
from marin.fingerprint.observation.executed import Executed
from marin.fingerprint.origin import is_engine, is_local
from marin.fingerprint.source.module import ANYTHING
from marin.steps.artifact import Artifact
from marin.steps.encoding import ATOMS
from marin.steps.field_types import argument_of
from marin.steps.step import ExecutorStep
from marin.steps.value import EXECUTION, digest
from marin.store.collector import paused

_OF_PANDAS = re.compile(r"\bread_(?:parquet|feather|orc)\b")  # functions of pandas that open files with pyarrow
_NONE: frozenset[type] = frozenset()


class Fingerprinter:
    """A maker of fingerprints that remembers the source it read. Make a new one to see edited source.

    The first step of each class costs most: 0.3 s for the first that reaches 12,000 lines that nobody read before,
    1 ms for the next. Each further step of a class costs a walk over its field values, 3 µs.
    """

    def __init__(self) -> None:
        self._closures = Closures()
        self._fields: dict[type, tuple[str, ...]] = {}
        self._steps: set[type] = set()
        self._answers: dict[_Question, _Answer] = {}
        self.executed = Executed(self._closures)
        self._asked: dict[type, tuple[str, ...]] = {}
        self._root = functools.cache(self._find_root)
        self._installed = functools.cache(_installed)
        self._beyond: dict[tuple[_Question, type], frozenset[type]] = {}

    def fingerprint(self, step: ExecutorStep[Any]) -> CodeFingerprint:
        """Return the fingerprint of a step.

        Raises UnseenCode, and ExperimentError for a file that Python could not import either.
        """
        return self._answer(step).fingerprint

    def must_match_files(self, step: ExecutorStep[Any]) -> CodeFingerprint:
        """Return the fingerprint. Raises PatchedCode if this process holds other code than the files of the step."""
        answer = self._answer(step)
        found = self._differences(answer)
        if found:
            raise PatchedCode(
                f"{type(step).__qualname__}: this process runs code that differs from the files:\n  "
                + "\n  ".join(found)
                + "\nA worker would run the files. Write the change into them, or make it in a module that the "
                "step's own code imports; after an edit, start a new process"
            )
        return answer.fingerprint

    @functools.cached_property
    def _differences(self) -> Callable[[_Answer], list[str]]:
        from marin.fingerprint.process import Live  # parses files, which a plan seldom needs

        live = Live(self._closures.units)

        def differences(answer: _Answer) -> list[str]:
            return live.differences(answer.units)

        return functools.cache(differences)

    def _answer(self, step: ExecutorStep[Any]) -> _Answer:
        cls = type(step)
        classes = self._classes(step)
        producer = step.producer
        also = _NONE
        if producer is not None:  # the producer's code builds this output
            classes |= self._classes(producer)
            also = frozenset({type(producer)})
        inputs = classes & self._steps if classes else _NONE
        question = _Question(cls, classes - inputs, also, self._named(step))
        answer = self._answered(question)
        for each in inputs:
            also |= self._of_input(question, answer, each)
        return answer if also == question.also else self._answered(question._replace(also=also))

    def _named(self, step: ExecutorStep[Any]) -> tuple[tuple[str, str], ...]:
        """Return the fields whose values the step's code uses as names (``getattr(module, self.rule)``), with these."""
        cls = type(step)
        if cls not in self._asked:
            keys = [key for base in cls.__mro__ if (key := self._root(base)) is not None]
            fields = {spec.name for spec in dataclasses.fields(cast(Any, step))}
            asked = set[str]().union(*(self._closures.units.asked_fields(key) for key in keys))
            self._asked[cls] = tuple(sorted(asked & fields))
        values = ((name, getattr(step, name)) for name in self._asked[cls])
        return tuple((name, value) for name, value in values if isinstance(value, str))

    def _answered(self, question: _Question) -> _Answer:
        if question not in self._answers:
            with paused():
                self._answers[question] = self._make(question)
        return self._answers[question]

    def _of_input(self, question: _Question, answer: _Answer, kind: type) -> frozenset[type]:
        """Return the classes that count because one of a step's inputs is a step of this kind.

        The class of the input's artifact counts. The input's own class counts if one of its methods seems to be called.
        """
        key = (question, kind)
        if key not in self._beyond:
            artifact, found = _artifact(kind), set[type]()
            if artifact is not None and _name(artifact) not in answer.fingerprint.units:
                found.add(artifact)
            if not _offer(kind).isdisjoint(answer.methods):
                found.add(kind)
            self._beyond[key] = frozenset(found)
        return self._beyond[key]

    def _classes(self, step: ExecutorStep[Any]) -> frozenset[type]:
        """Return the classes of @value dataclasses, enums and steps in the fields, at any depth outside other steps."""
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
            if type(item) not in ATOMS:
                self._collect(item, found)

    def _collect(self, value: object, found: set[type]) -> None:
        kind = type(value)
        if kind in self._steps:
            found.add(kind)
        elif isinstance(value, (tuple, list, frozenset, set)):
            for item in cast(tuple[Any, ...], value):
                if type(item) not in ATOMS:
                    self._collect(item, found)
        elif isinstance(value, Mapping):
            mapping = cast(Mapping[Any, Any], value)
            self._collect((*mapping.keys(), *mapping.values()), found)
        elif isinstance(value, ExecutorStep):
            self._steps.add(kind)
            found.add(kind)
        elif isinstance(value, Enum):
            found.add(kind)
        elif dataclasses.is_dataclass(value):
            found.add(kind)
            self._collect_fields(value, found)

    def _make(self, question: _Question) -> _Answer:
        cls = question.cls
        packages = {"python": python_version()}
        sourceless = SourcelessCode(self._shows)
        roots: list[Key] = []
        # Bases count too, as Python evaluated them: the source does not show a computed base.
        classes = {base for kind in (cls, *question.values, *question.also) for base in kind.__mro__}
        for member in sorted(classes, key=lambda kind: (kind.__module__, kind.__qualname__)):
            root = self._root(member)
            packages |= self._installed(member)
            roots += [root] if root is not None else []
            if root is not None and member in cls.__mro__:
                roots += self._closures.field_annotations(root)
            hidden = "<locals>" in member.__qualname__ if root is not None else not self._shows(member)
            if hidden and _is_project(member):
                sourceless.add_class(member)
        for value in sourceless.roots:
            roots += self._keys(value)
        own = [key for base in cls.__mro__ if (key := self._root(base)) is not None] if question.named else []
        named = {key: dict(question.named) for key in own}
        reached = self._closures.reach(roots, named=named)
        parts = reached.parts
        units = {key.qualified: (part.text, part.digest) for key, part in parts.items() if part.text}
        units |= {name: (text, digest(text.encode())[:DIGITS]) for name, text in sourceless.texts.items()}
        for top in sourceless.packages:
            packages.update(versions(top, True))
        for part in parts.values():
            packages.update(part.unit.packages)
        if sourceless.problems:
            raise UnseenCode(
                f"{cls.__qualname__}: no other process could make this:\n  "
                + "\n  ".join(dict.fromkeys(sourceless.problems))
                + "\nMake it a field of the step, or define it at the top level of a module"
            )
        # Our own library opens nothing but directories of the store, and hands the whole environment to programs.
        lab = [part for key, part in parts.items() if key.module.name.split(".")[0] != "marin"]
        named = frozenset(name for part in parts.values() for name in part.unit.piece.environment if name != ANYTHING)
        fingerprint = CodeFingerprint(
            units={name: units[name][1] for name in sorted(units)},
            packages=dict(sorted(packages.items())),
            opaque=tuple(sorted({text for part in parts.values() for text in part.unit.notes})),
            sources={name: units[name][0] for name in sorted(units)},
            loaded=frozenset(module.name for module in reached.loaded),
            environment=frozenset(name for part in lab for name in part.unit.piece.environment) | named,
            readers=frozenset(top for part in lab for top in part.unit.tops if top in READ_WITHOUT_PYTHON)
            | {"pandas" for part in lab if "read_" in part.text and _OF_PANDAS.search(part.text)},
            counted_before=lambda: {key.qualified for key in self._closures.reach(roots, doubtful=True).units},
        )
        methods = frozenset[str]().union(*(part.unit.piece.methods for part in parts.values()))
        return _Answer(fingerprint, methods, {key: part.unit for key, part in parts.items()})

    def _find_root(self, cls: type) -> Key | None:
        """Return the unit that defines a live class; None for a class of the engine, Python, a package or no source."""
        keys = self._keys(cls) if _is_project(cls) and is_local(_real(file_of(cls))) else []
        return keys[0] if keys else None

    def _shows(self, value: FunctionType | type) -> bool:
        """Return whether a source file shows the definition. Installed code is known by its version."""
        file = file_of(value)
        return os.path.isfile(file) and (not is_local(_real(file)) or bool(self._keys(value)))

    def _keys(self, value: FunctionType | type | ModuleType) -> list[Key]:
        """Return the unit that defines a function or class, or all units of a module.

        A function or class that is made inside a function belongs to that function's unit.
        """
        resolver = self._closures.units.resolver
        file = value.__file__ if isinstance(value, ModuleType) else file_of(value)
        if not file or not os.path.isfile(file) or not file.endswith(".py"):
            return []
        module = resolver.module(_real(file))
        if isinstance(value, ModuleType):
            return [each.unit for each in resolver.whole(module) if each.unit is not None]
        symbol = value.__qualname__.split(".")[0]
        return [Key(module, symbol)] if symbol in module.source.bindings else []


class _Question(NamedTuple):
    """The facts that a fingerprint depends on.

    also: classes of inputs' artifacts, and of other steps that are run or asked.
    named: fields whose values the code uses as names, with these values.
    """

    cls: type
    values: frozenset[type]
    also: frozenset[type]
    named: tuple[tuple[str, str], ...] = ()


class _Answer(Struct, frozen=True, eq=False):
    """A fingerprint. methods: attributes that its code uses of objects that may be an input's step. units: its code."""

    fingerprint: CodeFingerprint
    methods: frozenset[str]
    units: Mapping[Key, Unit]


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_project(cls: type) -> bool:
    top = cls.__module__.split(".")[0]
    if top in sys.stdlib_module_names:  # types.new_class gives its own module's name to a new class
        return not hasattr(sys.modules.get(cls.__module__), cls.__qualname__.split(".")[0])
    return not is_engine(cls.__module__)


@functools.cache
def _real(file: str) -> Path:
    return Path(file).resolve()


def _installed(cls: type) -> dict[str, str]:
    """Return the version of the package that defines a live class."""
    is_of_package = _is_project(cls) and not is_local(_real(file_of(cls)))
    return versions(cls.__module__.split(".")[0], True) if is_of_package else {}


def _offer(cls: type) -> frozenset[str]:
    """Return the methods and properties that a step's class adds to ExecutorStep."""
    names = {name for base in cls.__mro__ if _is_project(base) for name in base.__dict__}
    return frozenset(names - {spec.name for spec in dataclasses.fields(cls)} - (set(dir(ExecutorStep)) - {"run"}))


def _artifact(cls: type) -> type | None:
    """Return the artifact class that a step's run() returns, if declared: ``A`` of ``ExecutorStep[A]``."""
    made = argument_of(cls, ExecutorStep)
    return made if isinstance(made, type) and issubclass(made, Artifact) and made is not Artifact else None


_FINGERPRINTER = Fingerprinter()


def code_fingerprint(step: ExecutorStep[Any]) -> CodeFingerprint:
    """Return the step's fingerprint, from source files as this process first read them."""
    return _FINGERPRINTER.fingerprint(step)


def must_match_files(step: ExecutorStep[Any]) -> CodeFingerprint:
    """Return the step's fingerprint. Raises PatchedCode if this process holds other code than the files of the step."""
    return _FINGERPRINTER.must_match_files(step)


def executed() -> Executed:
    """Return the finder of units, by code that ran or by name, in source files as this process first read them."""
    return _FINGERPRINTER.executed
