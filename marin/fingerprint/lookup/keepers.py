"""Find code that may keep data that it read: in a cache, a global variable, an attribute, a closure.

The text of the code decides, and in doubt the code may. A step that reaches such code may be given the data later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from marin.fingerprint.lookup.definitions import Key
from marin.fingerprint.lookup.units import Units
from marin.fingerprint.source.bindings import DEFINITIONS, FUNCTIONS, defaults, parameters
from marin.fingerprint.source.module import CHANGING, Module, chain_of
from marin.fingerprint.source.unit_source import Trait, holds_container

type _Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_STORING = CHANGING | {"__setitem__", "appendleft", "push", "put", "set", "store"}
_OUTSIDE = ("stdlib", "package", "engine")
# Decorators of Python that keep nothing of their function's results.
_KEEP_NOTHING = frozenset(
    """
    abc.abstractmethod contextlib.asynccontextmanager contextlib.contextmanager dataclasses.dataclass enum.unique
    functools.partial functools.total_ordering functools.wraps typing.final typing.no_type_check typing.overload
    typing.override typing.runtime_checkable
    """.split()  # noqa: SIM905
)
_OF_CLASS = frozenset({"__class_getitem__", "__init_subclass__", "__new__"})
_OF_PROPERTIES = frozenset({"setter", "getter", "deleter"})


class Retention(IntEnum):
    """The time for which code may keep data.

    OBJECT: as long as something holds an object of the class. PROCESS: until the process ends.
    """

    NOTHING = 0
    OBJECT = 1
    PROCESS = 2


class _Method(NamedTuple):
    """A function, with the places in which it may keep data.

    around: variables of enclosing functions that end before another call. of: its name for its object or class (self,
    cls), if it has one. keeps: how long data stays that it writes there.
    """

    function: _Function
    around: frozenset[str]
    of: str | None = None
    keeps: Retention = Retention.NOTHING


class Keepers:
    """A judge of units that may keep data. Each unit is judged once."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._keeps: dict[Key, Retention] = {}

    def keeps(self, key: Key) -> Retention:
        if key not in self._keeps:
            statements = key.module.bindings.get(key.name, ())
            around = [*_decorators(statements), *_handed_to(key)]
            found = [self._of_wrapper(each, key.module) for each in around]
            found += [self._of_function(each, key.module) for each in _functions(statements)]
            self._keeps[key] = max(found, default=Retention.NOTHING)
        return self._keeps[key]

    def held(self, keys: Iterable[Key]) -> frozenset[Key]:
        """Return everything that the variables and caches among these lead to. Objects of these classes may last."""
        return frozenset[Key]().union(*(self._units.everything(key) for key in keys if self._holds(key)))

    def _holds(self, key: Key) -> bool:
        if self._units.piece(key).traits & Trait.STATE or self.keeps(key) is Retention.PROCESS:
            return True
        return any(map(_makes_an_object, key.module.bindings.get(key.name, ())))

    def _of_wrapper(self, wrapper: ast.expr, module: Module) -> Retention:
        """Judge a wrapper: a decorator, or a callable that gets the function."""
        chain = chain_of(wrapper.func if isinstance(wrapper, ast.Call) else wrapper)
        if not chain:
            return Retention.PROCESS
        if chain[-1] in _OF_PROPERTIES:
            return Retention.NOTHING
        for found in self._units.chain(chain, module):
            if "cached_property" in found.name:
                return Retention.OBJECT
            if found.kind in ("stdlib", "package"):
                keeps = found.name.replace("typing_extensions.", "typing.") not in _KEEP_NOTHING
            elif found.unit is not None:
                keeps = found.used < len(chain) - 1 or self._names_a_cache(found.unit)
            else:
                keeps = found.kind != "engine"
            if keeps:
                return Retention.PROCESS
        return Retention.NOTHING

    def _names_a_cache(self, key: Key) -> bool:
        """Return whether a decorator of the project may pass the function on to one that keeps its results."""
        named = (part for each in self._units.piece(key).references for part in (each.name, *each.attributes))
        return any("cache" in part or "memo" in part for part in named)

    def _of_function(self, method: _Method, module: Module) -> Retention:
        if any(map(holds_container, defaults(method.function.args))):
            return Retention.PROCESS
        own, found = method.around | _variables(method.function), Retention.NOTHING
        for node in _inside(method.function):
            if isinstance(node, ast.Global) or (
                isinstance(node, ast.Nonlocal) and not method.around.issuperset(node.names)
            ):
                return Retention.PROCESS
            for changed in _changed(node):
                names = {each.id for each in ast.walk(changed) if isinstance(each, ast.Name)}
                if isinstance(changed, ast.Name) and changed.id == method.of:
                    found = max(found, method.keeps)
                elif method.of in names or not all(name in own or self._is_outside(name, module) for name in names):
                    return Retention.PROCESS
        return found

    def _is_outside(self, name: str, module: Module) -> bool:
        """Return whether a name leads outside the project, as ``numpy`` does in ``numpy.append(a, b)``."""
        found = self._units.chain((name,), module) if name in module.imports else []
        return bool(found) and all(each.kind in _OUTSIDE for each in found)


def _decorators(statements: Iterable[ast.stmt]) -> Iterator[ast.expr]:
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, DEFINITIONS):
                yield from node.decorator_list


def _handed_to(key: Key) -> Iterator[ast.expr]:
    """Yield the callables that get a function and whose result the module binds: ``load = cache(_load)``."""
    for statements in key.module.bindings.values():
        for statement in statements:
            if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
                continue
            for node in ast.walk(statement.value):
                if isinstance(node, ast.Call):
                    given = [*node.args, *(word.value for word in node.keywords)]
                    if any(isinstance(each, ast.Name) and each.id == key.name for each in given):
                        yield node.func


def _functions(
    statements: Iterable[ast.AST],
    around: frozenset[str] = frozenset(),
    lasting: frozenset[str | ast.AST] = frozenset(),
    *,
    in_class: bool = False,
) -> Iterator[_Method]:
    """Yield each function in the statements. lasting: functions that the enclosing function gives away."""
    for node in statements:
        if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            yield from _functions(ast.iter_child_nodes(node), around, lasting, in_class=isinstance(node, ast.ClassDef))
            continue
        outer = frozenset[str]() if lasting & {node, getattr(node, "name", "")} else around
        if isinstance(node, FUNCTIONS) and in_class and node.args.args:
            of_class = node.name in _OF_CLASS or any(chain_of(each) == ("classmethod",) for each in node.decorator_list)
            yield _Method(node, outer, node.args.args[0].arg, Retention.PROCESS if of_class else Retention.OBJECT)
        else:
            yield _Method(node, outer)
        yield from _functions(ast.iter_child_nodes(node), outer | _variables(node), frozenset(_given_away(node)))


def _variables(function: _Function) -> frozenset[str]:
    stored = (node for node in _inside(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return frozenset((*(each.arg for each in parameters(function.args)), *(node.id for node in stored)))


def _given_away(function: _Function) -> Iterator[str | ast.AST]:
    """Return the functions, by name or as lambdas, that a function returns or writes into something."""
    for node in _inside(function):
        changes = isinstance(node, ast.Assign) and not all(isinstance(each, ast.Name) for each in node.targets)
        if changes or isinstance(node, (ast.Return, ast.Yield)):
            inside = list(ast.walk(node))
            called = {inner.func for inner in inside if isinstance(inner, ast.Call)}
            yield from (inner for inner in inside if isinstance(inner, ast.Lambda))
            yield from (inner.id for inner in inside if isinstance(inner, ast.Name) and inner not in called)


def _inside(function: _Function) -> Iterator[ast.AST]:
    """Return all nodes of a function's body, without the nodes of inner functions."""
    pending: list[ast.AST] = list(function.body) if isinstance(function.body, list) else [function.body]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))


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


def _makes_an_object(node: ast.stmt) -> bool:
    """Return whether a class attribute or a default argument is the result of a call."""
    given = (each for inner in ast.walk(node) if isinstance(inner, FUNCTIONS) for each in defaults(inner.args))
    held = [inner.value for inner in getattr(node, "body", ()) if isinstance(inner, ast.Assign)]
    return any(isinstance(inner, ast.Call) for value in (*given, *held) for inner in ast.walk(value))
