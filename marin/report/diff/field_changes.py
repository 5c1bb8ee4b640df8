"""Field-level changes between two descriptions of a step, with mixtures as shares."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

REFERENCE = re.compile(r"(?P<name>.*)#(?P<short>[0-9a-f]{12})")
ARROW = "→ "  # begins a reference once its identity is out of the way
NOTHING = "(not there)"
LONGEST = 60  # letters of a value in a line


@dataclass(frozen=True)
class FieldChange:
    """place: dotted. old, new: JSON-able; NOTHING where there is no value."""

    place: str
    old: Any
    new: Any

    @property
    def tail(self) -> str:
        """The same change in steps that hold one value at different places has one tail."""
        return self.place.rpartition(".")[2]


@dataclass(frozen=True)
class MixtureChange:
    """Shares by name of the source, before and after; one of them is empty where the mixture is new or gone."""

    place: str
    old: dict[str, float]
    new: dict[str, float]

    @property
    def tail(self) -> str:
        return self.place.removesuffix(".weights").rpartition(".")[2]

    def rows(self) -> list[tuple[str, float, float]]:
        """(source, share before, after) of each that changed, the largest change first."""
        names = sorted(self.new.keys() | self.old.keys())
        rows = [(name, self.old.get(name, 0.0), self.new.get(name, 0.0)) for name in names]
        changed = [row for row in rows if row[1] != row[2]]
        return sorted(changed, key=lambda row: (-abs(row[2] - row[1]), -row[1]))


def compare_fields(
    old: Mapping[str, Any], new: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[list[MixtureChange], list[FieldChange], bool]:
    """(mixtures that changed, other fields that changed, does it read other identities).

    names: what the new side calls each step of the old, by its identity's first 12 digits. A reference to a step that
    has another identity now, but is the same by these names, is no change of the field.
    """
    found = _Found()
    before = {
        name: _without_identities(held, lambda ref: names.get(ref["short"], ref["name"])) for name, held in old.items()
    }
    after = {name: _without_identities(held, lambda ref: ref["name"]) for name, held in new.items()}
    for name in sorted(before.keys() | after.keys()):
        found.compare(name, before.get(name, NOTHING), after.get(name, NOTHING))
    return found.mixtures, found.changes, before != old or after != new


def _without_identities(held: Any, name_of: Callable[[re.Match[str]], str]) -> Any:
    if isinstance(held, str):
        reference = REFERENCE.fullmatch(held)
        return held if reference is None else ARROW + name_of(reference)
    if isinstance(held, dict):
        items = cast(dict[str, Any], held).items()
        return {_without_identities(key, name_of): _without_identities(item, name_of) for key, item in items}
    if isinstance(held, list):
        return [_without_identities(item, name_of) for item in cast(list[Any], held)]
    return held


class _Found:
    def __init__(self) -> None:
        self.mixtures: list[MixtureChange] = []
        self.changes: list[FieldChange] = []

    def compare(self, place: str, old: Any, new: Any) -> None:
        if old == new:
            return
        if _is_mixture(old) and _is_mixture(new):
            self.mixtures.append(MixtureChange(place, _shares(old), _shares(new)))
        elif isinstance(old, dict) and isinstance(new, dict):
            self._dicts(place, cast(dict[str, Any], old), cast(dict[str, Any], new))
        elif isinstance(old, list) and isinstance(new, list):
            self._lists(place, cast(list[Any], old), cast(list[Any], new))
        else:
            self._one_sided(place, old, new)

    def _dicts(self, place: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        gone, added = [key for key in old if key not in new], [key for key in new if key not in old]
        # Stages and schedules: what begins at a step. One that begins at another step has moved.
        moved = dict(zip(gone, added, strict=False)) if len(gone) == len(added) and _are_steps([*gone, *added]) else {}
        for key in old:
            if key in moved:
                self.changes.append(FieldChange(f"{place} from step", int(key), int(moved[key])))
            after = moved.get(key, key)
            self.compare(f"{place}.{after.removeprefix(ARROW)}", old[key], new.get(after, NOTHING))
        for key in added:
            if key not in moved.values():
                self.compare(f"{place}.{key.removeprefix(ARROW)}", NOTHING, new[key])

    def _lists(self, place: str, old: list[Any], new: list[Any]) -> None:
        if len(old) == len(new) and not all(isinstance(item, str) for item in [*old, *new]):
            for number, (before, after) in enumerate(zip(old, new, strict=True)):
                self.compare(f"{place}[{number}]", before, after)
            return
        gone, added = [item for item in old if item not in new], [item for item in new if item not in old]
        if len(gone) == len(added) == 1:
            self.changes.append(FieldChange(place, gone[0], added[0]))
        elif gone or added:
            self.changes += [FieldChange(place, item, NOTHING) for item in gone]
            self.changes += [FieldChange(place, NOTHING, item) for item in added]
        else:
            self.changes.append(FieldChange(place, old, new))  # another order, or another number of the same

    def _one_sided(self, place: str, old: Any, new: Any) -> None:
        """A value became another of another shape; mixtures inside are shown as such all the same."""
        for side, held in (("old", old), ("new", new)):
            if isinstance(held, dict) and (inside := _mixtures(place, cast(dict[str, Any], held))):
                for where, shares in inside.items():
                    self.mixtures.append(
                        MixtureChange(where, shares, {}) if side == "old" else MixtureChange(where, {}, shares)
                    )
                return
        self.changes.append(FieldChange(place, old, new))


def _is_mixture(held: Any) -> bool:
    if not isinstance(held, dict) or not held:
        return False
    items = cast(dict[str, Any], held).items()
    return all(key.startswith(ARROW) and isinstance(share, int | float) for key, share in items)


def _shares(held: dict[str, float]) -> dict[str, float]:
    """By the name of the source: its label, where that is unique."""
    labels = [key.removeprefix(ARROW).split("/", 1)[-1] for key in held]
    full = [key.removeprefix(ARROW) for key in held]
    return dict(zip(labels if len(set(labels)) == len(labels) else full, held.values(), strict=True))


def _mixtures(place: str, held: dict[str, Any]) -> dict[str, dict[str, float]]:
    if _is_mixture(held):
        return {place: _shares(held)}
    found: dict[str, dict[str, float]] = {}
    for key, item in held.items():
        if isinstance(item, dict):
            found |= _mixtures(f"{place}.{key}", cast(dict[str, Any], item))
    return found


def _are_steps(keys: list[str]) -> bool:
    return bool(keys) and all(key.isdigit() for key in keys)


def written(held: Any) -> str:
    """A value in a line."""
    text = held if isinstance(held, str) else json.dumps(held, ensure_ascii=False)
    text = text.replace(ARROW, "")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
