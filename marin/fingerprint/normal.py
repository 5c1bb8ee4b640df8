"""What counts of a statement: its normalised syntax tree.

Dropped: comments, formatting, positions, docstrings and other bare strings, ``pass`` and ``...``
as fillers, annotations (of a class field only its being a field or a ClassVar stays), type
parameters, ``@overload`` stubs, ``if TYPE_CHECKING`` branches, the type in ``cast(type, value)``,
and what an ``execution()`` field defaults to, which never changes an output. Import statements are
dropped too: names lead where they lead (see closure). Everything else counts, names of local
variables included.
"""

from __future__ import annotations

import ast

from marin.fingerprint.modules import Module, Target, branches, type_checking

_FIELD = ast.Constant(...)


def normalise(statements: list[ast.stmt], module: Module) -> list[ast.stmt]:
    """The statements that count, changed in place. Normalising twice changes nothing more."""
    cleaned = _body(statements, module, None, fill=False)
    casts = {name for name, targets in module.imports.items() if Target("typing", "cast") in targets}
    if casts:
        return [_Uncast(casts).visit(node) for node in cleaned]
    return cleaned


def _body(body: list[ast.stmt], module: Module, owner: ast.AST | None, *, fill: bool = True) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if owner is not None:
                module.local_imports.setdefault(owner, []).append(node)
        elif isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        elif isinstance(node, ast.If) and type_checking(node.test) is not None:
            kept += _body(node.orelse if type_checking(node.test) else node.body, module, owner, fill=False)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if not any(_last_name(decorator) == "overload" for decorator in node.decorator_list):
                _function(node, module)
                kept.append(node)
        elif isinstance(node, ast.ClassDef):
            node.type_params = []
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


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, module: Module) -> None:
    # singledispatch reads the annotations of what it registers.
    if not any(isinstance(decorator, ast.Attribute) for decorator in node.decorator_list):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for argument in every:
            if argument is not None:
                argument.annotation = None
    node.returns = None
    node.type_params = []
    node.body = _body(node.body, module, node)


def _annotated(node: ast.AnnAssign, module: Module, owner: ast.AST | None) -> ast.stmt | None:
    if not isinstance(owner, ast.ClassDef):
        return ast.copy_location(ast.Assign([node.target], node.value), node) if node.value else None
    if isinstance(node.annotation, ast.Constant) and node.annotation.value is ...:
        return node
    module.annotations.setdefault(owner, []).append(node.annotation)
    outer = node.annotation.value if isinstance(node.annotation, ast.Subscript) else node.annotation
    kind = ast.Name("ClassVar", ast.Load()) if _last_name(outer) == "ClassVar" else _FIELD
    value = node.value
    if isinstance(value, ast.Call) and _is_execution(value.func, module):
        value = ast.Call(value.func, [], [])
    return ast.copy_location(ast.AnnAssign(node.target, kind, value, node.simple), node)


def _is_execution(func: ast.expr, module: Module) -> bool:
    return isinstance(func, ast.Name) and any(
        target.symbol == "execution" and target.module.split(".")[0] == "marin"
        for target in module.imports.get(func.id, ())
    )


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class _Uncast(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self._names and len(node.args) == 2:
            return node.args[1]
        return node
