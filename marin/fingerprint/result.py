"""What code_fingerprint gives back, and how two of them differ."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from marin.errors import CorruptRecord
from marin.value import digest


@dataclass(frozen=True)
class CodeFingerprint:
    """What code built an output.

    units: digest by qualified name ("operators.tokenize.Tokenize"). packages: version by
    distribution, and "python". opaque: code that analysis cannot see through, each with its file and
    line. sources: normalised text by qualified name, for showing a difference later.
    loaded: modules of the project that are imported. environment: names of variables that are asked for, see
    ``marin.fingerprint.environment``. readers: packages that open files without Python.
    Only units and packages make two fingerprints equal.
    """

    units: Mapping[str, str]
    packages: Mapping[str, str]
    opaque: tuple[str, ...] = field(default=(), compare=False)
    sources: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)
    loaded: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    environment: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    readers: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @functools.cached_property
    def digest(self) -> str:
        """64 hex digits, of the units alone: package drift is judged apart."""
        return digest("\n".join(f"{name} {self.units[name]}" for name in sorted(self.units)).encode())

    def to_json(self, *, sources: bool = False) -> dict[str, Any]:
        """JSON-able. sources: the texts too (about 40 bytes for every line of code)."""
        made: dict[str, Any] = {
            "units": dict(self.units),
            "packages": dict(self.packages),
            "opaque": list(self.opaque),
        }
        return made | {"sources": dict(self.sources)} if sources else made

    @classmethod
    def from_json(cls, data: object) -> CodeFingerprint:
        """Raises CorruptRecord naming the part that is not what to_json makes."""
        if not isinstance(data, dict):
            raise CorruptRecord(f"a code fingerprint is a JSON object, found {type(data).__name__}")
        parts = cast(dict[str, object], data)
        opaque = parts.get("opaque", [])
        if not isinstance(opaque, list) or not all(isinstance(note, str) for note in cast(list[object], opaque)):
            raise CorruptRecord(f"a code fingerprint's 'opaque' is a list of strings, found {opaque!r:.80}")
        return cls(
            units=_strings(parts, "units", needed=True),
            packages=_strings(parts, "packages", needed=True),
            opaque=tuple(cast(list[str], opaque)),
            sources=_strings(parts, "sources", needed=False),
        )


def _strings(parts: Mapping[str, object], name: str, *, needed: bool) -> dict[str, str]:
    held = parts.get(name, None if needed else {})
    if isinstance(held, dict):
        pairs = cast(dict[object, object], held)
        if all(isinstance(key, str) and isinstance(item, str) for key, item in pairs.items()):
            return cast(dict[str, str], pairs)
    raise CorruptRecord(f"a code fingerprint's {name!r} maps strings to strings, found {held!r:.80}")


@dataclass(frozen=True)
class Change:
    """One difference. old, new: digests of a unit or versions of a package; "" where there is none."""

    kind: Literal["changed", "added", "removed", "package"]
    name: str
    old: str
    new: str


def compare(old: CodeFingerprint, new: CodeFingerprint) -> tuple[Change, ...]:
    """Every difference: changed units, then added, removed, then packages, each by name."""
    changes: list[Change] = []
    for name in sorted(old.units.keys() & new.units.keys()):
        if old.units[name] != new.units[name]:
            changes.append(Change("changed", name, old.units[name], new.units[name]))
    changes += [Change("added", name, "", new.units[name]) for name in sorted(new.units.keys() - old.units.keys())]
    changes += [Change("removed", name, old.units[name], "") for name in sorted(old.units.keys() - new.units.keys())]
    for name in sorted(old.packages.keys() | new.packages.keys()):
        before, after = old.packages.get(name, ""), new.packages.get(name, "")
        if before != after:
            changes.append(Change("package", name, before, after))
    return tuple(changes)


def source_diff(change: Change, old_sources: Mapping[str, str], new_sources: Mapping[str, str]) -> str:
    """Unified diff of a unit's normalised source; one line for a package."""
    if change.kind == "package":
        return f"{change.name}: {change.old or 'not used'} → {change.new or 'not used'}"
    before = old_sources.get(change.name, "").splitlines()
    after = new_sources.get(change.name, "").splitlines()
    lines = difflib.unified_diff(before, after, f"{change.name} (then)", f"{change.name} (now)", lineterm="")
    return "\n".join(lines)
