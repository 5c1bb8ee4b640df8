"""Pickles of steps for workers. Each step is packed once, alone, and unpacked at most once in each worker.

A step holds all its inputs. If every job carried them, a graph of n steps would travel as n pieces of up to n steps
each. A chain of thousands of steps is also deeper than pickle can go.
"""

# pyright: basic

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

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
                found[step.identity], inside = _pack(step)
                held += inside
        pending = held
    return found


def addressed(job: Job) -> bytes:
    """Return the pickle of a job, with identities in place of its steps."""
    return dump(job)[0]


class Unpacked:
    """The steps that a worker has unpacked so far."""

    def __init__(self, parcels: Parcels) -> None:
        self.parcels = parcels
        self.steps: dict[str, ExecutorStep[Any]] = {}

    def job(self, content: bytes) -> Job:
        """Return the job, with its steps, from ``addressed``."""
        return load(content, self.step)

    def step(self, identity: str) -> ExecutorStep[Any]:
        pending = [identity]
        while pending:
            now = pending[-1]
            missing = [need for need in self.parcels[now].needs if need not in self.steps]
            if missing and now not in self.steps:
                pending += missing
                continue
            if now not in self.steps:
                self.steps[now] = load(self.parcels[now].content, self.steps.__getitem__)
            pending.pop()
        return self.steps[identity]


def load(content: bytes, step: Callable[[str], ExecutorStep[Any]]) -> Any:
    """Return what was dumped. step: returns a step by its identity."""
    unpickler = pickle.Unpickler(io.BytesIO(content))
    setattr(unpickler, "persistent_load", step)
    return unpickler.load()


def _pack(step: ExecutorStep[Any]) -> tuple[Parcel, list[ExecutorStep[Any]]]:
    try:
        content, held = dump(step, step)
    except Exception:
        content, held = b"__main__", []
    if b"__main__" in content:  # a notebook's classes travel by value, and lambdas may; that takes longer
        from ray.cloudpickle import Pickler

        content, held = dump(step, step, Pickler)
    return Parcel(content, tuple(dict.fromkeys(each.identity for each in held))), held


def dump(
    value: object, step: ExecutorStep[Any] | None = None, pickler: type[pickle.Pickler] = pickle.Pickler
) -> tuple[bytes, list[ExecutorStep[Any]]]:
    """Pickle a value with identities in place of all steps but ``step``. Return the steps that it holds, too."""
    content = io.BytesIO()
    packer = _packer(pickler)(content, pickle.HIGHEST_PROTOCOL)
    packer.step, packer.held = step, []
    packer.dump(value)
    return content.getvalue(), packer.held


@functools.cache
def _packer(pickler: type[pickle.Pickler]) -> Any:
    """Return a pickler that puts identities in place of all steps but its own. It collects these steps in ``held``."""

    class Packer(pickler):
        step: ExecutorStep[Any] | None
        held: list[ExecutorStep[Any]]

        def persistent_id(self, obj: Any) -> str | None:
            if not isinstance(obj, ExecutorStep) or obj is self.step:
                return None
            self.held.append(obj)
            return obj.identity

    return Packer
