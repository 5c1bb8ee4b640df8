"""Find the places in which a unit's functions may keep data: in a cache, a global variable, an attribute, a closure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from marin.fingerprint.source.bindings import (
    DEFINITIONS,
    FUNCTIONS,
    children,
    defaults,
    holds_container,
    parameters,
)
from marin.fingerprint.source.module import Keeping, Retention
from marin.fingerprint.source.syntax import CHANGING, Syntax, chain_of

type _Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_STORING = CHANGING | {"__setitem__", "appendleft", "push", "put", "set", "store"}
_OF_CLASS = frozenset({"__class_getitem__", "__init_subclass__", "__new__"})


class _Method(NamedTuple):
    """A function, with the places in which it may keep data.

    inside: all nodes of its body, without those of inner functions. own: its variables, and those of enclosing
    functions that end before another call. around: the latter. of: its name for its object or class (self, cls), if it
    has one. keeps: how long data stays that it writes there.
    """

    function: _Function
    inside: list[ast.AST]
    own: frozenset[str]
    around: frozenset[str]
    of: str | None = None
    keeps: Retention = Retention.NOTHING


def keeping(name: str, module: Syntax) -> Keeping:
    """Return the places in which the functions of a name's statements may keep data."""
    wrappers = list(_handed_to(name, module))
    found, changed = Retention.NOTHING, dict[str, None]()
    for each in _functions(module.bindings.get(name, ()), wrappers):
        found = max(found, _retention(each, changed))
    chains = (chain_of(each.func if isinstance(each, ast.Call) else each) for each in wrappers)
    return Keeping(found, tuple(dict.fromkeys(chains)), tuple(changed))


def _retention(method: _Method, changed: dict[str, None]) -> Retention:
    """Judge a function by its own text. changed: receives the names of the module that it writes into."""
    if any(map(holds_container, defaults(method.function.args))):
        return Retention.PROCESS
    found = Retention.NOTHING
    for node in method.inside:
        if isinstance(node, ast.Global) or (
            isinstance(node, ast.Nonlocal) and not method.around.issuperset(node.names)
        ):
            return Retention.PROCESS
        for written in _changed(node):
            names = {each.id for each in ast.walk(written) if isinstance(each, ast.Name)}
            if isinstance(written, ast.Name) and written.id == method.of:
                found = max(found, method.keeps)
            elif method.of in names:
                return Retention.PROCESS
            else:
                changed |= dict.fromkeys(sorted(names - method.own))
    return found


def _handed_to(name: str, module: Syntax) -> Iterator[ast.expr]:
    """Yield the callables that get a function and whose result the module binds: ``load = cache(_load)``."""
    for call in module.bound_calls:
        given = [*call.args, *(word.value for word in call.keywords)]
        if any(isinstance(each, ast.Name) and each.id == name for each in given):
            yield call.func


def _functions(
    statements: Iterable[ast.AST],
    decorators: list[ast.expr],
    around: frozenset[str] = frozenset(),
    lasting: frozenset[str | ast.AST] = frozenset(),
) -> Iterator[_Method]:
    """Yield each function in the statements. decorators: receives those of functions and classes.

    lasting: functions that the enclosing function gives away.
    """
    pending = [(node, False) for node in statements]
    while pending:
        node, in_class = pending.pop()
        if isinstance(node, DEFINITIONS):
            decorators += node.decorator_list
        if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            is_class = isinstance(node, ast.ClassDef)
            pending += [(child, is_class) for child in children(node)]
            continue
        outer = frozenset[str]() if lasting & {node, getattr(node, "name", "")} else around
        inside = _inside(node)
        own = outer | _variables(node, inside)
        of, keeps = None, Retention.NOTHING
        if isinstance(node, FUNCTIONS) and in_class and node.args.args:
            of_class = node.name in _OF_CLASS or any(chain_of(each) == ("classmethod",) for each in node.decorator_list)
            of, keeps = node.args.args[0].arg, Retention.PROCESS if of_class else Retention.OBJECT
        yield _Method(node, inside, own, outer, of, keeps)
        yield from _functions(children(node), decorators, own, frozenset(_given_away(inside)))


def _variables(function: _Function, inside: list[ast.AST]) -> frozenset[str]:
    stored = (node for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return frozenset((*(each.arg for each in parameters(function.args)), *(node.id for node in stored)))


def _given_away(inside: list[ast.AST]) -> Iterator[str | ast.AST]:
    """Yield the functions, by name or as lambdas, that a function returns or writes into something."""
    for node in inside:
        changes = isinstance(node, ast.Assign) and not all(isinstance(each, ast.Name) for each in node.targets)
        if changes or isinstance(node, (ast.Return, ast.Yield)):
            parts = list(ast.walk(node))
            called = {inner.func for inner in parts if isinstance(inner, ast.Call)}
            yield from (inner for inner in parts if isinstance(inner, ast.Lambda))
            yield from (inner.id for inner in parts if isinstance(inner, ast.Name) and inner not in called)


def _inside(function: _Function) -> list[ast.AST]:
    found: list[ast.AST] = []
    pending: list[ast.AST] = list(function.body) if isinstance(function.body, list) else [function.body]
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            pending += children(node)
    return found


def _changed(node: ast.AST) -> Iterator[ast.expr]:
    """Return the object that a node writes into: ``a`` of ``a.b[c] = d``."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
        yield _base(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _STORING:
        yield _base(node.func)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "globals"):
        yield node.args[0] if node.args else node.func


def _base(node: ast.expr) -> ast.expr:
    """Return the object at the start of an expression. For a call, follow the called expression.

    ``a.__class__`` stays whole, because it belongs not only to ``a``.
    """
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)) and getattr(node, "attr", "") != "__class__":
        node = node.func if isinstance(node, ast.Call) else node.value
    return node
