"""Find names that code looks up while it runs: in a query's text, in a module's namespace, or by ``__name__``.

A definition or a variable that is looked up by its name must keep the name: see moved.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from marin.fingerprint.source.local_names import QUERY
from marin.fingerprint.unit_text import EMPTY, Sources, Text, module_of, text_of

_SHOWS_NAME = ("__name__", "__qualname__")
_SHOWS_NAMES = ("vars", "dir", "getmembers", "getattr")


@dataclass(frozen=True)
class Lookups:
    """Names that must stay. modules: whose namespaces are searched. names: of definitions. every: of all definitions.

    variables: names in the text of queries, which may be local variables of another unit.
    """

    modules: frozenset[str]
    names: frozenset[str]
    every: bool
    variables: frozenset[str]


def lookups_in(sources: Sources) -> Lookups:
    modules: set[str] = set()
    names: set[str] = set()
    variables: set[str] = set()
    for name, source in sources.items():
        if any(word in source for word in (*_SHOWS_NAME, *_SHOWS_NAMES, "__dict__", "globals")):
            text = text_of(source)
            targets = {chain: target for _, chain, target in text.labels}
            modules.update(_searched(text, name, targets))
            names.update(_named(text, name, targets, sources))
        variables.update(QUERY.findall(source))
    return Lookups(frozenset(modules), frozenset(names), "" in names, frozenset(variables))


def _searched(text: Text, unit: str, targets: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules whose namespaces the code searches. Other objects are harmless."""
    for node in _nodes(text):
        match node:
            case ast.Call(func=ast.Name(id="globals")) | ast.Call(func=ast.Name(id="vars" | "dir"), args=[]):
                yield module_of(unit)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(), *_]):
                continue
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[of, *_]) if (
                called in _SHOWS_NAMES
            ):
                yield targets.get(ast.unparse(of), ast.unparse(of))
            case ast.Attribute(value=of, attr="__dict__"):
                yield targets.get(ast.unparse(of), ast.unparse(of))
            case _:
                continue


def _named(text: Text, unit: str, targets: Mapping[str, str], known: Sources) -> Iterator[str]:
    """Yield the definitions whose ``__name__`` the code reads; "" if it may read that of any.

    The name of a value's class (``type(error).__name__``) is a known hole: see docs/drift.md.
    """
    for node in _nodes(text):
        if isinstance(node, ast.Attribute) and node.attr in _SHOWS_NAME:
            of = ast.unparse(node.value)
            own = f"{module_of(unit)}.{of}"
            if of in targets or own in known:
                yield targets.get(of, own)
            elif not of.startswith("type("):
                yield ""


def _nodes(text: Text) -> Iterable[ast.AST]:
    return ast.walk(text.code or EMPTY)
