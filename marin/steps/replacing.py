"""Build new steps from others: replace every step in a value, and put other values into fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from marin.steps.field_types import hint_of
from marin.steps.step import ExecutorStep

# (step or value, its present fields) → the fields to change.
type Adjust = Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]


def replaced(value: Any, made: Mapping[Any, Any], adjust: Adjust | None = None, *, within: bool = False) -> Any:
    """Return the value with every changed step in it replaced, and adjusted. Without changes, return the value itself.

    within: whether the value itself may be a step to replace.
    """
    if within and isinstance(value, ExecutorStep):
        step = cast(Any, value)
        return made.get(step, step)
    if isinstance(value, Mapping):
        items = list(cast(Mapping[Any, Any], value).items())
        new = [
            (replaced(key, made, adjust, within=True), replaced(item, made, adjust, within=True)) for key, item in items
        ]
        same = all(old[0] is now[0] and old[1] is now[1] for old, now in zip(items, new, strict=True))
        return cast(Any, value if same else dict(new))
    kind = type(cast(object, value))
    if kind is tuple or kind is frozenset:
        old = list(cast(Iterable[Any], value))
        now = [replaced(item, made, adjust, within=True) for item in old]
        same = all(one is other for one, other in zip(old, now, strict=True))
        return value if same else tuple(now) if kind is tuple else frozenset(now)
    if dataclasses.is_dataclass(kind):
        fields = {name: getattr(value, name) for name in fields_of(value)}
        new_fields = {name: replaced(item, made, adjust, within=True) for name, item in fields.items()}
        if adjust is not None:
            new_fields |= adjust(value, new_fields)
        changed = {name: item for name, item in new_fields.items() if item is not fields[name]}
        return dataclasses.replace(value, **changed) if changed else value
    return value


def fields_of(holder: object) -> dict[str, Any]:
    """Return the annotation of every field, by name."""
    kind = type(holder)
    return {spec.name: hint_of(kind, spec.name) for spec in dataclasses.fields(cast(Any, holder)) if spec.init}
