"""Which environment variables code asks for, as far as its text names them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

ANYTHING = "*"  # instead of a name: one that only running the code would tell
_READS = frozenset({"get", "setdefault", "pop", "__getitem__", "__contains__"})
_MAPPING = frozenset({"os.environ", "environ", "os.environb"})
_GETTERS = frozenset({"os.getenv", "getenv", "os.getenvb"})
_EXPANDERS = frozenset({"os.path.expandvars", "expandvars"})
_VARIABLE = re.compile(r"\$\{?(\w+)")


def environment_names(
    statements: list[ast.stmt], dotted: Callable[[ast.expr], str], text_of: Callable[[ast.expr], str | None]
) -> tuple[str, ...]:
    """Names that are asked for, and ``*`` for a computed one or for all of them."""
    found: dict[str, None] = {}
    known: set[ast.expr] = set()
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and node.args and dotted(node.func) in _EXPANDERS:
                text = text_of(node.args[0])
                found |= dict.fromkeys([ANYTHING] if text is None else _VARIABLE.findall(text))
            for mapping, name in _uses(node, dotted):
                known.add(mapping)
                if name is not None:
                    found[text_of(name) or ANYTHING] = None
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, (ast.Name, ast.Attribute)) and node not in known and dotted(node) in _MAPPING:
                found[ANYTHING] = None
    return tuple(found)


def _uses(node: ast.AST, dotted: Callable[[ast.expr], str]) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """(the mapping, or what is called; the name that is asked for, None where one is set)."""
    match node:
        case ast.Call(func=func, args=[name, *_]) if dotted(func) in _GETTERS:
            yield func, name
        case ast.Call(func=ast.Attribute(value=mapping, attr=way), args=[name, *_]) if (
            way in _READS and dotted(mapping) in _MAPPING
        ):
            yield mapping, name
        case ast.Subscript(value=mapping, slice=name, ctx=context) if dotted(mapping) in _MAPPING:
            yield mapping, name if isinstance(context, ast.Load) else None
        case ast.Compare(left=name, ops=[ast.In() | ast.NotIn()], comparators=[mapping]) if dotted(mapping) in _MAPPING:
            yield mapping, name
        case _:
            return
