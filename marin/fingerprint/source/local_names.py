"""Number the local variables of code, so that functions which differ only in such names are equal.

A variable gets a number if reading the source shows every use. A parameter keeps its name, because a caller may write
it. These names stay too: names that an import, a definition, a class body, a pattern or ``global`` binds; names with
``__``; and names of Python's modules, because texts of units do not show plain imports. Code keeps all names if it
looks up variables by name (``locals()``, ``eval``) or imports something optional (``except ImportError``).
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Generator, Iterator, Set
from contextlib import contextmanager

from marin.fingerprint.source.bindings import COMPREHENSIONS, DEFINITIONS, bound_names, children, parameters

FRAMES = frozenset({"sys._getframe", "inspect.currentframe", "inspect.stack"})  # they lead to variables by name
_OPTIONAL = re.compile(r"\b(?:Import|ModuleNotFound)Error\b")
QUERY = re.compile(r"(?:@|\b(?:select|from|join|into|update|table)\s+)(\w+)", re.IGNORECASE)  # of pandas or SQL


@functools.lru_cache(maxsize=4096)
def looked_up(text: str) -> frozenset[str]:
    """Return the names that a string may look up: all its words if it is one name or an expression.

    A string with an operator counts as an expression, as numexpr and ``DataFrame.query`` read them. Prose has none.
    """
    if re.search(r"[<>=+*/%&|@~{]", text) or re.fullmatch(r"[\w.]+", text):
        return frozenset(re.findall(r"\w+", text))
    return frozenset(QUERY.findall(text))


def numbered(code: ast.Module, kept: Set[str]) -> ast.Module:
    """Return the code, changed in place, with ‹1›, ‹2› … for its local variables. kept: names that stay."""
    if any(map(_looks_up, ast.walk(code))):
        return code
    return _Numbers(kept).visit(code)


def _looks_up(node: ast.AST) -> bool:
    """Return whether a node may look up local variables by name, or shows an import that may bind them."""
    match node:
        case ast.Name(id="locals" | "eval" | "exec") | ast.Call(func=ast.Name(id="vars" | "dir"), args=[]):
            return True
        case ast.Attribute(attr="f_locals"):
            return True
        case ast.ExceptHandler(type=ast.expr() as kind):
            return _OPTIONAL.search(ast.unparse(kind)) is not None
        case ast.Attribute(attr="_getframe" | "currentframe" | "stack"):
            return ast.unparse(node) in FRAMES
        case _:
            return False


def _kept(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds, unless it binds them as a plain variable."""
    match node:
        case ast.FunctionDef(name=name, args=arguments) | ast.AsyncFunctionDef(name=name, args=arguments):
            yield name
            yield from (each.arg for each in parameters(arguments))
        case ast.Lambda(args=arguments):
            yield from (each.arg for each in parameters(arguments))
        case ast.ClassDef(name=name, body=body):
            yield name
            yield from (bound for inner in body for bound in bound_names(inner))
        case ast.TypeAlias(name=ast.Name(id=name)):
            yield name
        case ast.Global(names=names):
            yield from names
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case _:
            return


class _Numbers(ast.NodeTransformer):
    def __init__(self, kept: Set[str]) -> None:
        self._kept = kept
        self._numbers: dict[str, int] = {}  # by variable of the surrounding scopes
        self._last = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.decorator_list = self._each(node.decorator_list)
        node.args = self.visit(node.args)
        foreign = {name for each in _own(node) if isinstance(each, ast.Nonlocal) for name in each.names}
        with self._scope(node, {name for inner in node.body for name in bound_names(inner)} - foreign):
            node.body = self._each(node.body)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, COMPREHENSIONS):
            return super().generic_visit(node)
        first, *_ = node.generators
        outside, first.iter = self.visit(first.iter), ast.Constant(None)  # the surrounding scope evaluates it
        targets = [each for generator in node.generators for each in ast.walk(generator.target)]
        stored = {each.id for each in targets if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        with self._scope(node, stored):
            super().generic_visit(node)
        first.iter = outside
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._numbered(node.id), node.ctx)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        if node.name is not None:
            node.name = self._numbered(node.name)
        return self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        return ast.Nonlocal([self._numbered(name) for name in node.names])

    def _each[T: ast.AST](self, nodes: list[T]) -> list[T]:
        return [self.visit(node) for node in nodes]

    def _numbered(self, name: str) -> str:
        if name not in self._numbers:
            return name
        if not self._numbers[name]:
            self._last += 1
            self._numbers[name] = self._last
        return f"‹{self._numbers[name]}›"

    @contextmanager
    def _scope(self, node: ast.AST, variables: Set[str]) -> Generator[None]:
        outer = self._numbers
        own = {name for name in variables - self._kept if "__" not in name and name not in sys.stdlib_module_names}
        own -= {name for inner in ast.walk(node) for name in _kept(inner)}
        self._numbers = {**outer, **dict.fromkeys(own, 0)}
        yield
        self._numbers = {name: number if name in own else self._numbers[name] for name, number in outer.items()}


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node, except in definitions below it."""
    for child in children(node):
        yield child
        if not isinstance(child, DEFINITIONS):
            yield from _own(child)
