"""Pickles of steps for workers, and a check before a run that names the field that cannot be pickled.

Each step is packed once, alone, and unpacked at most once in each worker.

A step holds all its inputs. If every job carried them, a graph of n steps would travel as n pieces of up to n steps
each. A chain of thousands of steps is also deeper than pickle can go.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import pickle
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, cast

from marin.errors import BadField, ExperimentError
from marin.executor.failures import first_line
from marin.executor.job import Job
from marin.steps.step import ExecutorStep


class Parcel(NamedTuple):
    """A pickled step. content: the pickle, with the identity in place of every other step. needs: those identities."""

    content: bytes
    needs: tuple[str, ...]


type Parcels = dict[str, Parcel]  # by identity


def packed(steps: Iterable[ExecutorStep[Any]]) -> Parcels:
    """Pack these steps and all steps that they hold. If equal steps exist, pack the given one."""
    found: Parcels = {}
    pending = list(steps)
    while pending:
        held: list[ExecutorStep[Any]] = []
        for step in pending:
            if step.identity not in found:
                content, inside = _dump_for_workers(step, step)
                found[step.identity] = Parcel(content, tuple(dict.fromkeys(each.identity for each in inside)))
                held += inside
        pending = held
    return found


def addressed(job: Job) -> bytes:
    """Return the pickle of a job, with identities in place of its steps."""
    return _dump(job)[0]


class Unpacked:
    """The steps that a worker has unpacked so far."""

    def __init__(self, parcels: Parcels) -> None:
        self.parcels = parcels
        self.steps: dict[str, ExecutorStep[Any]] = {}

    def job(self, content: bytes) -> Job:
        """Return the job, with its steps, from ``addressed``."""
        return _load(content, self.step)

    def step(self, identity: str) -> ExecutorStep[Any]:
        pending = [identity]
        while pending:
            now = pending[-1]
            missing = [need for need in self.parcels[now].needs if need not in self.steps]
            if missing and now not in self.steps:
                pending += missing
                continue
            if now not in self.steps:
                self.steps[now] = _load(self.parcels[now].content, self.steps.__getitem__)
            pending.pop()
        return self.steps[identity]


def _load(content: bytes, step: Callable[[str], ExecutorStep[Any]]) -> Any:
    """Return what was dumped. step: returns a step by its identity."""
    unpickler = pickle.Unpickler(io.BytesIO(content))
    setattr(unpickler, "persistent_load", step)
    return unpickler.load()


def _dump_for_workers(value: object, step: ExecutorStep[Any]) -> tuple[bytes, list[ExecutorStep[Any]]]:
    """Pickle like ``_dump``, with Ray's own pickle where Python's cannot. Raises the error of Ray's pickle."""
    try:
        content, held = _dump(value, step)
    except Exception:
        content, held = b"__main__", []
    if b"__main__" in content:  # a notebook's classes travel by value, and lambdas may; that takes longer
        from ray.cloudpickle import Pickler

        content, held = _dump(value, step, Pickler)
    return content, held


def _dump(
    value: object, step: ExecutorStep[Any] | None = None, pickler: type[pickle.Pickler] = pickle.Pickler
) -> tuple[bytes, list[ExecutorStep[Any]]]:
    """Pickle a value with identities in place of all steps but ``step``. Return the steps that it holds, too."""
    content = io.BytesIO()
    held: list[ExecutorStep[Any]] = []
    packer = _packer(pickler)(content, pickle.HIGHEST_PROTOCOL)
    packer.step, packer.held = step, held
    packer.dump(value)
    return content.getvalue(), held


@functools.cache
def _packer(pickler: type[pickle.Pickler]) -> Any:
    """Return a pickler that puts identities in place of all steps but its own. It collects these steps in ``held``."""

    class Packer(pickler):
        step: ExecutorStep[Any] | None
        held: list[ExecutorStep[Any]]

        def persistent_id(self, obj: Any) -> str | None:
            if not isinstance(obj, ExecutorStep) or obj is self.step:
                return None
            self.held.append(cast(ExecutorStep[Any], obj))
            return obj.identity

    return Packer


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
            _must_load(*_dump(step, step))
        except Exception as error:
            _explain(step, error)


def _must_load(content: bytes, held: list[ExecutorStep[Any]]) -> None:
    """Raise the error that keeps a pickle from being unpickled. held: the steps that it holds."""
    _load(content, {each.identity: each for each in held}.__getitem__)


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
        _must_load(*_dump_for_workers(held, step))
    except ImportError:
        return "Ray is not installed"
    except Exception as error:
        return first_line(error)
    return None
