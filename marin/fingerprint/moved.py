"""Find moved code, new names and added fields: differences of two fingerprints that change no output.

A unit's name contains its module, so a moved file renames its units, also in the texts of other units. A unit counts as
moved if one unit vanished, another appeared with the same name or in the same module, and the two texts are equal.
Texts are compared with targets in place of imported names, and with numbers in place of local variables. If several
units could be the moved one, none counts as moved: that is drift.

A class that gained a ``since()`` field makes the same output as before. A changed default of such a field is drift,
because identities leave the default out.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from msgspec import Struct, field

from marin.fingerprint.name_lookups import Lookups, lookups_in
from marin.fingerprint.unit_text import EMPTY, LABEL, Sources, Text, copied, module_of, own_name, text_of
from marin.steps.our_packages import RENAMED

_SAID = re.compile(r"# [\w.<>]+: ")  # an annotation or a docstring
_SINCE = "marin.since"
_PRIVATE = re.compile(r"(?<!\w)__[^\W_](?:\w*[^\W_])?_?(?!\w)")  # Python adds the name of the class to such a name
_PLACES = re.compile(r"\b__(?:name|package|module|qualname)__\b")  # a move changes them, which only loggers ignore
# Functions that make paths. Fingerprints that followed paths in the source did not record the targets of these names.
_PATHS = r"[\w.]+ is (?:pathlib\.\w+|os\.path\.\w+|os\.fspath)"
# Artifact classes once shared a module with their base class, and did not record the target of its name.
_BASE = r"Artifact is marin\.Artifact"
# Older fingerprints did not record that the module itself also binds an imported name, and which binding came last.
_BOTH = r"[\w.]+ is bound here"
_UNSAID = re.compile(rf"\n# (?:[\w.<>]+: )?(?:{_PATHS}|{_BASE}|{_BOTH})(?=\n|$)")

# Renamed packages. Stores name code by its module, so code under an old name counts as the same code.
_BEFORE = {now: then for then, now in RENAMED.items()}
_OLD = re.compile(r"\bmarin_(?:datasets|infra|operators)\b")
_NEW = re.compile(r"(?<![\w.])(?:operators\.datasets|operators|infra)\b")


class Matched(Struct, frozen=True):
    """The result of matching two fingerprints.

    moved: new name by old name. same: units that differ only by moved names, or only in since() fields. changed, lost:
    changed and removed since() fields ("Class.field"). gained: new since() fields, and the units that came with them.
    """

    moved: dict[str, str] = field(default_factory=dict[str, str])
    same: set[str] = field(default_factory=set[str])
    gained: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])


def match(old: Sources, new: Sources) -> Matched:
    """Return the units that moved or gained fields. old, new: the text of every unit, by name."""
    found = [lookups_in(old), lookups_in(new)]
    queried = found[0].queried | found[1].queried
    comparison = _Comparison(old, new, queried, _harmless(_paired(old, new), old, new, found))
    # Dropping a wrong pair may make pairs wrong that relied on the pair.
    while wrong := [name for name, other in comparison.moved.items() if not comparison.is_same(name, other)]:
        moved = {name: other for name, other in comparison.moved.items() if name not in wrong}
        comparison = _Comparison(old, new, queried, moved)
    matched = Matched(comparison.moved)
    for name in sorted(old.keys() & new.keys()):
        if old[name] == new[name]:
            continue
        if comparison.is_same(name, name):
            matched.same.add(name)
        else:
            comparison.match_fields(name, matched)
    if matched.gained:
        matched.gained.extend(sorted(_with_fields(new.keys() - old.keys() - set(matched.moved.values()), new)))
    return matched


class _Comparison(Struct, frozen=True, dict=True):
    """A comparison of two fingerprints that assumes that some units moved. queried: see Lookups."""

    old: Sources
    new: Sources
    queried: Set[str]
    moved: dict[str, str]

    @functools.cached_property
    def renamed(self) -> dict[str, str]:
        """Return new name by old name, of units and modules."""
        return {**_modules(self.moved, self.new), **self.moved}

    def is_same(self, name: str, other: str) -> bool:
        if name != other and _PLACES.search(self.old[name].replace("getLogger(__name__)", "")):
            return False
        return self.is_alike(text_of(self.old[name]), name, text_of(self.new[other]), other)

    def is_alike(self, before: Text, name: str, after: Text, other: str, ignored: Set[str] = frozenset()) -> bool:
        """Return whether both have the same code with the same targets. ignored: names whose targets may differ."""
        kept = before.looked_up | after.looked_up | self.queried
        then = before.comparable(name, self.old, self.renamed, kept, ignored)
        return then == after.comparable(other, self.new, {}, kept, ignored)

    def match_fields(self, name: str, matched: Matched) -> None:
        """Compare two versions of a class that may differ in since() fields only."""
        before, after = text_of(self.old[name]), text_of(self.new[name])
        then, now = _since_fields(before), _since_fields(after)
        if not (then or now) or not _may_gain(after, now.keys() - then.keys()):
            return
        one, other = _without(before, then), _without(after, now)
        of_fields = before.names | after.names
        if not self.is_alike(one, name, other, name, of_fields - one.names - other.names):
            return
        matched.same.add(name)
        matched.gained.extend(f"{name}.{each}" for each in sorted(now.keys() - then.keys()))
        matched.lost.extend(f"{name}.{each}" for each in sorted(then.keys() - now.keys()))
        for each in sorted(then.keys() & now.keys()):
            was = Text(ast.Module([then[each]], []), "", before.labels)
            now_is = Text(ast.Module([now[each]], []), "", after.labels)
            others = (before.names | after.names) - was.names - now_is.names
            if not self.is_alike(was, name, now_is, name, others):
                matched.changed.append(f"{name}.{each}")


def _with_fields(came: set[str], new: Sources) -> set[str]:
    """Return the units that came with a new field, such as the enum of its default.

    They use only each other, Python and marin, so older code cannot know them.
    """
    known = sys.stdlib_module_names | {"marin"}
    alone = {name for name in came if text_of(new[name]).code is not None and own_name(name).isidentifier()}

    def uses_others(name: str) -> bool:
        used = _uses(name, new) - alone
        return any(each in new or each.split(".")[0] not in known for each in used)

    while wrong := {name for name in alone if uses_others(name)}:
        alone -= wrong
    return alone


def _uses(name: str, known: Sources) -> set[str]:
    """Return the targets of a unit's names."""
    text = text_of(known[name])
    found = {target for _, _, target in text.labels}
    for node in ast.walk(text.code or EMPTY):
        if isinstance(node, (ast.Name, ast.Attribute)):
            found.update(
                each for each in (f"{module_of(name)}.{ast.unparse(node)}", ast.unparse(node)) if each in known
            )
    return found - {name}


def as_before(text: str) -> str:
    """Return a unit's text as an older fingerprint may have it, with the same meaning."""
    return _UNSAID.sub("", text)


def said_more(then: str, now: str) -> bool:
    """Return whether an older text differs only in annotations and docstrings that do not count now.

    If the older text has none, its fingerprint left them out.
    """
    (code, said), (code_now, said_now) = _said(then), _said(now)
    return code == code_now and (not said or said_now <= said)


def _said(text: str) -> tuple[list[str], set[str]]:
    """Return the lines of a unit without annotations and docstrings, and the annotations and docstrings."""
    said = {line for line in text.split("\n") if _SAID.match(line) and not LABEL.fullmatch(line[2:])}
    return [line for line in text.split("\n") if line not in said], said


def since_fields(text: str) -> dict[str, str]:
    """Return the since() fields of a class's source, each with its statement."""
    return {name: ast.unparse(node) for name, node in _since_fields(text_of(text)).items()}


def _paired(old: Sources, new: Sources) -> dict[str, str]:
    """Return new name by old name of units that may be the same: moved to another module, or renamed in its module."""
    gone, came = old.keys() - new.keys(), new.keys() - old.keys()

    def by_own_name(name: str, text: Text, _: Sources, names: Set[str]) -> tuple[str, str]:
        return own_name(name), text.written({each: own_name(each) for each in names})

    alike = _alike((gone, old), (came, new), by_own_name)
    moved = _single(alike)
    modules = _modules(moved, new)
    for one, other in alike:
        for name in one:
            there = f"{modules.get(module_of(name), '')}.{own_name(name)}"
            if name not in moved and there in other and there not in moved.values():
                moved[name] = there

    def by_module(name: str, text: Text, known: Sources, names: Set[str]) -> tuple[str, str]:
        today = {**({**modules, **moved} if known is old else {}), **dict.fromkeys(names, "_")}
        module = module_of(name)
        return today.get(module, module), "\n".join(text.comparable(name, known, today)[:2])

    def left(names: Set[str], texts: Sources) -> set[str]:
        rest = names - moved.keys() - set(moved.values())
        return {each for each in rest if own_name(each).isidentifier() and text_of(texts[each]).has_code}

    return moved | _single(_alike((left(gone, old), old), (left(came, new), new), by_module))


def _alike(
    old: tuple[Set[str], Sources],
    new: tuple[Set[str], Sources],
    key_of: Callable[[str, Text, Sources, Set[str]], tuple[str, str]],
) -> list[tuple[list[str], list[str]]]:
    """Return the old and the new units of each key."""
    found: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for number, (names, texts) in enumerate((old, new)):
        for name in sorted(names):
            found.setdefault(key_of(name, text_of(texts[name]), texts, names), ([], []))[number].append(name)
    return list(found.values())


def _harmless(moved: dict[str, str], old: Sources, new: Sources, found: Sequence[Lookups]) -> dict[str, str]:
    """Return the pairs without those that change the meaning of code that did not change.

    Such code may use the old or the new name in its own module, or look a name up while it runs.
    """
    used = {
        f"{module_of(name)}.{word}"
        for name in old.keys() & new.keys()
        if old[name] == new[name]
        for word in text_of(old[name]).words
    }

    def is_harmless(name: str, other: str) -> bool:
        pair = {name, other}
        if not used.isdisjoint(pair):
            return False
        if own_name(name) == own_name(other):
            return True
        if any(_PRIVATE.search(text) for text in (old[name], new[other])):
            return False
        return not any(own_name(each).startswith("__") or one.holds(each) for each in pair for one in found)

    return {name: other for name, other in moved.items() if is_harmless(name, other)}


def _single(alike: Iterable[tuple[list[str], list[str]]]) -> dict[str, str]:
    return {one[0]: other[0] for one, other in alike if len(one) == len(other) == 1}


def _modules(moved: Mapping[str, str], new: Sources) -> dict[str, str]:
    """Return new name by old name of each module whose units all moved to one module."""
    targets: dict[str, set[str]] = {}
    for name, other in moved.items():
        targets.setdefault(module_of(name), set()).add(module_of(other))
    left = {module_of(name) for name in new}
    return {name: min(held) for name, held in targets.items() if len(held) == 1 and name not in left}


def _may_gain(text: Text, gained: set[str]) -> bool:
    """Return whether a class may gain these fields.

    A field between others changes the meaning of positional arguments, unless the class is a step.
    """
    cls = _class(text)
    if cls is None or any(word.arg == "op" for word in cls.keywords):
        return True
    names = list(_fields(text))
    return all(name in gained for name in names[len(names) - len(gained) :])


def _fields(text: Text) -> dict[str, ast.AnnAssign]:
    """Return a class's annotated attributes, by name."""
    cls = _class(text)
    annotated = [node for node in cls.body if isinstance(node, ast.AnnAssign)] if cls is not None else []
    return {node.target.id: node for node in annotated if isinstance(node.target, ast.Name)}


def _since_fields(text: Text) -> dict[str, ast.AnnAssign]:
    leads = {chain: target for scope, chain, target in text.labels if not scope}
    called = {
        name: ast.unparse(node.value.func) for name, node in _fields(text).items() if isinstance(node.value, ast.Call)
    }
    return {name: node for name, node in _fields(text).items() if leads.get(c := called.get(name, ""), c) == _SINCE}


def _without(text: Text, fields: Iterable[str]) -> Text:
    made = Text(copied(text.code or EMPTY), text.rest, text.labels)
    cls, gone = _class(made), [node for name, node in _fields(made).items() if name in fields]
    if cls is not None:
        cls.body = [node for node in cls.body if node not in gone] or [ast.Pass()]
    return made


def _class(text: Text) -> ast.ClassDef | None:
    body = text.code.body if text.code is not None else []
    return body[0] if len(body) == 1 and isinstance(body[0], ast.ClassDef) else None


def named_today(text: str) -> str:
    """Return a unit's name or text from a store with today's names of packages."""
    return _OLD.sub(lambda found: RENAMED[found[0]], text)


def named_before(text: str) -> str:
    """Return a unit's text of today with the old names of packages."""
    return _NEW.sub(lambda found: _BEFORE[found[0]], text)


def path_today(path: str) -> str:
    """Return today's path of a file, relative to its project."""
    return _OLD.sub(lambda found: RENAMED[found[0]].replace(".", "/"), path)
