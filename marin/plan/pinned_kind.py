"""Whether a pinned output is of the kind that the steps which read it say in their fields."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from marin.errors import BadField
from marin.steps.artifact import KINDS, Artifact
from marin.steps.step import ExecutorStep, identity_fields
from marin.steps.value import encode
from marin.store.record import Record


def check_kinds(steps: Iterable[ExecutorStep[Any]], pinned: Mapping[ExecutorStep[Any], Record]) -> None:
    """pinned: what each pin stands for. Raises BadField naming the field that wants another kind of artifact."""
    if not pinned:
        return
    for reader in steps:
        if pinned.keys().isdisjoint(reader.dependencies):
            continue
        for name, wanted, held in _fields(reader):
            for step in held if wanted else ():
                if step in pinned:
                    _check(reader, name, wanted, step, pinned[step])


def kinds_read(reader: ExecutorStep[Any], pin: ExecutorStep[Any]) -> list[type[Artifact]]:
    """The kinds of artifacts that the fields which hold a pin say; none where they do not."""
    return [kind for _, wanted, held in _fields(reader) if pin in held for kind in wanted]


def _fields(reader: ExecutorStep[Any]) -> Iterator[tuple[str, list[type[Artifact]], list[ExecutorStep[Any]]]]:
    """The name of each, the kinds of artifacts that its annotation names, and the steps that it holds."""
    hints = _hints(type(reader))
    for name, value in identity_fields(reader).items():
        held: list[Any] = []
        encode(value, name, held)
        yield name, _kinds(hints.get(name)), held


def _check(
    reader: ExecutorStep[Any], name: str, wanted: list[type[Artifact]], pin: ExecutorStep[Any], record: Record
) -> None:
    kind = KINDS.get(record.kind)
    if record.kind in [each.kind for each in wanted] if kind is None else issubclass(kind, tuple(wanted)):
        return
    kinds = " or ".join(sorted(each.__name__ for each in wanted))
    raise BadField(
        f"{reader.name}: {type(reader).__name__}.{name} reads {kinds}, but {pin.name} pins {record.attempt}, "
        f"which is of kind {record.kind!r}; pin an output of the kind that is read (`marin ls` prints it)"
    )


def _hints(cls: type[ExecutorStep[Any]]) -> dict[str, Any]:
    """Annotations of the fields; none where they name what exists for the type checker only."""
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError, AttributeError):
        return {}


def _kinds(annotation: object) -> list[type[Artifact]]:
    """The classes of artifacts that an annotation names; none where it takes any."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        if issubclass(annotation, Artifact):
            return [annotation]
        if issubclass(annotation, ExecutorStep):
            return [kind for base in annotation.__mro__ for kind in _of_bases(base)][:1]
        return []
    kinds = [kind for argument in typing.get_args(annotation) for kind in _kinds(argument)]
    return [] if Artifact in kinds else kinds


def _of_bases(cls: type) -> list[type[Artifact]]:
    return [kind for base in getattr(cls, "__orig_bases__", ()) for kind in _kinds(base)]
