"""In this whole project, the module names that a unit uses agree with Python's own symbol table."""

import symtable
from collections.abc import Iterator
from pathlib import Path

import pytest

from marin.fingerprint.source.syntax import Syntax, parse
from marin.fingerprint.source.unit_source import read_unit

ROOT = Path(__file__).resolve().parents[2]
# Calls whose results marin follows, and marks in annotations.
NOT_USED = {"getattr", "importlib", "import_module", "__import__", "exec", "eval", "ClassVar", "InitVar", "KW_ONLY"}
TRICKY = """
import a, b
X = [a for a in b for c in a if (d := c)], {e: f for e, f in a}, (lambda g, h=a, *i, j=g, **k: (g, h, i, j, k, l))
class Outer[T](a.B[T], metaclass=lambda m: m):
    x = 1
    y = [x for x in range(x)]
    a = a
    def method(self, x: int = x) -> T:
        global X
        nonlocal_ = 1
        def inner(b=b):
            nonlocal nonlocal_
            nonlocal_ = b, __class__, super().method
            return lambda: (a, nonlocal_, undefined)
        try: pass
        except* OSError as error: X = error
        match self:
            case {"p": p, **q} | [p, *q]: return p, q
        for X in (): del X
        with a as (r, [s, *t]), b as self.u[v]: pass
        async def w(): return [y async for y in b if await y]
        return r, s, t, inner, w
"""


def in_text(text: str) -> set[str]:
    """Return the names that the text uses and that none of its functions or classes bind."""
    return {symbol.get_name() for table in below(symtable.symtable(text, "", "exec")) for symbol in used(table)}


def below(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inner in table.get_children():
        yield from below(inner)


def used(table: symtable.SymbolTable) -> list[symtable.Symbol]:
    """Return the symbols that a scope uses. The module's table also holds the names of its comprehensions."""
    top = table.get_type() == "module"
    return [
        each
        for each in table.get_symbols()
        if each.is_referenced() and (not each.is_assigned() if top else each.is_global())
    ]


def check(module: Syntax, names: list[str]) -> int:
    for name in names:
        unit = read_unit(module, name)
        known = {each.name for each in unit.references if each.start is None}
        of_python = in_text(unit.text) - {each for aside in module.aside.values() for each in aside.type_params}
        # marin also counts names that a class may read before it binds them, and module names that functions set.
        assert known - of_python <= module.bindings.keys() | module.imports.keys(), (module.name, name)
        assert of_python - {each.name for each in unit.references} <= NOT_USED, (module.name, name)
    return len(names)


@pytest.mark.parametrize("folder", ["marin", "operators", "experiments", "infra", "tests"])
def test_a_unit_uses_the_names_that_pythons_symbol_table_says(folder: str) -> None:
    checked = 0
    for path in sorted((ROOT / folder).rglob("*.py")):
        module = parse(path.read_bytes(), path.stem, path, is_package=path.name == "__init__.py")
        checked += check(module, list(module.bindings))
    assert checked > 50


def test_scopes_of_every_kind() -> None:
    module = parse(TRICKY.encode(), "tricky", Path("tricky.py"), is_package=False)
    assert check(module, ["X", "Outer"]) == 2
    assert {each.name for each in read_unit(module, "X").references} == {"a", "b", "l", "g"}


def test_a_comprehension_does_not_see_what_its_class_binds() -> None:
    """The symbol table of Python 3.12 cannot tell this: it no longer has scopes for comprehensions."""
    source = "x = 1\nclass A:\n    y = 2\n    z = [(x, y) for _ in y]\n"
    module = parse(source.encode(), "a", Path("a.py"), is_package=False)
    assert [each.name for each in read_unit(module, "A").references] == ["x", "y"]
