"""The syntax of one source file, split into what its top level binds, imports and does."""

from __future__ import annotations

import ast
import functools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from marin.fingerprint.source.bindings import (
    CONTAINERS,
    DEFINITIONS,
    bound_names,
    branches,
    chained,
    is_effect,
    is_main_guard,
    leaves,
    only,
    run_at_once,
    without_lambdas,
)
from marin.fingerprint.source.module import Announcement, Chain, Target

_CONJURES = ("globals(", "setattr(", "exec(", "vars(", "__dict__")
CHANGING = frozenset({"append", "add", "extend", "insert", "setdefault", "update"})


class Import(NamedTuple):
    """One import statement. place: as in Syntax. loads: the imported modules. binds: (name, target); "*" for a star."""

    node: ast.stmt
    place: int
    loads: tuple[Target, ...]
    binds: tuple[tuple[str, Target], ...]


class RemovedParts(Struct):
    """The parts that normalising removes from a function or class.

    They count if something reads them, and imports tell the targets of names. imports: import statements inside the
    function or class. annotations: (annotated name, annotation).
    """

    imports: list[ast.stmt] = field(default_factory=list[ast.stmt])
    annotations: list[tuple[str, ast.expr]] = field(default_factory=list[tuple[str, ast.expr]])
    docstring: str | None = None
    type_params: tuple[str, ...] = ()


class Syntax(Struct, eq=False, dict=True):
    """One parsed file. name: the module's dotted name. package: the start of relative imports.

    bindings: every statement that binds a name, in order. effects: the statements that bind nothing
    (``table.register(...)``, ``os.environ[...] = ...``). places: the position of each among all statements.
    imported: import statements that run with the module. imports: their targets by bound name. stars: modules of star
    imports. script: the body of ``if __name__ == "__main__"``. announced: by the name of a definition.
    exports: the names in ``__all__``; None if missing or computed. aside: filled while units are normalised.
    """

    name: str
    package: str
    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict[str, list[ast.stmt]])
    places: dict[ast.stmt, int] = field(default_factory=dict[ast.stmt, int])
    imported: list[Import] = field(default_factory=list[Import])
    imports: dict[str, list[Target]] = field(default_factory=dict[str, list[Target]])
    stars: list[str] = field(default_factory=list[str])
    effects: list[ast.stmt] = field(default_factory=list[ast.stmt])
    script: list[ast.stmt] = field(default_factory=list[ast.stmt])
    announced: dict[str, Announcement] = field(default_factory=dict[str, Announcement])
    exports: frozenset[str] | None = None
    aside: defaultdict[ast.AST, RemovedParts] = field(default_factory=lambda: defaultdict(RemovedParts))

    def import_targets(self, node: ast.stmt) -> Iterator[tuple[str, Target]]:
        """Yield (bound name, target) of one import statement; a star binds "*"."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    yield alias.asname, Target(alias.name)
                else:
                    top = alias.name.split(".")[0]
                    yield top, Target(top)
        elif isinstance(node, ast.ImportFrom):
            start = absolute("." * node.level + (node.module or ""), self.package)
            for alias in node.names:
                yield alias.asname or alias.name, Target(start, alias.name)

    def loaded_by(self, node: ast.stmt) -> Iterator[Target]:
        """Yield the modules that one import statement imports."""
        if isinstance(node, ast.Import):
            yield from (Target(alias.name) for alias in node.names)
        else:
            yield from (target for _, target in self.import_targets(node))

    def packages_before(self, place: int) -> list[str]:
        """Return the packages beyond the standard library that the module imports above a statement."""
        tops = {target.module.split(".")[0] for each in self.imported if each.place < place for target in each.loads}
        return sorted(tops - sys.stdlib_module_names)

    @functools.cached_property
    def conjures(self) -> bool:
        """Return whether importing the module may bind names that its source does not show."""
        return any(word in text for text in map(ast.unparse, self.effects) for word in _CONJURES)

    @functools.cached_property
    def bound_calls(self) -> list[ast.Call]:
        """Return the calls in the values that the module binds."""
        bound = [node for statements in self.bindings.values() for node in statements]
        values = [node.value for node in bound if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value]
        return [node for value in values for node in ast.walk(value) if isinstance(node, ast.Call)]

    def dotted(self, node: ast.expr) -> str:
        """Return the dotted name of a top-level expression, by imports: "importlib.import_module"; "" for own names."""
        inner, attributes = chained(node)
        if not isinstance(inner, ast.Name):
            return ""
        if targets := self.imports.get(inner.id):
            return ".".join([*filter(None, targets[0]), *attributes])
        return "" if inner.id in self.bindings else ".".join([inner.id, *attributes])

    def is_of_typing(self, node: ast.expr, symbol: str) -> bool:
        """Return whether an expression means this name of ``typing``, as far as imports tell."""
        may_be_own = isinstance(node, ast.Name) and node.id in self.bindings
        return not may_be_own and self.dotted(node) in (f"typing.{symbol}", f"typing_extensions.{symbol}")

    def type_checking(self, test: ast.expr) -> bool | None:
        """Return True for typing's ``TYPE_CHECKING``, False for ``not TYPE_CHECKING``, None for other conditions."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.type_checking(test.operand)
            return None if inner is None else not inner
        return True if self.is_of_typing(test, "TYPE_CHECKING") else None


def absolute(name: str, package: str) -> str:
    """Return the absolute name of a relative one, such as ``..text.normalize``, in a module of a package."""
    level = len(name) - len(name.lstrip("."))
    if not level:
        return name
    above = package.split(".") if package else []
    return ".".join([*above[: len(above) - (level - 1)], *filter(None, [name[level:]])])


def parse(source: bytes, name: str, path: Path, *, is_package: bool) -> Syntax:
    """Return the syntax of a file. Raises SyntaxError for a file that Python could not import either."""
    module = Syntax(name, name if is_package else name.rpartition(".")[0])
    tree = ast.parse(source, str(path))
    docstring = ast.get_docstring(tree, clean=False)
    if docstring is not None:
        named = ast.Assign([ast.Name("__doc__", ast.Store())], ast.Constant(docstring), lineno=1)
        _bind(module, "__doc__", named, 0)
    for place, node in enumerate(tree.body):
        _sort_in(module, node, place)
    if b"global " in source:
        _bind_globals(module, tree)
    module.exports = _exports(module)
    module.announced = {name: found for name in module.bindings if any(found := _announcement(module, name))}
    return module


def _bind(module: Syntax, name: str, node: ast.stmt, place: int) -> None:
    module.bindings.setdefault(name, []).append(node)
    module.places[node] = place


def _sort_in(module: Syntax, node: ast.stmt, place: int) -> None:
    """Enter one top-level statement."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        _enter_import(module, node, place)
    elif isinstance(node, ast.If) and is_main_guard(node.test):
        module.script.extend(node.body)
        for inner in node.orelse:
            _sort_in(module, inner, place)
    elif isinstance(node, ast.If) and module.type_checking(node.test) is not None:
        for inner in node.orelse if module.type_checking(node.test) else node.body:
            _sort_in(module, inner, place)
    elif (changed := _changes_own(module, node)) is not None:
        _bind(module, changed, node, place)
    else:
        for inner in _imports_below(module, node):
            _enter_import(module, inner, place)
        for name in dict.fromkeys(name for inner in leaves(node) for name in bound_names(inner)):
            _bind(module, name, only(node, _binds(name)), place)
        if any(is_effect(inner) for inner in leaves(node)):
            _effect(module, only(node, is_effect), place)


def _effect(module: Syntax, node: ast.stmt, place: int) -> None:
    module.effects.append(node)
    module.places[node] = place


def _binds(name: str) -> Callable[[ast.stmt], bool]:
    return lambda node: name in bound_names(node)


def _bind_globals(module: Syntax, tree: ast.Module) -> None:
    """Enter the names that only functions bind: ``def load(): global MODEL; MODEL = …``."""
    for place, node in enumerate(tree.body):
        named = {name for inner in ast.walk(node) if isinstance(inner, ast.Global) for name in inner.names}
        for name in sorted(named - module.bindings.keys() - module.imports.keys()):
            _bind(module, name, node, place)


def _exports(module: Syntax) -> frozenset[str] | None:
    listed: list[object] = []
    for node in module.bindings.get("__all__", ()):
        value = getattr(node, "value", None) if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) else None
        if not isinstance(value, (ast.List, ast.Tuple)):
            return None
        listed += [e.value if isinstance(e, ast.Constant) else None for e in value.elts]
    names = [name for name in listed if isinstance(name, str)]
    touched = any("__all__" in ast.unparse(node) for node in module.effects)  # __all__.append(...)
    return frozenset(names) if "__all__" in module.bindings and len(names) == len(listed) and not touched else None


def _enter_import(module: Syntax, node: ast.stmt, place: int) -> None:
    made = Import(node, place, tuple(module.loaded_by(node)), tuple(module.import_targets(node)))
    module.imported.append(made)
    for name, target in made.binds:
        if name == "*":
            module.stars.append(target.module)
        else:
            module.imports.setdefault(name, []).append(target)


def _imports_below(module: Syntax, node: ast.stmt) -> Iterator[ast.stmt]:
    """Yield imports that run with a top-level compound statement: not in functions, not for type checkers."""
    for body in branches(node) if not isinstance(node, DEFINITIONS) else ():
        for inner in body:
            if isinstance(inner, (ast.Import, ast.ImportFrom)):
                yield inner
            elif not (isinstance(inner, ast.If) and module.type_checking(inner.test)):
                yield from _imports_below(module, inner)


def _changes_own(module: Syntax, node: ast.stmt) -> str | None:
    """Return the variable, function or class of this module that ``TABLE["a"] = f`` or ``TABLE.append(f)`` changes.

    Returns None for an object of another module under a name of this one: the statement stays an effect.
    """
    held: ast.expr | None = None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        held = node.targets[0]
    elif isinstance(node, ast.AugAssign):
        held = node.target
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        held = node.value.func
        if not (isinstance(held, ast.Attribute) and held.attr in CHANGING):
            return None
    if not isinstance(held, (ast.Attribute, ast.Subscript)) or not isinstance(held.value, ast.Name):
        return None
    name = held.value.id
    made = [getattr(each, "value", each) for each in module.bindings.get(name, ())]
    return name if made and isinstance(made[0], (*DEFINITIONS, *CONTAINERS)) else None


def _announcement(module: Syntax, name: str) -> Announcement:
    calls: list[ast.expr] = []
    decorators: list[ast.expr] = []
    bases: list[ast.expr] = []
    for node in (leaf for statement in module.bindings[name] for leaf in leaves(statement)):
        if _changes_own(module, node) != name and (is_effect(node) or name not in bound_names(node)):
            continue
        parts = (part for expression in run_at_once(node) for part in without_lambdas(expression))
        calls += [part.func for part in parts if isinstance(part, ast.Call)]
        if isinstance(node, DEFINITIONS):
            decorators += node.decorator_list
        if isinstance(node, ast.ClassDef):
            bases += node.bases
            # A base that takes an argument from a class probably registers the class.
            decorators += node.bases if node.keywords else ()
    decorators = [each.func if isinstance(each, ast.Call) else each for each in decorators]
    chains = (dict.fromkeys(map(chain_of, each)) for each in (calls, decorators, bases))
    return Announcement(*(tuple(filter(None, each)) for each in chains))


def chain_of(node: ast.expr) -> Chain:
    """Return ``a.b.c`` or ``a.b[...]`` as names; () for anything else."""
    inner, attributes = chained(node.value if isinstance(node, ast.Subscript) else node)
    return (inner.id, *attributes) if isinstance(inner, ast.Name) else ()
