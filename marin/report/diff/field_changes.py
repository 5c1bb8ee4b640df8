"""Field-level changes between two descriptions of a step, with mixtures as shares."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
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

    def __str__(self) -> str:
        if self.old == NOTHING:
            return f"{self.place}: + {_in_a_line(self.new)}"
        if self.new == NOTHING:
            return f"{self.place}: − {_in_a_line(self.old)}"
        return f"{self.place}: {_in_a_line(self.old)} → {_in_a_line(self.new)}"


@dataclass(frozen=True)
class MixtureChange:
    """Shares by name of the source, before and after; one of them is empty where the mixture is new or gone."""

    place: str
    old: dict[str, float]
    new: dict[str, float]

    def rows(self) -> list[tuple[str, float, float]]:
        """(source, share before, after) of each that changed, the largest change first."""
        names = sorted(self.new.keys() | self.old.keys())
        rows = [(name, self.old.get(name, 0.0), self.new.get(name, 0.0)) for name in names]
        changed = [row for row in rows if row[1] != row[2]]
        return sorted(changed, key=lambda row: (-abs(row[2] - row[1]), -row[1]))


type Change = FieldChange | MixtureChange


def signature(change: Change) -> str:
    """The same for the same change of one value that several steps hold, at whatever place."""
    name = change.place.removesuffix(".weights").rpartition(".")[2]
    return json.dumps([name, change.old, change.new], sort_keys=True)


def compare_fields(old: Mapping[str, Any], new: Mapping[str, Any], names: Mapping[str, str]) -> list[Change]:
    """What changed of a step's fields.

    names: what the new side calls each step of the old, by its identity's first 12 digits. A reference to a step that
    has another identity now, but is the same by these names, is no change of the field.
    """
    before = _without_identities(dict(old), lambda ref: names.get(ref["short"], ref["name"]))
    after = _without_identities(dict(new), lambda ref: ref["name"])
    every = sorted(before.keys() | after.keys())
    return [change for name in every for change in _changes(name, before.get(name, NOTHING), after.get(name, NOTHING))]


def _without_identities(value: Any, name_of: Callable[[re.Match[str]], str]) -> Any:
    if isinstance(value, str):
        reference = REFERENCE.fullmatch(value)
        return value if reference is None else ARROW + name_of(reference)
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return {_without_identities(key, name_of): _without_identities(item, name_of) for key, item in items}
    if isinstance(value, list):
        return [_without_identities(item, name_of) for item in cast(list[Any], value)]
    return value


def _changes(place: str, old: Any, new: Any) -> Iterator[Change]:
    if old == new:
        return
    if _is_mixture(old) and _is_mixture(new):
        yield MixtureChange(place, _shares(old), _shares(new))
    elif isinstance(old, dict) and isinstance(new, dict):
        yield from _of_dicts(place, cast(dict[str, Any], old), cast(dict[str, Any], new))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(place, cast(list[Any], old), cast(list[Any], new))
    else:  # a value became another of another shape; mixtures inside are shown as such all the same
        gone = [MixtureChange(where, shares, {}) for where, shares in _mixtures(place, old)]
        added = [MixtureChange(where, {}, shares) for where, shares in _mixtures(place, new)]
        yield from gone or added or [FieldChange(place, old, new)]


def _of_dicts(place: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
    gone, added = [key for key in old if key not in new], [key for key in new if key not in old]
    # Stages and schedules: what begins at a step. One that begins at another step has moved.
    are_steps = len(gone) == len(added) and all(key.isdigit() for key in [*gone, *added])
    moved = dict(zip(gone, added, strict=True)) if are_steps else {}
    for key, value in old.items():
        after = moved.get(key, key)
        if after != key:
            yield FieldChange(f"{place} from step", int(key), int(after))
        yield from _changes(f"{place}.{after.removeprefix(ARROW)}", value, new.get(after, NOTHING))
    for key in added:
        if key not in moved.values():
            yield from _changes(f"{place}.{key.removeprefix(ARROW)}", NOTHING, new[key])


def _of_lists(place: str, old: list[Any], new: list[Any]) -> Iterator[Change]:
    if len(old) == len(new) and not all(isinstance(item, str) for item in [*old, *new]):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(f"{place}[{number}]", before, after)
        return
    gone, added = [item for item in old if item not in new], [item for item in new if item not in old]
    if len(gone) == len(added) == 1:
        yield FieldChange(place, gone[0], added[0])
    elif gone or added:
        yield from (FieldChange(place, item, NOTHING) for item in gone)
        yield from (FieldChange(place, NOTHING, item) for item in added)
    else:
        yield FieldChange(place, old, new)  # another order, or another number of the same


def _is_mixture(value: Any) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    items = cast(dict[str, Any], value).items()
    return all(key.startswith(ARROW) and isinstance(share, int | float) for key, share in items)


def _shares(mixture: dict[str, float]) -> dict[str, float]:
    """By the name of the source: its label, where that is unique."""
    full = [key.removeprefix(ARROW) for key in mixture]
    labels = [name.split("/", 1)[-1] for name in full]
    return dict(zip(labels if len(set(labels)) == len(labels) else full, mixture.values(), strict=True))


def _mixtures(place: str, value: Any) -> Iterator[tuple[str, dict[str, float]]]:
    if _is_mixture(value):
        yield place, _shares(value)
    elif isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            yield from _mixtures(f"{place}.{key}", item)


def _in_a_line(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.replace(ARROW, "")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
