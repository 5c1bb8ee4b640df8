"""One source file, split into what its top level binds, imports and does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Target(NamedTuple):
    """Where an import leads: a module, or a name in one."""

    module: str
    symbol: str = ""


@dataclass(eq=False)
class Module:
    """name: dotted. package: what relative imports start from. walrus: whether ``:=`` may occur.

    bindings: every statement that binds a name, in order. imports: targets by bound name. stars:
    modules of star imports. loads: every module that importing this one imports. effects: the
    statements that bind nothing (``table.register(...)``, ``os.environ[...] = ...``). script: the
    body of ``if __name__ == "__main__"``. decorators, bases: of top-level functions and classes.
    Filled while units are normalised: local_imports of a function or class, annotations of a class's
    fields.
    """

    name: str
    path: Path
    package: str
    walrus: bool = True
    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict[str, list[ast.stmt]])
    imports: dict[str, list[Target]] = field(default_factory=dict[str, list[Target]])
    stars: list[str] = field(default_factory=list[str])
    loads: list[Target] = field(default_factory=list[Target])
    effects: list[ast.stmt] = field(default_factory=list[ast.stmt])
    script: list[ast.stmt] = field(default_factory=list[ast.stmt])
    decorators: dict[str, list[ast.expr]] = field(default_factory=dict[str, list[ast.expr]])
    bases: dict[str, list[ast.expr]] = field(default_factory=dict[str, list[ast.expr]])
    local_imports: dict[ast.AST, list[ast.stmt]] = field(default_factory=dict[ast.AST, list[ast.stmt]])
    annotations: dict[ast.AST, list[ast.expr]] = field(default_factory=dict[ast.AST, list[ast.expr]])

    def import_targets(self, node: ast.stmt) -> Iterator[tuple[str, Target]]:
        """(bound name, target) of one import statement; a star binds "*"."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    yield alias.asname, Target(alias.name)
                else:
                    yield alias.name.split(".")[0], Target(alias.name.split(".")[0])
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

    @property
    def exports(self) -> frozenset[str] | None:
        """What ``__all__`` lists, if it is a literal."""
        for node in self.bindings.get("__all__", ()):
            value = getattr(node, "value", None)
            if isinstance(value, (ast.List, ast.Tuple)):
                return frozenset(e.value for e in value.elts if isinstance(e, ast.Constant) and type(e.value) is str)
        return None


def parse(source: bytes, name: str, path: Path, *, is_package: bool) -> Module:
    """Raises SyntaxError for a file that Python could not import either."""
    module = Module(name, path, name if is_package else name.rpartition(".")[0], b":=" in source)
    tree = ast.parse(source, str(path))
    docstring = ast.get_docstring(tree, clean=False)
    if docstring is not None:
        named = ast.Assign([ast.Name("__doc__", ast.Store())], ast.Constant(docstring), lineno=1)
        module.bindings["__doc__"] = [named]
    for node in tree.body:
        _sort_in(module, node, node)
    return module


def _sort_in(module: Module, node: ast.stmt, whole: ast.stmt) -> None:
    """Enter one top-level statement."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        _enter_import(module, node)
    elif isinstance(node, ast.If) and _is_main_guard(node.test):
        module.script.extend(node.body)
        for inner in node.orelse:
            _sort_in(module, inner, inner)
    elif isinstance(node, ast.If) and type_checking(node.test) is not None:
        for inner in node.orelse if type_checking(node.test) else node.body:
            _sort_in(module, inner, inner)
    elif isinstance(node, (ast.If, ast.Try, ast.TryStar)):
        for inner in _imports_below(node):
            _enter_import(module, inner)
        names = sorted({name for inner in _leaves(node) for name in bound_names(inner)})
        for name in names:
            module.bindings.setdefault(name, []).append(_only(node, _binds(name)))
        for inner in _leaves(node):
            _enter_registration(module, inner)
        if any(_is_effect(inner) for inner in _leaves(node)):
            module.effects.append(_only(node, _is_effect))
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Match)):
        for inner in _imports_below(node):
            _enter_import(module, inner)
        for name in bound_names(node):
            module.bindings.setdefault(name, []).append(node)
        module.effects.append(node)
    else:
        for name in bound_names(node):
            module.bindings.setdefault(name, []).append(node)
        _enter_registration(module, node)
        if _is_effect(node):
            module.effects.append(node)


def _enter_import(module: Module, node: ast.stmt) -> None:
    module.loads.extend(module.loaded_by(node))
    for name, target in module.import_targets(node):
        if name == "*":
            module.stars.append(target.module)
        else:
            module.imports.setdefault(name, []).append(target)


def _enter_registration(module: Module, node: ast.stmt) -> None:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    if node.decorator_list:
        module.decorators.setdefault(node.name, []).extend(node.decorator_list)
    if isinstance(node, ast.ClassDef) and node.bases:
        module.bases.setdefault(node.name, []).extend(node.bases)


def _leaves(node: ast.stmt) -> Iterator[ast.stmt]:
    """The statements in the branches of an if or try; other statements are themselves."""
    if isinstance(node, (ast.If, ast.Try, ast.TryStar)):
        for body in branches(node):
            for inner in body:
                yield from _leaves(inner)
    else:
        yield node


def branches(node: ast.stmt) -> list[list[ast.stmt]]:
    """Every list of statements directly inside a compound statement."""
    found = [getattr(node, name) for name in ("body", "orelse", "finalbody") if getattr(node, name, None)]
    found += [handler.body for handler in getattr(node, "handlers", ())]
    return found + [case.body for case in getattr(node, "cases", ())]


def _only(node: ast.stmt, wanted: Callable[[ast.stmt], bool]) -> ast.stmt:
    """An if or try with only the wanted leaves in its branches."""
    if isinstance(node, ast.If):
        return ast.If(node.test, _filtered(node.body, wanted) or [ast.Pass()], _filtered(node.orelse, wanted))
    if isinstance(node, (ast.Try, ast.TryStar)):
        handlers = [ast.ExceptHandler(h.type, h.name, _filtered(h.body, wanted) or [ast.Pass()]) for h in node.handlers]
        body = _filtered(node.body, wanted) or [ast.Pass()]
        return type(node)(body, handlers, _filtered(node.orelse, wanted), _filtered(node.finalbody, wanted))
    return node


def _binds(name: str) -> Callable[[ast.stmt], bool]:
    return lambda node: name in bound_names(node)


def _filtered(body: list[ast.stmt], wanted: Callable[[ast.stmt], bool]) -> list[ast.stmt]:
    return [_only(s, wanted) for s in body if any(wanted(leaf) for leaf in _leaves(s))]


def _imports_below(node: ast.stmt) -> Iterator[ast.stmt]:
    """Imports that run with a top-level compound statement: not in functions, not for type checkers."""
    for body in branches(node):
        for inner in body:
            if isinstance(inner, (ast.Import, ast.ImportFrom)):
                yield inner
            elif isinstance(inner, ast.If) and type_checking(inner.test):
                continue
            elif not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from _imports_below(inner)


def _is_effect(node: ast.stmt) -> bool:
    """Whether a statement does something other than binding names, importing or documenting."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(t, (ast.Attribute, ast.Subscript)) for target in targets for t in ast.walk(target))
    return isinstance(node, (ast.Delete, ast.Assert, ast.Raise, ast.For, ast.While, ast.With, ast.Match))


def bound_names(node: ast.stmt, *, walrus: bool = True) -> list[str]:
    """Names that one statement binds in its own scope, imports left out, in order.

    walrus=False promises that no ``:=`` is in it, so that expressions need not be searched.
    """
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.TypeAlias):
        return [node.name.id]
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return []
    return list(dict.fromkeys(_stored(node, walrus)))


_TARGETS = (ast.Name, ast.Tuple, ast.List, ast.Starred)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _stored(node: ast.AST, walrus: bool) -> Iterator[str]:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
        return
    if isinstance(node, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child.name
        elif isinstance(child, ast.expr) and not isinstance(child, _TARGETS) and not walrus:
            continue
        elif isinstance(child, _COMPREHENSIONS):
            # Its own targets are local to it, a walrus in it is not.
            yield from (n.target.id for n in ast.walk(child) if isinstance(n, ast.NamedExpr))
        elif not isinstance(child, ast.Lambda):
            yield from _stored(child, walrus)


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(side, ast.Name) and side.id == "__name__" for side in (test.left, *test.comparators)
    )


def type_checking(test: ast.expr) -> bool | None:
    """True for ``TYPE_CHECKING``, False for ``not TYPE_CHECKING``, None for any other condition."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = type_checking(test.operand)
        return None if inner is None else not inner
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return True if name == "TYPE_CHECKING" else None
