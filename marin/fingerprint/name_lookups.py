"""Find names that code looks up while it runs: in a query's text, in a module's namespace, or by ``__name__``.

A definition or a variable that is looked up by its name must keep the name: see moved.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from marin.fingerprint.source.local_names import QUERY
from marin.fingerprint.unit_text import EMPTY, Sources, Text, module_of, own_name, text_of

_NAME_ATTRIBUTES = ("__name__", "__qualname__")
_NAMESPACE_READERS = ("vars", "dir", "getmembers", "getattr")


class Lookups(Struct, frozen=True):
    """Names that must stay.

    modules: modules whose namespaces are searched. names: definitions whose ``__name__`` is read. every: whether it may
    be any definition. strings: words of strings without spaces, which may name a definition. queried: names in the
    text of queries, which may be local variables of another unit.
    """

    modules: frozenset[str]
    names: frozenset[str]
    every: bool
    strings: frozenset[str]
    queried: frozenset[str]

    def holds(self, name: str) -> bool:
        """Return whether something may look up this unit by its name."""
        return self.every or name in self.names or module_of(name) in self.modules or own_name(name) in self.strings


def lookups_in(sources: Sources) -> Lookups:
    """Return the names that these units look up. sources: the text of every unit, by name."""
    modules: set[str] = set()
    names: set[str] = set()
    strings: set[str] = set()
    queried: set[str] = set()
    for name, source in sources.items():
        text = text_of(source)
        if any(word in source for word in (*_NAME_ATTRIBUTES, *_NAMESPACE_READERS, "__dict__", "globals")):
            targets = {chain: target for _, chain, target in text.labels}
            modules.update(_searched(text, name, targets))
            names.update(_named(text, name, targets, sources))
        for string in text.strings:
            queried.update(QUERY.findall(string))
            if not re.search(r"\s", string):
                strings.update(re.findall(r"\w+", string))
    return Lookups(frozenset(modules), frozenset(names), "" in names, frozenset(strings), frozenset(queried))


def _searched(text: Text, unit: str, targets: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules whose namespaces the code searches, and expressions for other objects.

    A module that a variable holds is a known hole: see docs/trust.md.
    """
    for node in _nodes(text):
        match node:
            case ast.Call(func=ast.Name(id="globals")) | ast.Call(func=ast.Name(id="vars" | "dir"), args=[]):
                yield module_of(unit)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(), *_]):
                continue
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[of, *_]) if (
                called in _NAMESPACE_READERS
            ):
                yield targets.get(ast.unparse(of), ast.unparse(of))
            case ast.Attribute(value=of, attr="__dict__"):
                yield targets.get(ast.unparse(of), ast.unparse(of))
            case _:
                continue


def _named(text: Text, unit: str, targets: Mapping[str, str], known: Sources) -> Iterator[str]:
    """Yield the definitions whose ``__name__`` the code reads; "" for any definition's name.

    The name of a value's class (``type(error).__name__``) is a known hole: see docs/drift.md.
    """
    for node in _nodes(text):
        if isinstance(node, ast.Attribute) and node.attr in _NAME_ATTRIBUTES:
            of = ast.unparse(node.value)
            own = f"{module_of(unit)}.{of}"
            if of in targets or own in known:
                yield targets.get(of, own)
            elif not of.startswith("type("):
                yield ""


def _nodes(text: Text) -> Iterable[ast.AST]:
    return ast.walk(text.code or EMPTY)
