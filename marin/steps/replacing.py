"""Build new steps from others: replace every step in a value, and put other values into fields."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from marin.steps.step import ExecutorStep

# (step or value, its present fields) → the fields to change.
type Adjust = Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]


def replaced(holder: Any, made: Mapping[Any, Any], adjust: Adjust | None = None) -> Any:
    """Return a step or value with every changed step in it replaced, and adjusted. Without changes, return itself."""
    old = fields_of(holder)
    new = {name: _replaced_in(item, made, adjust) for name, item in old.items()}
    if adjust is not None:
        new |= adjust(holder, new)
    changed = {name: item for name, item in new.items() if item is not old[name]}
    return dataclasses.replace(holder, **changed) if changed else holder


def _replaced_in(value: Any, made: Mapping[Any, Any], adjust: Adjust | None) -> Any:
    if isinstance(value, ExecutorStep):
        step = cast(Any, value)
        return made.get(step, step)
    if isinstance(value, Mapping):
        old = tuple(cast(Mapping[Any, Any], value).items())
        new = _replaced_in(old, made, adjust)
        return cast(Any, value) if new is old else dict(new)
    kind = type(cast(object, value))
    if kind is tuple or kind is frozenset:
        items = list(cast(Iterable[Any], value))
        now = [_replaced_in(item, made, adjust) for item in items]
        return cast(Any, value if all(map(operator.is_, items, now)) else kind(now))
    return replaced(value, made, adjust) if dataclasses.is_dataclass(kind) else value


def fields_of(holder: Any) -> dict[str, Any]:
    """Return the values of the fields that a constructor takes, by name."""
    return {spec.name: getattr(holder, spec.name) for spec in dataclasses.fields(holder) if spec.init}
