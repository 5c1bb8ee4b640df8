"""What a unit's source tells of the kind of thing that it is: what it keeps, who hears of it, what it looks into."""

from __future__ import annotations

import ast
import functools
from enum import IntFlag

from marin.fingerprint.source.bindings import CONTAINERS, FUNCTIONS, branches, defaults, leaves
from marin.fingerprint.source.names import Reader


class Trait(IntFlag):
    """STATE: a variable that can change after import. HOOKS: a class that hears of its subclasses.

    CLASS: it is one. CALLS_RUN: of something, perhaps of a step that is named.
    READS_…: docstrings, annotations or source text are looked at by something. DISPATCHES: by the annotations of
    functions. REGISTERS: such a function, perhaps.
    """

    NONE = 0
    STATE = 1
    HOOKS = 2
    CLASS = 4
    CALLS_RUN = 16
    READS_ANNOTATIONS = 32
    READS_DOCS = 64
    READS_SOURCE = 128
    LISTS_SUBCLASSES = 256
    DISPATCHES = 512
    REGISTERS = 1024


# What shows a function's or class's docstring, annotations or very source to the code that uses it.
_BY_IMPORT = {
    Trait.READS_ANNOTATIONS: {
        "typing.get_type_hints",
        "typing_extensions.get_type_hints",
        "inspect.Signature.from_callable",
        *(f"inspect.{name}" for name in ("signature", "getfullargspec", "get_annotations", "getargspec")),
    },
    Trait.READS_DOCS: {"inspect.getdoc", "pydoc.getdoc", "pydoc.render_doc", "doctest.testmod"},
    Trait.READS_SOURCE: {
        "linecache.getlines",
        *(f"inspect.{name}" for name in ("getsource", "getsourcelines", "findsource", "getcomments")),
    },
    Trait.DISPATCHES: {"functools.singledispatch", "functools.singledispatchmethod"},
}
_BY_ATTRIBUTE = {
    Trait.CALLS_RUN: "run",
    Trait.READS_DOCS: "__doc__",
    Trait.READS_SOURCE: "__code__",
    Trait.LISTS_SUBCLASSES: "__subclasses__",
}
# By these names annotations, and what follows from them, are looked up: as attributes, keys or strings.
_ANNOTATIONS = ("__annotations__", "__annotate__", "__type_params__", "__required_keys__", "__optional_keys__")
_BY_WORD = {
    Trait.READS_ANNOTATIONS: _ANNOTATIONS,
    Trait.HOOKS: ("def __init_subclass__", "metaclass="),
    Trait.REGISTERS: ("register",),
}
_CONTAINERS = frozenset(
    {"dict", "list", "set", "defaultdict", "OrderedDict", "Counter", "deque", "WeakValueDictionary", "ChainMap"}
)


def traits_of(statements: list[ast.stmt], text: str, reader: Reader, *, binds: bool) -> Trait:
    """binds: whether the statements are what a name stands for."""
    imported = _imported_names(reader)
    attributes = reader.methods.union(*(reference.attributes for reference in reader.references))
    found = {trait for trait, names in _BY_IMPORT.items() if not imported.isdisjoint(names)}
    found |= {trait for trait, name in _BY_ATTRIBUTE.items() if name in attributes}
    found |= {trait for trait, words in _BY_WORD.items() if any(word in text for word in words)}
    if ("fields" in text and ".type" in text) or ("dataclasses.fields" in imported and "'type'" in text):
        found.add(Trait.READS_ANNOTATIONS)
    if any(isinstance(inner, ast.ClassDef) for node in statements for inner in leaves(node)):
        found.add(Trait.CLASS)
    if binds and any(map(_can_change, statements)):
        found.add(Trait.STATE)
    return functools.reduce(Trait.__or__, found, Trait.NONE)


def _imported_names(reader: Reader) -> set[str]:
    """ "inspect.signature" for whatever of other modules is used, called or not, under whatever name."""
    found: set[str] = set()
    for reference in reader.references:
        imports = reader.module.imports.get(reference.name, ())
        starts = [".".join(filter(None, target)) for target in ([reference.start] if reference.start else imports)]
        for start in starts or [f"{star}.{reference.name}" for star in reader.module.stars]:
            found.update(".".join([start, *reference.attributes[:end]]) for end in range(3))
    return found


def _can_change(node: ast.stmt) -> bool:
    """Whether it makes a variable, class attribute or default argument that can change later. A logger is none."""
    if isinstance(node, FUNCTIONS):
        return any(map(holds_container, defaults(node.args)))
    if isinstance(node, ast.ClassDef):
        values = [
            getattr(inner, "value", None) for inner in node.body if isinstance(inner, (ast.Assign, ast.AnnAssign))
        ]
        return any(value is not None and holds_container(value) for value in values)
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        called = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
        if called in ("logging.getLogger", "getLogger"):
            return False
        return any(isinstance(inner, (*CONTAINERS, ast.Call)) for inner in ast.walk(node.value))
    return any(_can_change(inner) for body in branches(node) for inner in body)


def holds_container(value: ast.expr) -> bool:
    for inner in ast.walk(value):
        if isinstance(inner, CONTAINERS):
            return True
        if isinstance(inner, ast.Call):
            name = inner.func.attr if isinstance(inner.func, ast.Attribute) else getattr(inner.func, "id", "")
            if name in _CONTAINERS:
                return True
    return False
