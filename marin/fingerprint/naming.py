"""Which strings an expression can be, for module names that are put together: ``f"lib.plugins.{name}"``.

A ``*`` stands for what only running would tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from marin.fingerprint.modules import CHANGING, Module
from marin.fingerprint.scopes import Scope

ANYTHING = "*"
_MOST = 200  # alternatives; beyond, it is anything
_DEEP = 8
_CONTAINERS = (ast.Dict, ast.List, ast.Set)
_PASSES = frozenset({"sorted", "list", "tuple", "set", "reversed", "iter"})


class Strings:
    """Of one module, as seen from inside some scopes."""

    def __init__(self, module: Module, scopes: Sequence[Scope]) -> None:
        self._module = module
        self._scopes = scopes

    def of(self, node: ast.expr, depth: int = 0) -> set[str]:
        """Every string that the expression can be."""
        found = set(self._of(node, depth + 1)) if depth < _DEEP else {ANYTHING}
        return found if 0 < len(found) <= _MOST else {ANYTHING}

    def _of(self, node: ast.expr, depth: int) -> Iterator[str]:
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                yield from self._joined(parts, depth)
            case ast.FormattedValue(value=inner, format_spec=None):
                yield from self.of(inner, depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                yield from self._joined([left, right], depth)
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
                yield text.partition("%")[0] + ANYTHING
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                yield text.partition("{")[0] + ANYTHING
            case ast.IfExp(body=first, orelse=second):
                yield from self.of(first, depth) | self.of(second, depth)
            case (
                ast.Subscript(value=ast.Name() as table)
                | ast.Call(func=ast.Attribute(value=ast.Name() as table, attr="get"), args=[_])
            ):
                yield from self._in_table(table, depth)
            case ast.Attribute(value=ast.Name(id=name), attr="__name__"):
                targets = self._module.imports.get(name, ())
                yield from [".".join(filter(None, target[:2])) for target in targets] or [ANYTHING]
            case ast.Name(id="__name__"):
                yield self._module.name
            case ast.Name(id="__package__"):
                yield self._module.package
            case ast.Name():
                yield from self._named(node.id, depth)
            case _:
                yield ANYTHING

    def _joined(self, parts: Sequence[ast.expr], depth: int) -> set[str]:
        made = {""}
        for part in parts:
            made = {start + end for start in made for end in self.of(part, depth)}
            if len(made) > _MOST:
                return {ANYTHING}
        return made

    def _in_table(self, table: ast.Name, depth: int) -> Iterator[str]:
        held = self._held(table.id)
        elements = held.values if isinstance(held, ast.Dict) else getattr(held, "elts", None)
        for element in elements if elements is not None else [ast.Constant(None)]:
            yield from self.of(element, depth)

    def _named(self, name: str, depth: int) -> Iterator[str]:
        loop = self._loop(name)
        if loop is not None:
            yield from self._each(loop, depth)
            return
        held = self._held(name)
        yield from self.of(held, depth) if held is not None else {ANYTHING}

    def _each(self, node: ast.expr, depth: int) -> Iterator[str]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PASSES and node.args:
            node = node.args[0]
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            held, way = self._held(node.func.value.id), node.func.attr
        else:
            held, way = (self._held(node.id) if isinstance(node, ast.Name) else node), ""
        elements: list[ast.expr] | None = None
        if isinstance(held, (ast.List, ast.Tuple, ast.Set)) and not way:
            elements = held.elts
        elif isinstance(held, ast.Dict) and way in ("", "keys"):
            elements = [key for key in held.keys if key is not None]
        elif isinstance(held, ast.Dict) and way == "values":
            elements = held.values
        for element in elements if elements is not None else [ast.Constant(None)]:
            yield from self.of(element, depth)

    def _held(self, name: str) -> ast.expr | None:
        """The value of a variable that is assigned exactly once and nowhere else."""
        for scope in reversed(self._scopes):
            if scope.kind == "class":
                continue
            if name in scope.bound or name in scope.imports:
                return None if name in scope.parameters else _assigned_once(scope.body, name)
        if name in self._module.imports:
            return None
        held = _assigned_once(self._module.bindings.get(name, []), name)
        every = [*self._module.effects, *(node for nodes in self._module.bindings.values() for node in nodes)]
        return None if isinstance(held, _CONTAINERS) and _changed(every, name) else held

    def _loop(self, name: str) -> ast.expr | None:
        """What a variable runs through, if it is one for loop's and nothing else."""
        for scope in reversed(self._scopes):
            if scope.kind == "function" and name in scope.bound:
                loops = [
                    inner
                    for statement in scope.body
                    for inner in ast.walk(statement)
                    if isinstance(inner, ast.For) and isinstance(inner.target, ast.Name) and inner.target.id == name
                ]
                alone = len(loops) == 1 and _stores(scope.body, name) == 1 and name not in scope.parameters
                return loops[0].iter if alone else None
        return None


def _stores(body: Sequence[ast.stmt], name: str) -> int:
    return sum(
        isinstance(inner, ast.Name) and inner.id == name and isinstance(inner.ctx, ast.Store)
        for statement in body
        for inner in ast.walk(statement)
    )


def _assigned_once(body: Sequence[ast.stmt], name: str) -> ast.expr | None:
    if _stores(body, name) != 1:
        return None
    for statement in body:
        for inner in ast.walk(statement):
            if isinstance(inner, (ast.Assign, ast.AnnAssign)):
                targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
                if len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name:
                    return inner.value
    return None


def _changed(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether something is put into a container after it was made."""
    for statement in body:
        for inner in ast.walk(statement):
            held: ast.AST | None = None
            if isinstance(inner, ast.AugAssign):
                held = inner.target
            elif (isinstance(inner, ast.Attribute) and inner.attr in CHANGING) or (
                isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store)
            ):
                held = inner.value
            if isinstance(held, ast.Name) and held.id == name:
                return True
    return False
