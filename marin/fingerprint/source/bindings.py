"""Find the names that a statement binds, and the expressions in it that run at once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import cast

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
CONTAINERS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
_CONTAINER_CLASSES = frozenset(
    {"dict", "list", "set", "defaultdict", "OrderedDict", "Counter", "deque", "WeakValueDictionary", "ChainMap"}
)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly inside a node, in half the time of ast.iter_child_nodes."""
    found: list[ast.AST] = []
    for name in node._fields:
        held = getattr(node, name, None)
        if isinstance(held, ast.AST):
            found.append(held)
        elif isinstance(held, list):
            found += [each for each in cast(list[object], held) if isinstance(each, ast.AST)]
    return found


def bound_names(node: ast.stmt) -> list[str]:
    """Return the names that one statement binds in its own scope, in order and without imports."""
    if isinstance(node, DEFINITIONS):
        return [node.name]
    if isinstance(node, ast.TypeAlias):
        return [node.name.id]
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return []
    return list(dict.fromkeys(_stored(node)))


def _stored(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
        return
    if isinstance(node, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    for child in children(node):
        if isinstance(child, DEFINITIONS):
            yield child.name
        elif isinstance(child, COMPREHENSIONS):
            # Its own targets are local to it, a walrus in it is not.
            yield from (n.target.id for n in ast.walk(child) if isinstance(n, ast.NamedExpr))
        elif not isinstance(child, ast.Lambda):
            yield from _stored(child)


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return named + [each for each in (arguments.vararg, arguments.kwarg) if each is not None]


def defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *(each for each in arguments.kw_defaults if each is not None)]


def chained(node: ast.expr) -> tuple[ast.expr, list[str]]:
    """Split ``a().b.c`` into ``a()`` and ["b", "c"]."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node.attr)
        node = node.value
    return node, attributes


def plain(annotation: ast.expr) -> ast.expr:
    """Return ``list[int]`` for ``"list[int]"``."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        with suppress(SyntaxError):
            return ast.parse(annotation.value, mode="eval").body
    return annotation


def branches(node: ast.stmt) -> list[list[ast.stmt]]:
    """Return every list of statements directly inside a compound statement."""
    found = [getattr(node, name) for name in ("body", "orelse", "finalbody") if getattr(node, name, None)]
    found += [handler.body for handler in getattr(node, "handlers", ())]
    return found + [case.body for case in getattr(node, "cases", ())]


def leaves(node: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements in the branches of an if or try, or else the statement itself."""
    if isinstance(node, (ast.If, ast.Try, ast.TryStar)):
        for body in branches(node):
            for inner in body:
                yield from leaves(inner)
    else:
        yield node


def only(node: ast.stmt, wanted: Callable[[ast.stmt], bool]) -> ast.stmt:
    """Return an if or try with only the wanted leaves in its branches."""
    if isinstance(node, ast.If):
        made = ast.If(node.test, _filtered(node.body, wanted) or [ast.Pass()], _filtered(node.orelse, wanted))
        return ast.copy_location(made, node)
    if isinstance(node, (ast.Try, ast.TryStar)):
        handlers = [ast.ExceptHandler(h.type, h.name, _filtered(h.body, wanted) or [ast.Pass()]) for h in node.handlers]
        body = _filtered(node.body, wanted) or [ast.Pass()]
        made = type(node)(body, handlers, _filtered(node.orelse, wanted), _filtered(node.finalbody, wanted))
        return ast.copy_location(made, node)
    return node


def _filtered(body: list[ast.stmt], wanted: Callable[[ast.stmt], bool]) -> list[ast.stmt]:
    return [only(s, wanted) for s in body if any(wanted(leaf) for leaf in leaves(s))]


def is_effect(node: ast.stmt) -> bool:
    """Return whether a statement does something other than binding names, importing or documenting."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(t, (ast.Attribute, ast.Subscript)) for target in targets for t in ast.walk(target))
    return isinstance(node, (ast.Delete, ast.Assert, ast.Raise, ast.For, ast.While, ast.With, ast.Match))


def run_at_once(node: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions that run when a definition or an assignment runs: not the bodies of functions."""
    if isinstance(node, FUNCTIONS):
        yield from node.decorator_list
        yield from defaults(node.args)
    elif isinstance(node, ast.ClassDef):
        yield from node.decorator_list
        yield from (keyword.value for keyword in node.keywords)
        for inner in node.body:
            yield from run_at_once(inner)
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        if node.value is not None:
            yield node.value
    elif isinstance(node, ast.Expr):
        yield node.value
    else:
        for body in branches(node):
            for inner in body:
                yield from run_at_once(inner)


def without_lambdas(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes like ast.walk, except the body of a lambda, which runs only when it is called."""
    yield node
    for child in children(node):
        if not isinstance(child, ast.Lambda):
            yield from without_lambdas(child)


def is_main_guard(test: ast.expr) -> bool:
    """Return whether a test is ``__name__ == "__main__"``, and nothing similar."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
        return False
    sides = (test.left, test.comparators[0])
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides) and any(
        isinstance(side, ast.Constant) and side.value == "__main__" for side in sides
    )


def holds_container(value: ast.expr) -> bool:
    for inner in ast.walk(value):
        if isinstance(inner, CONTAINERS):
            return True
        if isinstance(inner, ast.Call):
            name = inner.func.attr if isinstance(inner.func, ast.Attribute) else getattr(inner.func, "id", "")
            if name in _CONTAINER_CLASSES:
                return True
    return False
