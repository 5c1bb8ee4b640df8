"""Canonical encoding: how a field's value enters an identity.

Every kind of value has its own tag and every variable-length part its length, so no two different
values encode alike: ``1``, ``1.0``, ``True`` and ``"1"`` differ, ``0.0`` and ``-0.0`` differ,
``""`` and ``None`` differ, a tuple and a frozenset of the same items differ. Dict and set order
does not matter. What has no stable encoding (functions, lists, open files, arrays) is refused.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Protocol, cast, dataclass_transform, runtime_checkable

from marin.errors import UnencodableValue
from marin.redaction import is_address_with_credentials, redacted

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
    for name in _field_names(type(instance)):  # pyright: ignore[reportUnknownArgumentType]
        held = getattr(instance, name)
        if type(held) is dict:
            object.__setattr__(instance, name, FrozenDict(cast(dict[Any, Any], held)))


@functools.cache
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(spec.name for spec in dataclasses.fields(cls))


def digest(encoded: bytes) -> str:
    """64 hex digits."""
    return hashlib.sha256(encoded).hexdigest()


type Naming = Callable[[Identified], str]
type _Encoder = Callable[[Any, list[Any], Naming], bytes]


def by_identity(held: Identified) -> str:
    return held.identity


def encode(held: object, path: str, found: list[Any], naming: Naming = by_identity) -> bytes:
    """Canonical bytes of one value.

    path: where it stands, for the error ("Tokenize.text_field"). found: every Identified value met
    on the way is appended: this is how dependencies are discovered. naming: what stands for such a value.
    Raises UnencodableValue naming path.
    """
    try:
        return _encode(held, found, naming)
    except _NoEncodingError as error:
        raise UnencodableValue(f"{path}{error.place}: {error.why}") from error.__cause__


def encode_fields(instance: Any, path: str, found: list[Any], naming: Naming = by_identity) -> bytes:
    """Name and value of every identity-bearing field, in name order."""
    try:
        return _encode_fields(instance, found, naming)
    except _NoEncodingError as error:
        raise UnencodableValue(f"{path}{error.place}: {error.why}") from error.__cause__


class _NoEncodingError(Exception):
    """place: from the value that was asked for to the one without an encoding, found on the way back up, so that what
    can be encoded (nearly everything) pays nothing for it."""

    def __init__(self, why: str) -> None:
        self.why, self.place = why, ""

    def within(self, place: str) -> _NoEncodingError:
        self.place = place + self.place
        return self


def _encode(held: object, found: list[Any], naming: Naming) -> bytes:
    encoder = _ENCODERS.get(type(held))
    return encoder(held, found, naming) if encoder is not None else _encode_other(held, found, naming)


_LENGTH = struct.Struct(">Q").pack
_ONE = _LENGTH(1)


def _part(tag: bytes, *parts: bytes) -> bytes:
    out = [tag, _LENGTH(len(parts))]
    for part in parts:
        out += (_LENGTH(len(part)), part)
    return b"".join(out)


def _encode_int(held: int, _found: list[Any], _naming: Naming) -> bytes:
    return _part(b"i", str(held).encode())


def _encode_float(held: float, _found: list[Any], _naming: Naming) -> bytes:
    if math.isnan(held):
        raise _NoEncodingError("nan is equal to nothing, so it cannot be part of an identity")
    return b"f" + struct.pack(">d", held)


def _encode_str(held: str, _found: list[Any], _naming: Naming) -> bytes:
    if "://" in held and is_address_with_credentials(held):
        raise _NoEncodingError(
            f"{redacted(held)!r} holds a credential, which is not what is read and could be guessed from an identity; "
            "leave it out and give it to the machine: ~/.netrc, HF_TOKEN, AWS_… or fsspec's configuration"
        )
    try:
        text = held.encode()
    except UnicodeEncodeError as error:
        raise _NoEncodingError(f"{held!r} is not valid Unicode text ({error.reason})") from error
    return b"s" + _ONE + _LENGTH(len(text)) + text


def _encode_tuple(held: tuple[Any, ...], found: list[Any], naming: Naming) -> bytes:
    out = [b"t", _LENGTH(len(held))]
    for item in held:
        try:
            encoded = _encode(item, found, naming)
        except _NoEncodingError as error:
            raise error.within(f"[{len(out) // 2 - 1}]") from error.__cause__
        out += (_LENGTH(len(encoded)), encoded)
    return b"".join(out)


def _encode_set(held: Iterable[Any], found: list[Any], naming: Naming) -> bytes:
    try:
        return _part(b"S", *sorted(_encode(item, found, naming) for item in held))
    except _NoEncodingError as error:
        raise error.within("{…}") from error.__cause__


def _encode_mapping(held: Mapping[Any, Any], found: list[Any], naming: Naming) -> bytes:
    pairs: list[tuple[bytes, bytes]] = []
    for key, item in held.items():
        place = f" key {_name(key)}"
        try:
            encoded = _encode(key, found, naming)
            place = f"[{_name(key)}]"
            pairs.append((encoded, _encode(item, found, naming)))
        except _NoEncodingError as error:
            raise error.within(place) from error.__cause__
    return _part(b"d", *(part for pair in sorted(pairs) for part in pair))


def _encode_enum(held: Enum, _found: list[Any], _naming: Naming) -> bytes:
    tag = getattr(type(held), TAG_ATTRIBUTE, None)
    if tag is None:
        raise _NoEncodingError(
            f"the enum {type(held).__qualname__} has no stable name; decorate it with @value('name')"
        )
    return _part(b"E", tag.encode(), held.name.encode())


def _encode_identified(held: Identified, found: list[Any], naming: Naming) -> bytes:
    found.append(held)
    named = naming(held).encode()
    return b"X" + _ONE + _LENGTH(len(named)) + named


def _encode_dataclass(held: Any, found: list[Any], naming: Naming) -> bytes:
    tag = type(held).__dict__.get(TAG_ATTRIBUTE)
    if tag is None:
        raise _NoEncodingError(
            f"the dataclass {type(held).__qualname__} has no stable name; decorate it with @value('name')"
        )
    return _part(b"D", tag.encode(), _encode_fields(held, found, naming))


def _encode_fields(instance: Any, found: list[Any], naming: Naming) -> bytes:
    parts: list[bytes] = []
    for name, named, default in _identity_fields(type(instance)):  # pyright: ignore[reportUnknownArgumentType]
        held = getattr(instance, name)
        try:
            encoded = _encode(held, found, naming)
            if default is not None and encoded == default():
                continue
        except _NoEncodingError as error:
            raise error.within(f".{name}") from error.__cause__
        parts += (named, encoded)
    return _part(b"o", *parts)


@functools.cache
def _identity_fields(cls: type) -> list[tuple[str, bytes, Callable[[], bytes] | None]]:
    """Name, encoded name and, of a field that was added later, its encoded default; in name order."""

    def default_of(spec: dataclasses.Field[Any]) -> Callable[[], bytes] | None:
        if SINCE not in spec.metadata:
            return None
        return functools.cache(lambda: _encode(spec.default, [], by_identity))

    specs = sorted(dataclasses.fields(cls), key=lambda spec: spec.name)
    return [(spec.name, spec.name.encode(), default_of(spec)) for spec in specs if EXECUTION not in spec.metadata]


def _encode_other(held: object, found: list[Any], naming: Naming) -> bytes:
    """What is no built-in value: decided by its class, once for each."""
    kind = type(held)
    if isinstance(held, Enum):
        encoder: _Encoder = _encode_enum
    elif isinstance(held, (frozenset, set)):
        encoder = _encode_set
    elif isinstance(held, Mapping):
        encoder = _encode_mapping
    elif isinstance(held, Identified) and not isinstance(held, type):
        encoder = _encode_identified
    elif dataclasses.is_dataclass(held) and not isinstance(held, type):
        encoder = _encode_dataclass
    else:
        raise _NoEncodingError(_describe(held))
    _ENCODERS[kind] = encoder
    return encoder(cast(Any, held), found, naming)


_ENCODERS: dict[type, _Encoder] = {
    type(None): lambda _held, _found, _naming: b"N",
    bool: lambda held, _found, _naming: b"T" if held else b"F",
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    bytes: lambda held, _found, _naming: _part(b"b", held),
    tuple: _encode_tuple,
}


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
