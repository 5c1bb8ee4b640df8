"""Code that moved, and fields that were added: differences of two fingerprints that change no output.

A unit is named by its module, so a file that moves renames its units and what other units say of them. Two units are
one that moved if one vanished and one appeared, of the same name within their modules, whose texts are equal once every
name that they use is taken for what it leads to. Where several could be the one, none is: that stays drift.

A class that gained a ``since()`` field makes what it made before. A field that has another default than it had does
not: identities leave that default out.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

_LABEL = re.compile(r"((?:[\w.<>]+: )?)([\w.]+) is ([\w.<>~*/ -]+)")  # what an imported name leads to: see units
_SINCE = "marin.since"
_PLACES = re.compile(r"\b__(?:name|package|module|qualname)__\b")  # what a move changes, but for a logger
# What makes a path: fingerprints that followed paths in the source did not say where these names lead.
_PATHS = r"[\w.]+ is (?:pathlib\.\w+|os\.path\.\w+|os\.fspath)"
# Artifacts stood in one module with the engine's base of all artifacts, and did not say where that name leads.
_BASE = r"Artifact is marin\.Artifact"
_UNSAID = re.compile(rf"\n# (?:[\w.<>]+: )?(?:{_PATHS}|{_BASE})(?=\n|$)")

type Sources = Mapping[str, str]


@dataclass(frozen=True)
class Text:
    """A unit's source, taken apart. label: of an imported name, where it leads; names: all that the code uses."""

    code: ast.Module | None
    rest: str
    labels: frozenset[tuple[str, str, str]]
    names: frozenset[str]

    def written(self, renamed: Mapping[str, str]) -> str:
        code = "" if self.code is None else ast.unparse(_Renamed(renamed).visit(_copied(self.code)))
        return f"{code}\n{self.rest}"


@dataclass(frozen=True)
class Matched:
    """moved: new name by old name. same: units that differ only by such names, or only in since() fields. changed,
    lost: such fields ("Class.field"). gained: such fields, and what came with them."""

    moved: dict[str, str] = field(default_factory=dict[str, str])
    same: set[str] = field(default_factory=set[str])
    gained: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])


def match(old: Sources, new: Sources) -> Matched:
    """old, new: the text of every unit, by name."""
    moved = _paired(old, new)
    while True:  # a pair that does not hold may take with it what relied on it
        modules = _modules(moved, new)
        wrong = [name for name, other in moved.items() if not _is_same(name, other, old, new, moved, modules)]
        if not wrong:
            break
        moved = {name: other for name, other in moved.items() if name not in wrong}
    matched = Matched(moved)
    for name in sorted(old.keys() & new.keys()):
        if old[name] == new[name]:
            continue
        if _is_same(name, name, old, new, moved, modules):
            matched.same.add(name)
        else:
            _match_fields(name, old, new, moved, modules, matched)
    if matched.gained:
        matched.gained.extend(sorted(_with_fields(new.keys() - old.keys() - set(moved.values()), new)))
    return matched


def _with_fields(came: set[str], new: Sources) -> set[str]:
    """Units that came with a new field, the enum of its default, say: they use each other, Python and marin alone, so
    nothing that was there can have heard of them."""
    alone = {name for name in came if _text(new[name]).code is not None and _own(name).isidentifier()}
    while True:
        uses = {name: _uses(name, new) for name in alone}
        known = sys.stdlib_module_names | {"marin"}
        wrong = {
            name
            for name, used in uses.items()
            if any(each not in alone and (each in new or each.split(".")[0] not in known) for each in used)
        }
        if not wrong:
            return alone
        alone -= wrong


def _uses(name: str, known: Sources) -> set[str]:
    """What a unit's names lead to."""
    text = _text(known[name])
    found = {target for _, _, target in text.labels}
    for node in ast.walk(text.code or ast.Module([], [])):
        if isinstance(node, (ast.Name, ast.Attribute)):
            found.update(each for each in (f"{_module(name)}.{ast.unparse(node)}", ast.unparse(node)) if each in known)
    return found - {name}


def as_before(text: str) -> str:
    """A unit's text as an older fingerprint may have it, which means the same."""
    return _UNSAID.sub("", text)


def since_fields(text: str) -> dict[str, str]:
    """The since() fields of a class's source, each with its statement."""
    return {name: ast.unparse(node) for name, node in _since_fields(_text(text)).items()}


def _paired(old: Sources, new: Sources) -> dict[str, str]:
    gone, came = old.keys() - new.keys(), new.keys() - old.keys()
    alike: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for number, (names, texts) in enumerate(((gone, old), (came, new))):
        shown = {name: _own(name) for name in names}
        for name in sorted(names):
            key = (_own(name), _text(texts[name]).written(shown))
            alike.setdefault(key, ([], []))[number].append(name)
    moved = {one[0]: other[0] for one, other in alike.values() if len(one) == len(other) == 1}
    modules = _modules(moved, new)
    for one, other in alike.values():
        for name in one:
            there = f"{modules.get(_module(name), '')}.{_own(name)}"
            if name not in moved and there in other:
                moved[name] = there
    return moved


def _modules(moved: Mapping[str, str], new: Sources) -> dict[str, str]:
    """New name by old name of each module of which everything moved to one place."""
    targets: dict[str, set[str]] = {}
    for name, other in moved.items():
        targets.setdefault(_module(name), set()).add(_module(other))
    left = {_module(name) for name in new}
    return {name: min(held) for name, held in targets.items() if len(held) == 1 and name not in left}


def _is_same(
    name: str, other: str, old: Sources, new: Sources, moved: Mapping[str, str], modules: Mapping[str, str]
) -> bool:
    before, after = _text(old[name]), _text(new[other])
    if before.written({**modules, **moved}) != after.written({}):
        return False
    if name != other and _PLACES.search(old[name].replace("getLogger(__name__)", "")):
        return False
    return _leads_alike(before, after, name, other, old, new, {**modules, **moved})


def _leads_alike(
    before: Text,
    after: Text,
    name: str,
    other: str,
    old: Sources,
    new: Sources,
    renamed: Mapping[str, str],
    ignored: frozenset[str] = frozenset(),
) -> bool:
    """Whether every name in both texts leads to the same unit, by its label or in the unit's own module."""
    chains = {(scope, chain) for scope, chain, _ in before.labels | after.labels}
    chains |= {("", name) for name in before.names | after.names}
    return all(
        {renamed.get(target, target) for target in _targets(before, scope, chain, _module(name), old)}
        == _targets(after, scope, chain, _module(other), new)
        for scope, chain in chains
        if chain.split(".")[0] not in ignored
    )


def _targets(text: Text, scope: str, chain: str, module: str, known: Sources) -> set[str]:
    found = {target for where, what, target in text.labels if (where, what) == (scope, chain)}
    own = f"{module}.{chain}"
    return found or ({own} if own in known else set())


def _match_fields(
    name: str, old: Sources, new: Sources, moved: Mapping[str, str], modules: Mapping[str, str], matched: Matched
) -> None:
    """Compare two versions of a class that may differ in since() fields only."""
    before, after = _text(old[name]), _text(new[name])
    then, now = _since_fields(before), _since_fields(after)
    renamed = {**modules, **moved}
    one, other = _without(before, then), _without(after, now)
    if not (then or now) or one.written(renamed) != other.written({}) or not _may_gain(after, now.keys() - then.keys()):
        return
    of_fields = _names(ast.Module([*then.values(), *now.values()], []))
    if not _leads_alike(one, other, name, name, old, new, renamed, of_fields - one.names - other.names):
        return
    matched.same.add(name)
    matched.gained.extend(f"{name}.{each}" for each in sorted(now.keys() - then.keys()))
    matched.lost.extend(f"{name}.{each}" for each in sorted(then.keys() - now.keys()))
    for each in sorted(then.keys() & now.keys()):
        statements = (ast.Module([then[each]], []), ast.Module([now[each]], []))
        was, is_now = (
            Text(code, "", side.labels, _names(code)) for code, side in zip(statements, (before, after), strict=True)
        )
        others = (before.names | after.names) - was.names - is_now.names
        if was.written(renamed) != is_now.written({}) or not _leads_alike(
            was, is_now, name, name, old, new, renamed, others
        ):
            matched.changed.append(f"{name}.{each}")


def _may_gain(text: Text, gained: set[str]) -> bool:
    """A field between others changes what positional arguments mean, unless the class is a step."""
    cls = _class(text)
    if cls is None or any(word.arg == "op" for word in cls.keywords):
        return True
    names = [
        node.target.id for node in cls.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    return all(name in gained for name in names[len(names) - len(gained) :])


def _since_fields(text: Text) -> dict[str, ast.stmt]:
    cls = _class(text)
    leads = {chain: target for scope, chain, target in text.labels if not scope}
    found: dict[str, ast.stmt] = {}
    for node in cls.body if cls is not None else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call) and isinstance(node.target, ast.Name):
            called = ast.unparse(node.value.func)
            if leads.get(called, called) == _SINCE:
                found[node.target.id] = node
    return found


def _without(text: Text, fields: Mapping[str, ast.stmt]) -> Text:
    code = _copied(text.code or ast.Module([], []))
    cls = _class(Text(code, "", frozenset(), frozenset()))
    if cls is not None:
        cls.body = [
            node
            for node in cls.body
            if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in fields)
        ] or [ast.Pass()]
    return Text(code, text.rest, text.labels, _names(code))


def _class(text: Text) -> ast.ClassDef | None:
    body = text.code.body if text.code is not None else []
    return body[0] if len(body) == 1 and isinstance(body[0], ast.ClassDef) else None


@functools.lru_cache(maxsize=4096)
def _text(source: str) -> Text:
    lines = source.split("\n")
    start = len(lines)
    while start and lines[start - 1].startswith("# "):
        start -= 1
    labels: set[tuple[str, str, str]] = set()
    rest: list[str] = []
    for line in lines[start:]:
        found = _LABEL.fullmatch(line[2:])
        if found is None:
            rest.append(line)
        else:
            labels.add((found[1], found[2], found[3]))
    written = "\n".join(lines[:start])
    try:
        code = ast.parse(written)
    except (SyntaxError, ValueError):
        code = None
    if code is None or ast.unparse(code) != written:  # a file as it is, or code without source
        return Text(None, source, frozenset(), frozenset())
    return Text(code, "\n".join(rest), frozenset(labels), _names(code))


def _names(code: ast.AST) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(code) if isinstance(node, ast.Name))


def _copied(code: ast.Module) -> ast.Module:
    return ast.parse(ast.unparse(code))


class _Renamed(ast.NodeTransformer):
    """``lib.rules.keep`` by its new name, where the code writes it in full."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        written = ast.unparse(node)
        if written in self._names:
            return ast.parse(self._names[written], mode="eval").body
        return self.generic_visit(node)


def _own(name: str) -> str:
    """A unit's name within its module, a file's within its folder."""
    if "/" in name:
        return name.rstrip("/").rpartition("/")[2]
    return name.rpartition(".")[2]


def _module(name: str) -> str:
    return name.rstrip("/").rpartition("/" if "/" in name else ".")[0]
