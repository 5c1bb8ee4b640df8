"""One source file, split into what its top level binds, imports and does."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

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

type Chain = tuple[str, ...]  # ``a.b.c``

CHANGING = frozenset({"append", "add", "extend", "insert", "setdefault", "update"})
TYPING = ("typing", "typing_extensions")


class Target(NamedTuple):
    """Where an import leads: a module, or a name in one."""

    module: str
    symbol: str = ""


class Announcement(NamedTuple):
    """Who hears of a definition while it is made, and might keep it where nothing names it: a registry.

    calls: whatever is called meanwhile. decorators: what gets the thing itself. bases: of a class.
    """

    calls: tuple[Chain, ...] = ()
    decorators: tuple[Chain, ...] = ()
    bases: tuple[Chain, ...] = ()

    def joined(self, other: Announcement) -> Announcement:
        return Announcement(*(tuple(dict.fromkeys(a + b)) for a, b in zip(self, other, strict=True)))


@dataclass
class Aside:
    """What normalising takes from a function or class: it counts where something reads it, or says where names lead.

    imports: inside of it. annotations: with what they annotate.
    """

    imports: list[ast.stmt] = field(default_factory=list[ast.stmt])
    annotations: list[tuple[str, ast.expr]] = field(default_factory=list[tuple[str, ast.expr]])
    docstring: str | None = None
    type_params: tuple[str, ...] = ()


@dataclass(eq=False)
class Module:
    """name: dotted. package: what relative imports start from. walrus: whether ``:=`` may occur.

    bindings: every statement that binds a name, in order. effects: the statements that bind nothing
    (``table.register(...)``, ``os.environ[...] = ...``). places: where both stand among all statements.
    imports: targets by bound name. stars: modules of star imports. loads: every module that importing this one
    imports. script: the body of ``if __name__ == "__main__"``. announced: by the name of a definition. exports: what
    ``__all__`` lists; None if there is none or it is computed. package_places: where packages are imported.
    import_lines: of each import statement, with the names that it binds. aside: filled while units are normalised.
    """

    name: str
    path: Path
    package: str
    walrus: bool = True
    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict[str, list[ast.stmt]])
    places: dict[ast.stmt, int] = field(default_factory=dict[ast.stmt, int])
    imports: dict[str, list[Target]] = field(default_factory=dict[str, list[Target]])
    stars: list[str] = field(default_factory=list[str])
    loads: list[Target] = field(default_factory=list[Target])
    effects: list[ast.stmt] = field(default_factory=list[ast.stmt])
    script: list[ast.stmt] = field(default_factory=list[ast.stmt])
    announced: dict[str, Announcement] = field(default_factory=dict[str, Announcement])
    exports: frozenset[str] | None = None
    package_places: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    import_lines: list[tuple[range, list[str]]] = field(default_factory=list[tuple[range, list[str]]])
    aside: defaultdict[ast.AST, Aside] = field(default_factory=lambda: defaultdict(Aside))

    def import_targets(self, node: ast.stmt) -> Iterator[tuple[str, Target]]:
        """(bound name, target) of one import statement; a star binds "*"."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    yield alias.asname, Target(alias.name)
                else:
                    top = alias.name.split(".")[0]
                    yield top, Target(top)
        elif isinstance(node, ast.ImportFrom):
            start = self.absolute("." * node.level + (node.module or ""))
            for alias in node.names:
                yield alias.asname or alias.name, Target(start, alias.name)

    def loaded_by(self, node: ast.stmt) -> Iterator[Target]:
        """The modules that one import statement imports."""
        if isinstance(node, ast.Import):
            yield from (Target(alias.name) for alias in node.names)
        else:
            yield from (target for _, target in self.import_targets(node))

    def absolute(self, name: str) -> str:
        """``..text.normalize`` as seen from this module, absolute."""
        level = len(name) - len(name.lstrip("."))
        if not level:
            return name
        package = self.package.split(".") if self.package else []
        base = package[: len(package) - (level - 1)]
        return ".".join([*base, *filter(None, [name[level:]])])

    def packages_before(self, place: int) -> tuple[str, ...]:
        """Packages beyond the standard library that are imported above a statement."""
        return tuple(sorted({top for at, top in self.package_places if at < place}))

    def import_lines_of(self, name: str) -> list[int]:
        """Where each target of an imported name, or for "*" each star import, stands."""
        return [lines.start for lines, names in self.import_lines for each in names if each == name]

    def is_of_typing(self, node: ast.expr, symbol: str) -> bool:
        """Whether an expression means that name of ``typing``, as far as imports tell."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            targets = self.imports.get(node.value.id, ())
            return node.attr == symbol and any(target.module in TYPING for target in targets)
        if not isinstance(node, ast.Name) or node.id in self.bindings:
            return False
        targets = self.imports.get(node.id, ())
        return any(target.module in TYPING and target.symbol == symbol for target in targets)

    def type_checking(self, test: ast.expr) -> bool | None:
        """True for typing's ``TYPE_CHECKING``, False for ``not TYPE_CHECKING``, None for any other condition."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.type_checking(test.operand)
            return None if inner is None else not inner
        return True if self.is_of_typing(test, "TYPE_CHECKING") else None


def parse(source: bytes, name: str, path: Path, *, is_package: bool) -> Module:
    """Raises SyntaxError for a file that Python could not import either."""
    module = Module(name, path, name if is_package else name.rpartition(".")[0], b":=" in source)
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
    return module


def _bind(module: Module, name: str, node: ast.stmt, place: int) -> None:
    module.bindings.setdefault(name, []).append(node)
    module.places[node] = place


def _sort_in(module: Module, node: ast.stmt, place: int) -> None:
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
    elif isinstance(node, (ast.If, ast.Try, ast.TryStar)):
        for inner in _imports_below(module, node):
            _enter_import(module, inner, place)
        for name in sorted({name for inner in leaves(node) for name in bound_names(inner)}):
            _bind(module, name, only(node, _binds(name)), place)
        for inner in leaves(node):
            if not is_effect(inner):
                _enter_announcement(module, inner, *bound_names(inner))
        if any(is_effect(inner) for inner in leaves(node)):
            _effect(module, only(node, is_effect), place)
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Match)):
        for inner in _imports_below(module, node):
            _enter_import(module, inner, place)
        for name in bound_names(node):
            _bind(module, name, node, place)
        _effect(module, node, place)
    elif (changed := _changes_own(module, node)) is not None:
        _bind(module, changed, node, place)
        _enter_announcement(module, node, changed)
    else:
        for name in bound_names(node):
            _bind(module, name, node, place)
        if not is_effect(node):
            _enter_announcement(module, node, *bound_names(node))
        else:
            _effect(module, node, place)


def _effect(module: Module, node: ast.stmt, place: int) -> None:
    module.effects.append(node)
    module.places[node] = place


def _binds(name: str) -> Callable[[ast.stmt], bool]:
    return lambda node: name in bound_names(node)


def _bind_globals(module: Module, tree: ast.Module) -> None:
    """What only functions bind: ``def load(): global MODEL; MODEL = …``."""
    for place, node in enumerate(tree.body):
        named = {name for inner in ast.walk(node) if isinstance(inner, ast.Global) for name in inner.names}
        for name in sorted(named - module.bindings.keys() - module.imports.keys()):
            _bind(module, name, node, place)


def _exports(module: Module) -> frozenset[str] | None:
    listed: list[object] = []
    for node in module.bindings.get("__all__", ()):
        value = getattr(node, "value", None) if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) else None
        if not isinstance(value, (ast.List, ast.Tuple)):
            return None
        listed += [e.value if isinstance(e, ast.Constant) else None for e in value.elts]
    names = [name for name in listed if isinstance(name, str)]
    touched = any("__all__" in ast.unparse(node) for node in module.effects)  # __all__.append(...)
    return frozenset(names) if "__all__" in module.bindings and len(names) == len(listed) and not touched else None


def _enter_import(module: Module, node: ast.stmt, place: int) -> None:
    loaded = list(module.loaded_by(node))
    module.loads.extend(loaded)
    tops = dict.fromkeys(target.module.split(".")[0] for target in loaded)
    module.package_places.extend((place, top) for top in tops if top not in sys.stdlib_module_names)
    targets = list(module.import_targets(node))
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    module.import_lines.append((lines, [name for name, _ in targets]))
    for name, target in targets:
        if name == "*":
            module.stars.append(target.module)
        else:
            module.imports.setdefault(name, []).append(target)


def _imports_below(module: Module, node: ast.stmt) -> Iterator[ast.stmt]:
    """Imports that run with a top-level compound statement: not in functions, not for type checkers."""
    for body in branches(node):
        for inner in body:
            if isinstance(inner, (ast.Import, ast.ImportFrom)):
                yield inner
            elif isinstance(inner, ast.If) and module.type_checking(inner.test):
                continue
            elif not isinstance(inner, DEFINITIONS):
                yield from _imports_below(module, inner)


def _changes_own(module: Module, node: ast.stmt) -> str | None:
    """The variable, function or class of this module that ``TABLE["a"] = f`` or ``TABLE.append(f)`` completes.

    It must be one that was made here: another name for something of another module stays an effect.
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


def _enter_announcement(module: Module, node: ast.stmt, *names: str) -> None:
    decorators: list[ast.expr] = list(node.decorator_list) if isinstance(node, DEFINITIONS) else []
    bases: list[ast.expr] = list(node.bases) if isinstance(node, ast.ClassDef) else []
    found = Announcement(
        calls=tuple(
            chain
            for expression in run_at_once(node)
            for part in without_lambdas(expression)
            if isinstance(part, ast.Call) and (chain := chain_of(part.func))
        ),
        # A class that gives its base an argument is probably entered somewhere by it.
        decorators=tuple(
            chain
            for part in [*decorators, *(bases if getattr(node, "keywords", None) else ())]
            if (chain := chain_of(part.func if isinstance(part, ast.Call) else part))
        ),
        bases=tuple(chain for base in bases if (chain := chain_of(base))),
    )
    if any(found):
        for name in names:
            module.announced[name] = module.announced.get(name, Announcement()).joined(found)


def chain_of(node: ast.expr) -> Chain:
    """``a.b.c`` or ``a.b[...]`` as names; () for anything else."""
    inner, attributes = chained(node.value if isinstance(node, ast.Subscript) else node)
    return (inner.id, *attributes) if isinstance(inner, ast.Name) else ()
