"""``--set STEP.FIELD=VALUE``: change fields of an experiment's steps, and rebuild the steps that depend on them."""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from marin.errors import BadField, MarinError
from marin.steps.experiment import Experiment
from marin.steps.field_types import hint_of, write_type
from marin.steps.replacing import Adjust, fields_of, replaced
from marin.steps.step import ExecutorStep


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
            made[step] = new = replaced(step, made, _setting(step, mine))
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
        found = dict[str, Any]()
        for change in changes if holder is step else ():
            name, *rest = change.path
            found[name] = _changed(found.get(name, now[name]), rest, change, hint_of(type(step), name))
        return found

    return adjust


def _parsed(experiment: Experiment, setting: str) -> Change:
    where, equals, typed = setting.partition("=")
    if not equals or "." not in where:
        raise BadField(f"--set {setting}: wanted STEP.FIELD=VALUE, such as mantis.optimizer.peak_lr=1e-4")
    known = [(name, step) for step in experiment.steps() for name in {step.label, step.name} - {""}]
    fitting = [(name, step) for name, step in known if where.startswith(f"{name}.")]
    if not fitting:
        raise BadField(f"--set {setting}: no step has that label{_or_rather(where.partition('.')[0], dict(known))}")
    label = max((name for name, _ in fitting), key=len)  # a label may hold a point itself
    path = tuple(where.removeprefix(f"{label}.").split("."))
    depths = {step: _depth(step, path) for name, step in fitting if name == label}
    steps = [step for step, depth in depths.items() if depth == max(depths.values())]
    if not depths[steps[0]]:
        rather = _or_rather(path[0], {field for step in steps for field in fields_of(step)})
        raise BadField(f"--set {setting}: {steps[0].name} has no field {path[0]!r}{rather}")
    if len(steps) > 1:
        names = ", ".join(step.name for step in steps)
        raise BadField(f"--set {setting}: {names} have that label and field; name one step with its operator")
    return Change(steps[0], path, typed)


def _depth(holder: Any, path: Sequence[str]) -> int:
    """Return how many parts of the path exist."""
    for depth, name in enumerate(path):
        if name not in (parts := _parts(holder)):
            return depth
        holder = parts[name]
    return len(path)


def _parts(holder: Any) -> dict[str, Any]:
    """Return what a value holds, by the names of a path: fields, keys, or places from 0."""
    if isinstance(holder, Mapping):
        return {str(key): item for key, item in cast(Mapping[Any, Any], holder).items()}
    if isinstance(holder, tuple):
        return {str(place): item for place, item in enumerate(cast(tuple[Any, ...], holder))}
    return fields_of(holder) if dataclasses.is_dataclass(holder) and not isinstance(holder, type) else {}


def _changed(holder: Any, path: Sequence[str], change: Change, hint: Any) -> Any:
    """Return ``holder`` with the value below ``path`` replaced."""
    if not path:
        return _read(change, hint)
    name, *rest = path
    parts = _parts(holder)
    if name not in parts:
        raise BadField(f"--set {change.written()}: {_nothing_there(holder, name, parts)}")

    def new(wanted: Any) -> Any:
        return _changed(parts[name], rest, change, wanted)

    if isinstance(holder, Mapping):
        item = new((*typing.get_args(hint), Any, Any)[1])
        return {key: item if str(key) == name else old for key, old in cast(Mapping[Any, Any], holder).items()}
    if isinstance(holder, tuple):
        return tuple((parts | {name: new((*typing.get_args(hint), Any)[0])}).values())
    kind = type(cast(object, holder))
    return dataclasses.replace(holder, **{name: new(hint_of(kind, name))})


def _nothing_there(holder: Any, name: str, parts: Mapping[str, Any]) -> str:
    if isinstance(holder, Mapping):
        return f"nothing at {name!r}; there are: {', '.join(parts)}"
    if isinstance(holder, tuple):
        return f"{name!r} is no place among {len(parts)}, counted from 0"
    if parts:
        return f"{type(holder).__name__} has no field {name!r}{_or_rather(name, parts)}"
    return (
        f"there is no field {name!r}, because the value above it is {holder!r}; set that value itself, as JSON if it "
        "has fields"
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


def _or_rather(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known := sorted(known), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(known)}"
