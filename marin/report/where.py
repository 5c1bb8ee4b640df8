"""Conditions on the entries of an output: ``source=web``, ``metadata.score>0.5``, ``text~colou?r``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from marin.errors import BadField
from marin.report.contents import Contents, Entry

_CONDITION = re.compile(r"([^=!<>~]+?)\s*(!=|<=|>=|=|<|>|~)\s*(.*)", re.DOTALL)
_MISSING = object()
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """field: a name, or names with dots between them; of a document's metadata also without that. how: of =, !=, <,
    <=, >, >=, ~ (a regular expression that is found somewhere)."""

    field: str
    how: str
    wanted: str

    def fits(self, data: Any) -> bool:
        held = self.value(data)
        if held is _MISSING or held is None:
            return self.how == "!="
        if self.how == "~":
            return re.search(self.wanted, written(held)) is not None
        if self.how in _ORDER:
            compare = _ORDER[self.how]
            try:
                return compare(float(held), float(self.wanted))
            except (TypeError, ValueError):  # text against text
                return isinstance(held, str) and compare(held, self.wanted)
        return (written(held) == self.wanted or _equal_numbers(held, self.wanted)) is (self.how == "=")

    def value(self, data: Any) -> Any:
        """Of an entry; _MISSING where it has no such field."""
        found = _look_up(data, self.field)
        return _look_up(data, f"metadata.{self.field}") if found is _MISSING else found


def parse_condition(text: str) -> Condition:
    """Raises BadField for what is no condition."""
    parsed = _CONDITION.fullmatch(text)
    if parsed is None:
        raise BadField(f"{text!r} is no condition; wanted FIELD=VALUE, or !=, <, <=, >, >=, ~ in place of =")
    field, how, wanted = parsed.groups()
    if how == "~":
        try:
            re.compile(wanted)
        except re.error as error:
            raise BadField(f"{text!r}: {wanted!r} is no regular expression: {error}") from error
    return Condition(field.strip(), how, wanted)


def only(found: Contents, conditions: Sequence[Condition]) -> Contents:
    """The entries that fit all conditions. Reading to the end raises BadField for a field that no entry has."""

    def read(first: int) -> Iterator[Entry]:
        unseen, names = {each.field: each for each in conditions}, dict[str, None]()
        for entry in found.read(first):
            for each in [each for each in unseen.values() if each.value(entry.data) is not _MISSING]:
                del unseen[each.field]
            if unseen:
                names |= dict.fromkeys(_names(entry.data))
            if all(each.fits(entry.data) for each in conditions):
                yield entry
        if unseen and names:
            raise BadField(f"no entry has the field {next(iter(unseen))!r}; there are {', '.join(names)}")

    return Contents(found.form, None, read) if conditions else found


def written(held: Any) -> str:
    """As a person would type it."""
    return str(held).lower() if isinstance(held, bool) else str(held)


def _equal_numbers(held: Any, wanted: str) -> bool:
    try:
        return not isinstance(held, bool) and isinstance(held, int | float) and float(held) == float(wanted)
    except ValueError:
        return False


def _look_up(data: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(data, dict) or part not in data:
            return _MISSING
        data = cast("dict[str, Any]", data)[part]
    return data


def _names(data: Any, before: str = "") -> Iterator[str]:
    if not isinstance(data, dict):
        return
    for name, held in cast("dict[str, Any]", data).items():
        if isinstance(held, dict) and held:
            yield from _names(held, f"{before}{name}.")
        else:
            yield f"{before}{name}"
