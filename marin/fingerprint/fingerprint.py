"""The code fingerprint of a step: compare two fingerprints, and keep them in a store to show differences later."""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from msgspec import Struct

from marin.errors import CorruptRecord
from marin.fingerprint.moved import as_before, match, named_today, said_more, since_fields
from marin.fingerprint.unit_text import module_of
from marin.steps.value import digest
from marin.store.documents import BadDocument, Document, parse_json
from marin.store.layout import code_name
from marin.store.redaction import without_credentials
from marin.store.store import Store

FORMAT = 2


@dataclass(frozen=True)
class CodeFingerprint:
    """The code that built an output.

    units: digest by qualified name ("operators.tokenize.Tokenize"). packages: version by
    distribution, and "python". opaque: code that analysis cannot see through, each with its file and
    line. sources: normalised text by qualified name, for showing a difference later.
    loaded: imported modules of the project. environment: names of the variables that the code reads, see
    ``marin.fingerprint.source.unit_source``. readers: packages that open files without Python.
    format: the rules for finding units; today's are FORMAT. Format 1 counted annotations and docstrings of all units
    if some package reads annotations. It also counted every definition that was passed to something.
    counted_before: the units that would count today by these older rules.
    Two fingerprints are equal if their units and packages are equal.
    """

    units: Mapping[str, str]
    packages: Mapping[str, str]
    opaque: tuple[str, ...] = field(default=(), compare=False)
    sources: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)
    loaded: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    environment: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    readers: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    format: int = field(default=FORMAT, compare=False, repr=False)
    counted_before: Callable[[], Set[str]] = field(default=frozenset[str], compare=False, repr=False)

    @functools.cached_property
    def digest(self) -> str:
        """Return 64 hex digits of the units alone, because marin judges package drift separately."""
        return digest("\n".join(f"{name} {self.units[name]}" for name in sorted(self.units)).encode())

    @functools.cached_property
    def changes_since(self) -> dict[str, tuple[Change, ...]]:
        """Return a cache of the changes since older fingerprints, by their digests: see marin.plan.drift."""
        return {}

    def to_json(self, *, sources: bool = False) -> dict[str, Any]:
        """Return JSON data. sources: with the source texts (about 40 bytes for every line of code)."""
        made: dict[str, Any] = {
            "units": dict(self.units),
            "packages": dict(self.packages),
            "opaque": list(self.opaque),
            "format": self.format,
        }
        return made | {"sources": dict(self.sources)} if sources else made

    @classmethod
    def from_json(cls, data: object) -> CodeFingerprint:
        """Return the fingerprint that ``to_json`` wrote. Raises CorruptRecord naming the part that is wrong."""
        try:
            stored = _StoredCode.from_plain(data)
        except BadDocument as error:
            raise CorruptRecord(f"this {type(data).__name__} is no code fingerprint: {error}") from error
        units = {named_today(name): unit for name, unit in stored.units.items()}
        sources = {named_today(name): named_today(text) for name, text in stored.sources.items()}
        return cls(units, stored.packages, stored.opaque, sources, format=stored.format)


class _StoredCode(Document, frozen=True, kw_only=True):
    units: dict[str, str]
    packages: dict[str, str]
    opaque: tuple[str, ...] = ()
    format: int = 1
    sources: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Change(Struct, frozen=True):
    """One difference. old, new: digests of a unit or versions of a package; "" where there is none.

    moved: a unit that was called old is the same under another name. gained: a since() field that a class has now.
    Neither changes an output.
    """

    kind: Literal["changed", "added", "removed", "package", "moved", "gained"]
    name: str
    old: str
    new: str


HARMLESS = ("moved", "gained")  # kinds of change that change no output


def compare(old: CodeFingerprint, new: CodeFingerprint) -> tuple[Change, ...]:
    """Return every difference: changed units, then added, removed, moved, then packages, each by name."""
    texts = [{name: side.sources.get(name, f"# {unit}") for name, unit in side.units.items()} for side in (old, new)]
    for name, unit in new.units.items():
        then, now = texts[0].get(name), as_before(texts[1][name])
        if (
            old.units.get(name) == unit
            or then == now
            or (then and old.format < FORMAT and said_more(as_before(then), now))
        ):
            texts[0][name] = texts[1][name]
    gone, came = old.units.keys() - new.units.keys(), new.units.keys() - old.units.keys()
    if all(texts[0][name] == as_before(texts[0][name]) for name in gone):  # they may have moved since
        texts[1] |= {name: as_before(texts[1][name]) for name in came}
    matched = match(*texts)
    changes: list[Change] = []
    for name in sorted((old.units.keys() & new.units.keys()) - matched.same):
        if old.units[name] != new.units[name] and texts[0][name] != texts[1][name]:
            changes.append(Change("changed", name, old.units[name], new.units[name]))
    changes += [_of_field("changed", name, texts) for name in matched.changed]
    arrived = new.units.keys() - old.units.keys() - {*matched.moved.values(), *matched.gained}
    changes += [Change("added", name, "", new.units[name]) for name in sorted(arrived)]
    left = old.units.keys() - new.units.keys() - matched.moved.keys()
    changes += [Change("removed", name, old.units[name], "") for name in sorted(left)]
    changes += [_of_field("removed", name, texts) for name in matched.lost]
    changes += [Change("moved", new_name, name, new_name) for name, new_name in sorted(matched.moved.items())]
    changes += [_of_field("gained", name, texts) for name in matched.gained]
    for name in sorted(old.packages.keys() | new.packages.keys()):
        before, after = old.packages.get(name, ""), new.packages.get(name, "")
        if before != after:
            changes.append(Change("package", name, before, after))
    return tuple(changes)


def _of_field(kind: Literal["changed", "removed", "gained"], name: str, texts: list[dict[str, str]]) -> Change:
    old, new = (_source(name, side) for side in texts)
    return Change(kind, name, digest(old.encode()) if old else "", digest(new.encode()) if new else "")


def _source(name: str, sources: Mapping[str, str]) -> str:
    """Return the source of a unit, or of a since() field named ``Class.field``."""
    if name in sources:
        return sources[name]
    owner, _, field_name = name.rpartition(".")
    return since_fields(sources[owner]).get(field_name, "") if owner in sources else ""


def source_diff(change: Change, old_sources: Mapping[str, str], new_sources: Mapping[str, str]) -> str:
    """Return a unified diff of a unit's normalised source; one line for a package and for a unit that moved."""
    if change.kind == "package":
        return f"{change.name}: {change.old or 'not used'} → {change.new or 'not used'}"
    if change.kind == "moved":
        how = "renamed" if module_of(change.old) == module_of(change.name) else "moved"
        return f"{change.old} → {change.name}: {how}, the code is the same"
    before = _source(change.name, old_sources).splitlines()
    after = _source(change.name, new_sources).splitlines()
    lines = difflib.unified_diff(before, after, f"{change.name} (then)", f"{change.name} (now)", lineterm="")
    return "\n".join(lines)


def stored_code(store: Store, digest: str) -> CodeFingerprint | None:
    """Return a stored fingerprint with its sources; None if it was never stored. Raises CorruptRecord."""
    name = code_name(digest)
    content = store.objects.read(name)
    try:
        return CodeFingerprint.from_json(parse_json(content)) if content else None
    except (BadDocument, CorruptRecord) as error:
        where = f"{store.prefix}/{name}"
        raise CorruptRecord(f"{where} is not readable; delete it: only the old source is lost ({error})") from error


def store_code(store: Store, digest: str, described: dict[str, Any]) -> None:
    """Write a fingerprint to the store unless it is there. described: the result of ``CodeFingerprint.to_json``."""
    name = code_name(digest)
    if not store.objects.read(name):
        store.objects.write(name, json.dumps(without_credentials(described), sort_keys=True).encode())
