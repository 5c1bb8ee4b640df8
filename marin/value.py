"""Canonical encoding: how a field's value enters an identity.

Every kind of value has its own tag and every variable-length part its length, so no two different
values encode alike: ``1``, ``1.0``, ``True`` and ``"1"`` differ, ``0.0`` and ``-0.0`` differ,
``""`` and ``None`` differ, a tuple and a frozenset of the same items differ. Dict and set order
does not matter. What has no stable encoding (functions, lists, open files, arrays) is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Protocol, cast, dataclass_transform, runtime_checkable

from marin.errors import UnencodableValue

SINCE = "marin.since"
EXECUTION = "marin.execution"
TAG_ATTRIBUTE = "__marin_tag__"


@runtime_checkable
class Identified(Protocol):
    """Whatever brings its own identity: an ExecutorStep."""

    @property
    def identity(self) -> str: ...


class FrozenDict(dict[Any, Any]):
    """A dict that refuses to change: what a step's mapping field becomes on construction."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("a mapping inside a step is frozen; build a new step with dataclasses.replace")

    __setitem__ = __delitem__ = clear = pop = popitem = __ior__ = _refuse
    setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def since(version: int, *, default: Any) -> Any:
    """A field added at operator version ``version``; its default means "as before".

    While the field holds its default it is left out of the identity, so outputs that were
    made before the field existed keep theirs.
    """
    return dataclasses.field(default=default, metadata={SINCE: version})


def execution(*, default: Any) -> Any:
    """A field that says where or how fast a step runs, never what it makes: not part of identity."""
    return dataclasses.field(default=default, metadata={EXECUTION: True})


class _ValueDecorator(Protocol):
    def __call__[T](self, cls: type[T]) -> type[T]: ...


@dataclass_transform(frozen_default=True, kw_only_default=False, field_specifiers=(dataclasses.field, since, execution))
def value(tag: str) -> _ValueDecorator:
    """Class decorator: a frozen dataclass (or Enum) that may be a field of a step.

    ``tag`` names the class in identities, so that renaming or moving the class changes nothing.
    An Enum also declares ``_value_: str``; without it pyright takes its members for fields.
    """

    def decorate[T](cls: type[T]) -> type[T]:
        made = cls if issubclass(cls, Enum) else _frozen(cls)
        setattr(made, TAG_ATTRIBUTE, tag)
        return made

    return cast(_ValueDecorator, decorate)


def _frozen[T](cls: type[T]) -> type[T]:
    own_post_init = cls.__dict__.get("__post_init__")

    def __post_init__(self: Any) -> None:
        freeze_mappings(self)
        if own_post_init is not None:
            own_post_init(self)

    setattr(cls, "__post_init__", __post_init__)
    return dataclasses.dataclass(frozen=True)(cls)


def freeze_mappings(instance: Any) -> None:
    """Replace every plain dict field of a frozen dataclass instance by a FrozenDict."""
    for spec in dataclasses.fields(instance):
        held = getattr(instance, spec.name)
        if type(held) is dict:
            object.__setattr__(instance, spec.name, FrozenDict(cast(dict[Any, Any], held)))


def digest(encoded: bytes) -> str:
    """64 hex digits."""
    return hashlib.sha256(encoded).hexdigest()


type Naming = Callable[[Identified], str]


def by_identity(held: Identified) -> str:
    return held.identity


def encode(held: object, path: str, found: list[Any], naming: Naming = by_identity) -> bytes:
    """Canonical bytes of one value.

    path: where it stands, for the error ("Tokenize.text_field"). found: every Identified value met
    on the way is appended: this is how dependencies are discovered. naming: what stands for such a value.
    Raises UnencodableValue naming path.
    """
    if isinstance(held, Enum):
        tag = getattr(type(held), TAG_ATTRIBUTE, None)
        if tag is None:
            raise UnencodableValue(
                f"{path}: the enum {type(held).__qualname__} has no stable name; decorate it with @value('name')"
            )
        return _part(b"E", tag.encode(), held.name.encode())
    if held is None:
        return b"N"
    if held is True:
        return b"T"
    if held is False:
        return b"F"
    if type(held) is int:
        return _part(b"i", str(held).encode())
    if type(held) is float:
        if math.isnan(held):
            raise UnencodableValue(f"{path}: nan is equal to nothing, so it cannot be part of an identity")
        return b"f" + struct.pack(">d", held)
    if type(held) is str:
        try:
            return _part(b"s", held.encode())
        except UnicodeEncodeError as error:
            raise UnencodableValue(f"{path}: {held!r} is not valid Unicode text ({error.reason})") from error
    if type(held) is bytes:
        return _part(b"b", held)
    if type(held) is tuple:
        items = cast(tuple[Any, ...], held)
        return _part(b"t", *(encode(item, f"{path}[{i}]", found, naming) for i, item in enumerate(items)))
    if isinstance(held, (frozenset, set)):
        members = cast(Iterable[Any], held)
        return _part(b"S", *sorted(encode(item, f"{path}{{…}}", found, naming) for item in members))
    if isinstance(held, Mapping):
        mapping = cast(Mapping[Any, Any], held)
        pairs = sorted(
            (
                encode(key, f"{path} key {_name(key)}", found, naming),
                encode(item, f"{path}[{_name(key)}]", found, naming),
            )
            for key, item in mapping.items()
        )
        return _part(b"d", *(part for pair in pairs for part in pair))
    if isinstance(held, Identified) and not isinstance(held, type):
        found.append(held)
        return _part(b"X", naming(held).encode())
    if dataclasses.is_dataclass(held) and not isinstance(held, type):
        tag = type(held).__dict__.get(TAG_ATTRIBUTE)
        if tag is None:
            raise UnencodableValue(
                f"{path}: the dataclass {type(held).__qualname__} has no stable name; decorate it with @value('name')"
            )
        return _part(b"D", tag.encode(), encode_fields(held, path, found, naming))
    raise UnencodableValue(f"{path}: {_describe(held)}")


def encode_fields(instance: Any, path: str, found: list[Any], naming: Naming = by_identity) -> bytes:
    """Name and value of every identity-bearing field, in name order."""
    parts: list[bytes] = []
    for spec in sorted(dataclasses.fields(instance), key=lambda spec: spec.name):
        if EXECUTION in spec.metadata:
            continue
        held = getattr(instance, spec.name)
        encoded = encode(held, f"{path}.{spec.name}", found, naming)
        if SINCE in spec.metadata and encoded == encode(spec.default, path, []):
            continue
        parts += (spec.name.encode(), encoded)
    return _part(b"o", *parts)


def _part(tag: bytes, *parts: bytes) -> bytes:
    out = [tag, struct.pack(">Q", len(parts))]
    for part in parts:
        out += (struct.pack(">Q", len(part)), part)
    return b"".join(out)


def _name(key: object) -> str:
    return str(getattr(key, "label", "") or repr(key))


def _describe(held: object) -> str:
    kind = type(held).__qualname__
    if callable(held) and not isinstance(held, type):
        return (
            f"a function ({getattr(held, '__qualname__', kind)}) has no canonical encoding; "
            "make it an operator, or pass an enum that run() dispatches on"
        )
    if isinstance(held, list):
        return "a list can change after construction; write a tuple"
    if isinstance(held, type):
        return f"the class {held.__qualname__} is not data; pass an instance of a @value class, or an enum"
    return f"{kind} has no canonical encoding; use numbers, strings, tuples, dicts, enums and @value dataclasses"
