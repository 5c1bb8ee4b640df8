"""``--set STEP.FIELD=VALUE``: change fields of an experiment's steps, and rebuild the steps that depend on them."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from marin.errors import BadField, MarinError
from marin.steps.experiment import Experiment
from marin.steps.field_types import write_type
from marin.steps.replacing import Adjust, fields_of, replaced
from marin.steps.step import ExecutorStep

NEAR = 3  # names that an error offers


class Change(NamedTuple):
    """One field of one step, the value as it was typed."""

    step: ExecutorStep[Any]
    path: tuple[str, ...]
    typed: str

    def written(self) -> str:
        return f"{self.step.name}.{'.'.join(self.path)}={self.typed}"


def with_changes(experiment: Experiment, settings: Iterable[str]) -> Experiment:
    """Return the experiment with these fields changed. Without settings, return the experiment itself.

    settings: ``STEP.FIELD=VALUE``. STEP is a label, or ``op/label``; FIELD may go on (``optimizer.peak_lr``,
    ``batch.at.0``, ``schedule.rewarmups.0.steps``). VALUE is parsed as the field is annotated: ``1e-4``, ``true``,
    ``none``, an enum's value, JSON for what has fields. Raises BadField naming the nearest step or field, and whatever
    the changed steps raise.
    """
    changes = [_parsed(experiment, setting) for setting in settings]
    if not changes:
        return experiment
    made: dict[ExecutorStep[Any], ExecutorStep[Any]] = {}
    lines: dict[str, tuple[str, ...]] = {}
    for step in experiment.steps():  # dependencies first
        reads = {line: None for each in step.dependencies for line in lines.get(made[each].identity, ())}
        mine = [change for change in changes if change.step == step]
        try:
            made[step] = new = replaced(step, made, _setting(step, mine) if mine else None)
        except MarinError as error:
            if reads and not mine:
                error.add_note(
                    f"  with --set {', '.join(reads)}: values that the file derives from this field do not change; "
                    "edit the file instead"
                )
            raise
        reads |= {change.written(): None for change in mine}
        if reads:
            lines[new.identity] = tuple(reads)
    results = {name: made[step] for name, step in experiment.results.items()}
    return dataclasses.replace(experiment, results=results, changes=lines)


def _setting(step: ExecutorStep[Any], changes: Iterable[Change]) -> Adjust:
    """Apply all changes of a step at once, with its inputs, because the step must be checked with all changes."""

    def adjust(holder: Any, now: Mapping[str, Any]) -> Mapping[str, Any]:
        if holder is not step:
            return {}
        fields, found = fields_of(step), dict[str, Any]()
        for change in changes:
            name, *rest = change.path
            if name not in fields:
                raise _no_field(step, name, fields, change)
            found[name] = _changed(found.get(name, now[name]), tuple(rest), change, fields[name])
        return found

    return adjust


def _no_field(holder: Any, name: str, fields: Iterable[str], change: Change) -> BadField:
    near, kind = difflib.get_close_matches(name, fields, n=NEAR), type(holder).__name__
    return BadField(f"--set {change.written()}: {kind} has no field {name!r}{_or_rather(near, sorted(fields))}")


def _parsed(experiment: Experiment, setting: str) -> Change:
    where, equals, typed = setting.partition("=")
    if not equals or "." not in where:
        raise BadField(f"--set {setting}: wanted STEP.FIELD=VALUE, such as mantis.optimizer.peak_lr=1e-4")
    found: dict[str, list[ExecutorStep[Any]]] = {}
    for step in experiment.steps():
        for name in {step.label, step.name} - {""}:
            found.setdefault(name, []).append(step)
    # A label may hold a point itself: the longest one that fits is meant.
    fitting = [name for name in found if where.startswith(f"{name}.")]
    if not fitting:
        near = difflib.get_close_matches(where.partition(".")[0], found, n=NEAR)
        raise BadField(f"--set {setting}: no step has that label{_or_rather(near, sorted(found))}")
    name = max(fitting, key=len)
    path = tuple(where.removeprefix(f"{name}.").split("."))
    steps = [step for step in found[name] if path[0] in fields_of(step)]
    if not steps:
        fields = sorted({field for step in found[name] for field in fields_of(step)})
        near = difflib.get_close_matches(path[0], fields, n=NEAR)
        raise BadField(f"--set {setting}: {found[name][0].name} has no field {path[0]!r}{_or_rather(near, fields)}")
    deepest = max(_depth(step, path) for step in steps)
    steps = [step for step in steps if _depth(step, path) == deepest]
    if len(steps) > 1:
        names = ", ".join(step.name for step in steps)
        raise BadField(f"--set {setting}: {names} have that label and field; name one step with its operator")
    return Change(steps[0], path, typed)


def _depth(holder: Any, path: tuple[str, ...]) -> int:
    """Return how many parts of the path exist."""
    for depth, name in enumerate(path):
        if isinstance(holder, Mapping):
            holder = {str(key): item for key, item in cast(Mapping[Any, Any], holder).items()}.get(name)
        elif isinstance(holder, tuple):
            items = cast(tuple[Any, ...], holder)
            holder = items[int(name)] if name.isdecimal() and int(name) < len(items) else None
        else:
            holder = getattr(holder, name, None)
        if holder is None:
            return depth
    return len(path)


def _changed(holder: Any, path: tuple[str, ...], change: Change, hint: Any = Any) -> Any:
    """Return ``holder`` with the value below ``path`` replaced."""
    if not path:
        return _read(change, hint)
    name, rest = path[0], path[1:]
    if dataclasses.is_dataclass(holder) and not isinstance(holder, type):
        fields = fields_of(holder)
        if name not in fields:
            raise _no_field(holder, name, fields, change)
        value = _changed(getattr(holder, name), rest, change, fields[name])
        return dataclasses.replace(holder, **{name: value})
    if isinstance(holder, Mapping):
        mapping = cast(Mapping[Any, Any], holder)
        items = {str(key): key for key in mapping}
        if name not in items:
            raise BadField(f"--set {change.written()}: nothing at {name!r}{_or_rather([], list(items))}")
        value = _changed(mapping[items[name]], rest, change, (*typing.get_args(hint), Any, Any)[1])
        return {**mapping, items[name]: value}
    if isinstance(holder, tuple):
        places = cast(tuple[Any, ...], holder)
        if not name.isdecimal() or int(name) >= len(places):
            raise BadField(f"--set {change.written()}: {name!r} is no place among {len(places)}, counted from 0")
        value = _changed(places[int(name)], rest, change, (*typing.get_args(hint), Any)[0])
        return (*places[: int(name)], value, *places[int(name) + 1 :])
    raise BadField(
        f"--set {change.written()}: there is no field {name!r}, because the value above it is {holder!r}; set that "
        "value itself, as JSON if it has fields"
    )


def _read(change: Change, hint: Any) -> Any:
    """Return the typed text as a value of the annotated type. Raises BadField."""
    from pydantic import TypeAdapter, ValidationError

    typed = change.typed
    wanted = write_type(hint)
    if hint is Any or "ExecutorStep" in wanted:
        why = "marin cannot read a value for this field from text, because it may hold a step or any type"
        raise BadField(f"--set {change.written()}: {why}; change the experiment file")
    try:
        reader: TypeAdapter[Any] = TypeAdapter(hint)
        if typed.casefold() in ("none", "null"):
            return reader.validate_python(None)
        return reader.validate_json(typed) if typed[:1] in ("{", "[", '"') else reader.validate_strings(typed)
    except ValidationError as error:
        why = "; ".join(dict.fromkeys(each["msg"] for each in error.errors()))
        raise BadField(f"--set {change.written()}: wanted {wanted}: {why}") from error
    except MarinError:
        raise
    except Exception as error:  # an annotation that pydantic does not support
        raise BadField(f"--set {change.written()}: {wanted} cannot be typed; change the experiment file") from error


def _or_rather(near: list[str], every: list[str]) -> str:
    return f"; did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(every)}"
