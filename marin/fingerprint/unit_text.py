"""The text of one unit, and the form in which two texts are compared.

The form has targets in place of imported names, numbers in place of local variables, and today's names of units.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Set

from msgspec import Struct

from marin.fingerprint.source.bindings import DEFINITIONS
from marin.fingerprint.source.local_names import FRAMES, looked_up, numbered

LABEL = re.compile(r"((?:[\w.<>]+: )?)([\w.]+) is ([\w.<>~*/ -]+)")  # the target of an imported name: see units
_WORD = re.compile(r"\w+")
EMPTY = ast.Module([], [])

type Sources = Mapping[str, str]
type _Comparable = tuple[str, str, dict[tuple[str, str], list[str]]]  # code, lines that are no code, targets of names


class Text(Struct, frozen=True, dict=True):
    """The parts of a unit's source.

    labels: (scope, name, target) of each imported name, in the order of the bindings. rest: lines that are no code.
    """

    code: ast.Module | None
    rest: str
    labels: tuple[tuple[str, str, str], ...]

    @property
    def has_code(self) -> bool:
        """Return whether the unit is code whose source is known: no file, and more than a digest."""
        return bool(self.code and self.code.body)

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Return the names that the code uses."""
        return frozenset(node.id for node in ast.walk(self.code or EMPTY) if isinstance(node, ast.Name))

    def written(self, renamed: Mapping[str, str]) -> str:
        """Return the text with numbered variables, and today's names where the code writes names in full.

        renamed: new name by old name.
        """
        return f"{ast.unparse(self.numbered(renamed))}\n{self.rest}"

    @functools.cached_property
    def imported(self) -> frozenset[str]:
        """Return the names that imports bind."""
        return frozenset(chain.split(".")[0] for _, chain, _ in self.labels)

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """Return the names that the code or an annotation uses."""
        return self.names | {*_WORD.findall(self.rest)}

    @functools.cached_property
    def looked_up(self) -> frozenset[str]:
        """Return the names that a string of the code may look up."""
        return frozenset[str]().union(*map(looked_up, self.strings))

    @functools.cached_property
    def strings(self) -> tuple[str, ...]:
        """Return the strings of the code; of a file, its content."""
        held = (node.value for node in ast.walk(self.code or EMPTY) if isinstance(node, ast.Constant))
        return (*(each for each in held if isinstance(each, str)), *([] if self.code else [self.rest]))

    def numbered(self, renamed: Mapping[str, str], kept: Set[str] = frozenset()) -> ast.Module:
        """Return the code with today's names, and with numbers in place of local variables."""
        bound = _bound_within(self.code or EMPTY, "")
        code = copied(self.code or EMPTY)
        code = _Renamed({name: now for name, now in renamed.items() if name.split(".")[0] not in bound}).visit(code)
        if any(target in FRAMES for _, _, target in self.labels):
            return code
        return numbered(code, self.imported | kept)

    def comparable(
        self,
        name: str,
        known: Sources,
        renamed: Mapping[str, str],
        kept: Set[str] = frozenset(),
        ignored: Set[str] = frozenset(),
    ) -> _Comparable:
        """Return the text as it is compared.

        renamed: new name by old name. kept: local variables that keep their names. ignored: names whose targets do not
        matter.
        """
        if self.code is None or "/" in name:
            return ast.unparse(self.code or EMPTY), self.rest, {("", ""): [str(label) for label in self.labels]}
        code = self.numbered(renamed, kept)
        own, module = own_name(name), module_of(name)
        leads: dict[tuple[str, str], list[str]] = {}
        for scope, chain, target in self.labels:
            leads.setdefault((scope, chain), []).append(target)
        for used in {node.id for node in ast.walk(code) if isinstance(node, ast.Name)}:
            if (unit := f"{module}.{used}") in known:
                leads.setdefault(("", used), [unit])
        elsewhere = _bound_within(code, own) | {chain.split(".")[0] for scope, chain in leads if scope}
        targets = {
            chain: f"‹{renamed.get(found[0], found[0])}›"
            for (_, chain), found in leads.items()
            if len(found) == 1 and found[0] in known and chain.isidentifier() and chain not in elsewhere
        }
        if own not in elsewhere:
            targets[own] = f"‹{renamed.get(name, name)}›"

        def today(line: str) -> str:  # "News.hear: " of a label, "# News.hear: str" of an annotation
            return re.sub(rf"^(# )?{re.escape(own)}(?=[.:])", rf"\1{targets.get(own, own)}", line)

        leading = {
            (today(scope), ".".join([targets.get(first, first), *attributes])): [renamed.get(at, at) for at in found]
            for (scope, chain), found in leads.items()
            for first, *attributes in [chain.split(".")]
            if first not in ignored
        }
        code = _Targets(targets).visit(code)
        return ast.unparse(code), "\n".join(map(today, self.rest.split("\n"))), leading


@functools.lru_cache(maxsize=4096)
def text_of(source: str) -> Text:
    """Return the parts of a unit's text, or of a file's content."""
    lines = source.split("\n")
    start = len(lines)
    while start and lines[start - 1].startswith("# "):
        start -= 1
    found = {line: LABEL.fullmatch(line[2:]) for line in lines[start:]}
    labels = tuple((label[1], label[2], label[3]) for label in found.values() if label is not None)
    rest = [line for line in lines[start:] if found[line] is None]
    written = "\n".join(lines[:start])
    try:
        code = ast.parse(written)
    except (SyntaxError, ValueError):
        code = None
    if code is None or ast.unparse(code) != written:  # the content of a file, or code without source
        return Text(None, source, ())
    return Text(code, "\n".join(rest), labels)


def copied(code: ast.Module) -> ast.Module:
    return ast.parse(ast.unparse(code))


class _Renamed(ast.NodeTransformer):
    """Replaces ``lib.rules.keep`` by its new name where the code writes the name in full."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        written = ast.unparse(node)
        if written in self._names:
            return ast.parse(self._names[written], mode="eval").body
        return self.generic_visit(node)


class _Targets(ast.NodeTransformer):
    """Replaces names by their targets."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        self._targets = targets

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(self._targets.get(node.id, node.id), node.ctx)

    def visit_Module(self, node: ast.Module) -> ast.AST:
        for statement in node.body:
            if isinstance(statement, DEFINITIONS):
                statement.name = self._targets.get(statement.name, statement.name)
        return self.generic_visit(node)


def _bound_within(code: ast.Module, own: str) -> set[str]:
    """Return the names that code binds, apart from the unit's own name at the top level."""
    return {
        name
        for statement in code.body
        for name in _bindings(statement, "" if isinstance(statement, DEFINITIONS) else own)
    }


def _bindings(statement: ast.stmt, own: str = "") -> Iterator[str]:
    """Yield the names that a statement binds. own: left out where it is a plain variable."""
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                if name != own:
                    yield name
            case ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if node is not statement:
                    yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from names
            case _:
                pass


def own_name(name: str) -> str:
    """Return a unit's name within its module, or a file's name within its folder."""
    if "/" in name:
        return name.rstrip("/").rpartition("/")[2]
    return name.rpartition(".")[2]


def module_of(name: str) -> str:
    return name.rstrip("/").rpartition("/" if "/" in name else ".")[0]
