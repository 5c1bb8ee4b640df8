"""The content of a source file as plain data: it depends on the file's bytes and the module's name alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

# Units that no name stands for: the statements that bind nothing, and the body of ``if __name__ == "__main__"``.
ON_IMPORT = "<on import>"
AS_SCRIPT = "<as script>"
ANYTHING = "*"  # in place of the name of a variable that only a run would tell
STAR = "*"  # in place of a bound name: all names of a module
# Attributes in a reference that are no names:
ANY = "*"  # a name that only a run would tell
FIELD = "self."  # how an attribute begins that a field of the step names: ``getattr(module, self.rule)``
SCRIPT = "__main__"  # the module is run with -m

type Chain = tuple[str, ...]  # ``a.b.c``
type Lines = tuple[int, int]  # first and last


class Target(NamedTuple):
    """The target of an import: a module, or a name in a module."""

    module: str
    symbol: str = ""


class Imported(NamedTuple):
    """One import statement. loads: the imported modules. names: the bound names, or STAR."""

    lines: Lines
    loads: tuple[Target, ...]
    names: tuple[str, ...]


class Announcement(NamedTuple):
    """Code that sees a definition while it is made, and might keep it in a registry, where no name leads to it.

    calls: everything called meanwhile. decorators: code that gets the defined object. bases: base classes.
    """

    calls: tuple[Chain, ...] = ()
    decorators: tuple[Chain, ...] = ()
    bases: tuple[Chain, ...] = ()


class Role(IntEnum):
    """The use of a name. ARGUMENT: handed to a call that may look into it."""

    USE = 0
    BASE = 1
    DECORATOR = 2
    ARGUMENT = 3


class Reference(NamedTuple):
    """``name.attributes`` is used. start: where the name leads if the unit imports it itself.

    scope: the function or class in the unit that uses it.
    at_import: used when the module is imported, not when a function is called.
    """

    name: str
    attributes: tuple[str, ...]
    start: Target | None
    scope: str
    line: int
    role: Role = Role.USE
    at_import: bool = False


class Trait(StrEnum):
    """A trait of a unit. STATE: a variable that can change after import. HOOKS: a class that sees its new subclasses.

    CLASS: a class. CALLS_RUN: calls run() of something, perhaps of a named step.
    READS_…: reads docstrings, annotations or source text. DISPATCHES: dispatches by the annotations of functions.
    REGISTERS: perhaps registers a function with a dispatcher.
    HOLDS_RESULT: a class attribute or a default argument is the result of a call.
    """

    STATE = "state"
    HOOKS = "hooks"
    CLASS = "class"
    CALLS_RUN = "calls run"
    READS_ANNOTATIONS = "reads annotations"
    READS_DOCS = "reads docs"
    READS_SOURCE = "reads source"
    LISTS_SUBCLASSES = "lists subclasses"
    DISPATCHES = "dispatches"
    REGISTERS = "registers"
    HOLDS_RESULT = "holds result"


class Retention(IntEnum):
    """The time for which code may keep data.

    OBJECT: as long as something holds an object of the class. PROCESS: until the process ends.
    """

    NOTHING = 0
    OBJECT = 1
    PROCESS = 2


class Keeping(NamedTuple):
    """The places in which the functions of a unit may keep data.

    retention: of places that their text tells. wrappers: their decorators, and callables that get them and whose result
    the module binds; () for a computed one. changed: names of the module into which they write.
    """

    retention: Retention = Retention.NOTHING
    wrappers: tuple[Chain, ...] = ()
    changed: tuple[str, ...] = ()


class Annotation(NamedTuple):
    """An annotation. text: with its target. names: the names in it. of_field: it annotates a class's attribute."""

    text: str
    names: tuple[Reference, ...]
    of_field: bool


class UnitSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The source of a unit, before any name in it is resolved."""

    text: str = ""  # normalised
    references: tuple[Reference, ...] = ()  # names outside itself, in source order
    loads: tuple[Target, ...] = ()  # modules that functions import
    notes: tuple[tuple[int, str], ...] = ()  # (line, what): code that is not seen, or covered only by counting much
    methods: frozenset[str] = frozenset()  # attributes of objects that are no module, so perhaps of a dependency's step
    annotations: tuple[Annotation, ...] = ()  # of every function and class; they count if they are read
    docs: tuple[str, ...] = ()  # with their functions and classes; they count if they are read
    traits: frozenset[Trait] = frozenset()
    environment: tuple[str, ...] = ()  # variables that the code asks for
    keeping: Keeping = Keeping()


class ModuleSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a source file."""

    bindings: dict[str, tuple[Lines, ...]] = {}  # of every statement that binds a name, in order
    effects: tuple[Lines, ...] = ()  # of the statements that bind nothing: ``os.environ[...] = ...``
    imported: tuple[Imported, ...] = ()  # import statements that run with the module
    imports: dict[str, tuple[tuple[int, Target], ...]] = {}  # (line, target) by bound name, or STAR
    has_script: bool = False  # there is a body of ``if __name__ == "__main__"``
    announced: dict[str, Announcement] = {}  # by the name of a definition
    exports: frozenset[str] | None = None  # the names in ``__all__``; None if missing or computed
    conjures: bool = False  # importing the module may bind names that its source does not show
    units: dict[str, UnitSource] = {}  # without those that are nested too deeply to be read


@dataclass(eq=False)
class Module:
    """A module, a namespace folder or a compiled module. name: dotted. folder: where its file stands."""

    name: str
    path: Path
    source: ModuleSource = field(default_factory=ModuleSource)
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.path.parent
