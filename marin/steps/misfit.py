"""A value that does not fit its field's type, and what to write instead."""

from __future__ import annotations

import dataclasses
import difflib
import reprlib
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

_SHOWN = reprlib.Repr(maxlevel=3, maxtuple=4, maxset=4, maxdict=4, maxstring=60, maxother=60, maxlong=40)
_BY_STEP = "Mapping[int, "  # the annotation of values that hold from a training step on: Stages({0: …})
MEMBERS = 6  # of an enum that an error lists


@dataclass(slots=True)
class Misfit:
    found: object
    wanted: str
    remedy: Callable[[], str] = str  # called when the error is written; "" if there is nothing to add
    place: str = ""  # from the field to the value, e.g. ``.at[0]``

    def within(self, place: str) -> Misfit:
        self.place = place + self.place
        return self

    def describe(self, field: str) -> str:
        remedy = self.remedy()
        return f"{field}{self.place} is {show(self.found)}; wanted {self.wanted}{'; ' if remedy else ''}{remedy}"


def show(value: object) -> str:
    """Return a value and its class as a short text."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    try:
        return f"{_SHOWN.repr(value)} ({type(value).__name__})"
    except Exception:  # somebody's __repr__; the class is what matters
        return f"a {type(value).__name__}"


def no_such_field(cls: type, unknown: str, known: Collection[str]) -> str:
    """Return the text of an error about a field that a class does not have."""
    near = difflib.get_close_matches(unknown, known, n=1) or [name for name in known if unknown in name.split("_")]
    hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(sorted(known))}"
    return f"{cls.__name__} has no field {unknown!r}; {hint}"


def choose_member(cls: type, value: object) -> str:
    """Return the member of an enum that a string or a number stands for; "" if the class is no enum."""
    if not issubclass(cls, Enum):
        return ""
    names = [f"{cls.__name__}.{name}" for name in cls.__members__]
    for name, member in zip(names, cls.__members__.values(), strict=True):
        with suppress(Exception):  # arrays have no truth
            if type(member.value) is type(value) and member.value == value:
                return f"write {name}"
    if isinstance(value, str):
        known = {name.upper(): f"{cls.__name__}.{name}" for name in cls.__members__}
        if near := difflib.get_close_matches(value.upper(), known, n=1):
            return f"did you mean {known[near[0]]}?"
    return f"one of {', '.join(names[:MEMBERS])}{' …' if len(names) > MEMBERS else ''}" if names else ""


def make_one(cls: type, value: object) -> str:
    """Return the way to write an instance of a dataclass instead of this value."""
    if isinstance(value, type) and issubclass(value, cls):
        return f"did you mean {value.__name__}(…)?"
    if not dataclasses.is_dataclass(cls):
        return ""
    specs = [spec for spec in dataclasses.fields(cls) if spec.init]
    if specs and all(not spec.kw_only and str(spec.type).startswith(_BY_STEP) for spec in specs):
        return f"write {cls.__name__}({{0: …}})"
    return f"write {cls.__name__}({', '.join(f'{name}=…' for name in needed_fields(cls)) or '…'})"


def needed_fields(cls: type[Any]) -> list[str]:
    """Return the fields of a dataclass that have no default."""
    missing, specs = dataclasses.MISSING, dataclasses.fields(cls)
    return [s.name for s in specs if s.init and s.default is missing and s.default_factory is missing]


def give_step(kinds: Iterable[type], root: type, value: object) -> str:
    """Return the text to write instead of this value, if a step is wanted.

    kinds: classes of steps that fit, for an example. root: the base class of all steps.
    """
    if isinstance(value, type):
        return f"did you mean {value.__name__}(…)?" if issubclass(value, root) else ""
    example = next((kind.__name__ for kind in kinds), "")
    if isinstance(value, str):
        return f"pass the step itself{f', such as {example}(…)' if example else ''}, not its name"
    for owner in type(value).__mro__:
        for name, held in vars(owner).items():
            with suppress(Exception):  # somebody's property; there is nothing to offer then
                if isinstance(held, property) and not name.startswith("_") and isinstance(getattr(value, name), root):
                    return f"did you mean its .{name}?"
    return f"pass a step{f', such as {example}(…)' if example else ''}"


def make_tuple(value: object, item: Callable[[Any], Misfit | None] | None) -> str:
    if isinstance(value, list):
        return "a list can change after construction; write a tuple"
    if item is not None and item(value) is None:
        return "write a tuple, even of one: (it,)"
    return ""


def to_number(cls: type, value: object) -> str:
    """Return the number that a similar value stands for."""
    if isinstance(value, bool):
        return f"write {cls(value)}"
    with suppress(Exception):  # no number by any reading
        number = cls(cast(Any, value))
        if isinstance(value, str) or number == value:
            return f"write {number!r}"
    return ""
