"""Normalise statements to a syntax tree with only the parts that count.

These parts are dropped:

- comments, formatting, positions, docstrings and other bare strings;
- ``pass`` and ``...`` as fillers;
- annotations (a class field stays a field, a ClassVar, an InitVar or KW_ONLY) and type parameters;
- ``@overload`` stubs, ``if TYPE_CHECKING`` branches and the type in ``cast(type, value)``;
- the default of an ``execution()`` field, which never changes an output;
- import statements, because names lead to the same definitions without them (see closure).

Docstrings and annotations are kept aside (see Aside): they count if something reads them (see closure).
Everything else counts. Names of local variables count too, until two texts are compared (see moved).
"""

from __future__ import annotations

import ast

from marin.fingerprint.source.bindings import DEFINITIONS, FUNCTIONS, bound_names, branches, parameters, plain
from marin.fingerprint.source.syntax import Syntax

# The rest of a field's annotation: a mark that it is a field, or the words that dataclasses look for.
_FIELD = ast.Constant(...)
_MARKS: dict[str, ast.expr] = {name: ast.Name(name, ast.Load()) for name in ("ClassVar", "InitVar", "KW_ONLY")}


def normalise(statements: list[ast.stmt], module: Syntax) -> list[ast.stmt]:
    """Return the statements that count, changed in place. Normalising twice changes nothing more."""
    cleaned = _body(statements, module, None, fill=False)
    casts = {name for name in module.imports if module.is_of_typing(ast.Name(name), "cast")}
    if casts:
        return [_Uncast(casts).visit(node) for node in cleaned]
    return cleaned


def _body(body: list[ast.stmt], module: Syntax, owner: ast.AST | None, *, fill: bool = True) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if owner is not None:
                module.aside[owner].imports.append(node)
        elif isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        elif isinstance(node, ast.If) and module.type_checking(node.test) is not None:
            chosen = node.orelse if module.type_checking(node.test) else node.body
            kept += _body(chosen, module, owner, fill=False)
        elif isinstance(node, FUNCTIONS):
            node.decorator_list = [each for each in node.decorator_list if not module.is_of_typing(each, "override")]
            if not any(module.is_of_typing(decorator, "overload") for decorator in node.decorator_list):
                _function(node, module)
                kept.append(node)
        elif isinstance(node, ast.ClassDef):
            _set_aside(node, module)
            node.body = _body(node.body, module, node)
            kept.append(node)
        elif isinstance(node, ast.AnnAssign):
            assigned = _annotated(node, module, owner)
            if assigned is not None:
                kept.append(assigned)
        else:
            for inner in branches(node):
                inner[:] = _body(inner, module, owner)
            if isinstance(node, (ast.If, ast.For, ast.While, ast.Try)) and _is_filler(node.orelse):
                node.orelse = []
            kept.append(node)
    return kept or ([ast.Pass()] if fill else [])


def _is_filler(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Pass)


def _set_aside(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, module: Syntax) -> None:
    aside, text = module.aside[node], ast.get_docstring(node, clean=False)
    if text is not None:
        aside.docstring = text
    if node.type_params:
        aside.type_params = tuple(parameter.name for parameter in node.type_params)  # pyright: ignore
        node.type_params = []


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, module: Syntax) -> None:
    for argument in parameters(node.args):
        if argument.annotation is not None:
            module.aside[node].annotations.append((argument.arg, argument.annotation))
            argument.annotation = None
    if node.returns is not None:
        module.aside[node].annotations.append(("return", node.returns))
        node.returns = None
    _set_aside(node, module)
    node.body = _body(node.body, module, node)


def _annotated(node: ast.AnnAssign, module: Syntax, owner: ast.AST | None) -> ast.stmt | None:
    if not isinstance(owner, ast.ClassDef):
        return ast.copy_location(ast.Assign([node.target], node.value), node) if node.value else None
    if node.annotation in (_FIELD, *_MARKS.values()):
        return node  # normalised before
    module.aside[owner].annotations.append((ast.unparse(node.target), node.annotation))
    value = node.value
    called = module.dotted(value.func).split(".") if isinstance(value, ast.Call) else []
    if isinstance(value, ast.Call) and (called[0], called[-1]) == ("marin", "execution"):
        value = ast.Call(value.func, [], [])
    return ast.copy_location(ast.AnnAssign(node.target, _mark(node.annotation), value, node.simple), node)


def _mark(annotation: ast.expr) -> ast.expr:
    """Return ``ClassVar`` for ``ClassVar[int]``, ``typing.ClassVar`` and ``"ClassVar[int]"``."""
    annotation = plain(annotation)
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = outer.attr if isinstance(outer, ast.Attribute) else outer.id if isinstance(outer, ast.Name) else ""
    return _MARKS.get(name, _FIELD)


class _Uncast(ast.NodeTransformer):
    """Takes ``cast(type, value)`` for value, but not where an enclosing function means something else by ``cast``."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        names = self._names
        if isinstance(node, DEFINITIONS):
            own = {name for inner in node.body for name in bound_names(inner)}
            if not isinstance(node, ast.ClassDef):
                own |= {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
            self._names = names - own
        made = super().generic_visit(node)
        self._names = names
        return made

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self._names and len(node.args) == 2:
            return node.args[1]
        return node
