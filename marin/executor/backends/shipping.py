"""Check before a run that steps can be sent to workers, and name the field that cannot."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from marin.errors import BadField, ExperimentError
from marin.executor.backends.step_pickles import dump, load
from marin.executor.failures import first_line
from marin.steps.step import ExecutorStep


def must_ship(steps: Iterable[ExecutorStep[Any]]) -> None:
    """Raise BadField naming a field that cannot be sent, or ExperimentError naming a class that no worker can find.

    A step travels with all its inputs, so this checks each input too.
    """
    pending = list(steps)
    with suppress(Exception):
        pickle.loads(pickle.dumps(pending, pickle.HIGHEST_PROTOCOL))
        return  # all at once is ten times faster than one by one, but refuses deep chains and names no field
    seen: set[int] = set()
    while pending:
        step = pending.pop()
        if id(step) in seen:
            continue
        seen.add(id(step))
        pending += [*step.dependencies, *([step.producer] if step.producer is not None else [])]
        try:
            _travel(step, step)
        except Exception as error:
            _explain(step, error)


def _travel(value: object, step: ExecutorStep[Any], pickler: type[pickle.Pickler] = pickle.Pickler) -> None:
    """Pickle and unpickle a value, leaving out other steps. Raises the error that keeps it from travelling."""
    content, held = dump(value, step, pickler)
    load(content, {each.identity: each for each in held}.__getitem__)


def _explain(step: ExecutorStep[Any], error: Exception) -> None:
    """Raise the explanation, unless Ray's own pickle can send the step: a lambda outside the identity, say."""
    cls = type(step)
    where: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        where = getattr(where, part, None)
    if where is not cls:
        raise ExperimentError(
            f"{step.name}: no worker can find its class {cls.__qualname__} in {cls.__module__} by that name. Define it "
            "at the top level of its file"
        ) from error
    fields = (spec.name for spec in dataclasses.fields(step))
    for name in dict.fromkeys([*fields, *vars(step)]):
        wrong = _refusal(vars(step).get(name), step)
        if wrong is not None:
            said = repr(getattr(step, name))
            shown = said if len(said) <= 60 else f"{said[:60]}…"
            raise BadField(
                f"{step.name}: {cls.__name__}.{name} is {shown}, which no worker can be sent "
                f"({wrong}). Make it inside run() from a value that can be sent"
            ) from error


def _refusal(held: object, step: ExecutorStep[Any]) -> str | None:
    """Return why a value cannot be sent; None if it can."""
    try:
        _travel(held, step)
    except Exception:
        try:
            _travel(held, step, importlib.import_module("ray.cloudpickle").Pickler)
        except ImportError:
            return "Ray is not installed"
        except Exception as error:
            return first_line(error)
    return None
