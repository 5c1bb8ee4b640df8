"""Canonical encoding: the bytes by which a field's value enters an identity.

Every kind of value has its own tag, and every variable-length part its length, so no two different
values encode alike: ``1``, ``1.0``, ``True`` and ``"1"`` differ, ``0.0`` and ``-0.0`` differ,
``""`` and ``None`` differ, a tuple and a frozenset of the same items differ. Dict and set order
does not matter. marin refuses values without a stable encoding (functions, lists, open files, arrays).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import operator
import os
import re
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

from marin.errors import UnencodableValue
from marin.store.redaction import is_address_with_credentials, redacted

SINCE = "marin.since"
EXECUTION = "marin.execution"
FORMERLY = "marin.formerly"
TAG_ATTRIBUTE = "__marin_tag__"
STEP_ATTRIBUTE = "__marin_step__"
_FIELDS_ATTRIBUTE = "__marin_identity_fields__"

# The largest depth of nested containers. Plans, records and pages later recurse into a value as deep.
DEEPEST = 100
TOO_DEEP = f"nested more than {DEEPEST} levels deep, or it holds itself; make it flatter"
_PLACE = 80  # characters of a place that an error shows


type Naming = Callable[[Any], str]  # the text that stands for a step

_by_identity: Naming = operator.attrgetter("identity")


def digest(encoded: bytes) -> str:
    """Return the SHA-256 digest, 64 hex digits."""
    return hashlib.sha256(encoded).hexdigest()


def encode(value: object, path: str, found: list[Any]) -> bytes:
    """Return the canonical bytes of one value.

    path: the place of the value, for the error ("Tokenize.text_field"). found: encode appends every step to it; marin
    finds dependencies this way. Raises UnencodableValue naming path.
    """
    try:
        return _encode(value, _Walk(found))
    except NoEncodingError as error:
        raise error.at(path) from error.__cause__


def encode_fields(instance: Any, found: list[Any], naming: Naming = _by_identity) -> bytes:
    """Return the bytes of every identity-bearing field, in name order. Raises UnencodableValue naming the field."""
    try:
        return _encode_fields(instance, _Walk(found, naming))
    except NoEncodingError as error:
        raise error.at(type(instance).__name__) from error.__cause__


def in_order_of_keys(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the items of a mapping in the order of their encoding.

    If a key has no encoding, no identity holds the mapping, and the items keep their order.
    """
    walk = _Walk([])
    try:
        return sorted(pairs, key=lambda pair: _encode(pair[0], walk))
    except NoEncodingError:
        return pairs


class NoEncodingError(Exception):
    """A value without an encoding. place: the path to the value, from the value that encode was called with.

    The callers build the path on the way up, so values with an encoding (nearly all) pay nothing for it.
    """

    def __init__(self, why: str) -> None:
        self.why, self.place = why, ""

    def within(self, place: str) -> NoEncodingError:
        self.place = place + self.place
        return self

    def at(self, path: str) -> UnencodableValue:
        """Return the error that users see."""
        place = self.place if len(self.place) <= _PLACE else f"{self.place[:_PLACE]}…"
        return UnencodableValue(f"{path}{place}: {self.why}")


@dataclass(slots=True)
class _Walk:
    """The state of one encoding."""

    found: list[Any]
    naming: Naming = _by_identity
    depth: int = 0


type _Encoder = Callable[[Any, _Walk], bytes]


def _encode(value: object, walk: _Walk) -> bytes:
    atom = ATOMS.get(type(value))
    if atom is not None:
        return atom(value)
    walk.depth += 1
    if walk.depth > DEEPEST:
        raise NoEncodingError(TOO_DEEP)
    encoded = _encoder_of(value)(value, walk)
    walk.depth -= 1
    return encoded


_LENGTH = struct.Struct(">Q").pack
_ONE = _LENGTH(1)


def _part(tag: bytes, *parts: bytes) -> bytes:
    out = [tag, _LENGTH(len(parts))]
    for part in parts:
        out += (_LENGTH(len(part)), part)
    return b"".join(out)


def _encode_int(value: int) -> bytes:
    try:
        return _part(b"i", str(value).encode())
    except ValueError as error:  # Python limits the digits of an integer that it writes
        raise NoEncodingError(
            f"an integer of {value.bit_length()} bits is too long to write; pass it as bytes"
        ) from error


def _encode_float(value: float) -> bytes:
    if math.isnan(value):
        raise NoEncodingError("nan is equal to nothing, so it cannot be part of an identity")
    return b"f" + struct.pack(">d", value)


def _encode_str(value: str) -> bytes:
    if "://" in value and is_address_with_credentials(value):
        raise NoEncodingError(
            f"{redacted(value)!r} holds a credential, which is not data and could be guessed from an identity; "
            "leave it out and give it to the machine: ~/.netrc, HF_TOKEN, AWS_… or fsspec's configuration"
        )
    try:
        text = value.encode()
    except UnicodeEncodeError as error:
        raise NoEncodingError(f"{value!r} is not valid Unicode text ({error.reason})") from error
    return b"s" + _ONE + _LENGTH(len(text)) + text


def _encode_tuple(value: tuple[Any, ...], walk: _Walk) -> bytes:
    out = [b"t", _LENGTH(len(value))]
    for item in value:
        try:
            encoded = _encode(item, walk)
        except NoEncodingError as error:
            raise error.within(f"[{len(out) // 2 - 1}]") from error.__cause__
        out += (_LENGTH(len(encoded)), encoded)
    return b"".join(out)


def _encode_set(value: Iterable[Any], walk: _Walk) -> bytes:
    try:
        return _part(b"S", *sorted(_encode(item, walk) for item in value))
    except NoEncodingError as error:
        raise error.within("{…}") from error.__cause__


def _encode_mapping(value: Mapping[Any, Any], walk: _Walk) -> bytes:
    pairs: list[tuple[bytes, bytes]] = []
    for key, item in value.items():
        place = f" key {name_of(key)}"
        try:
            encoded = _encode(key, walk)
            place = f"[{name_of(key)}]"
            pairs.append((encoded, _encode(item, walk)))
        except NoEncodingError as error:
            raise error.within(place) from error.__cause__
    return _part(b"d", *(part for pair in sorted(pairs) for part in pair))


def _encode_enum(value: Enum, _walk: _Walk) -> bytes:
    kind = type(value)
    tag = getattr(kind, TAG_ATTRIBUTE, None)
    if tag is None:
        raise NoEncodingError(f"the enum {kind.__qualname__} has no stable name; decorate it with @value('name')")
    name = cast(str | None, value.name)
    if name is None:
        raise NoEncodingError(
            f"{value!r} has no name, and an enum counts by its names; give {kind.__qualname__} a member for it, "
            f"e.g. NOTHING = {value.value!r}"
        )
    return _part(b"E", tag.encode(), name.encode())


def _encode_step(value: Any, walk: _Walk) -> bytes:
    walk.found.append(value)
    named = walk.naming(value).encode()
    return b"X" + _ONE + _LENGTH(len(named)) + named


def _encode_dataclass(value: Any, walk: _Walk) -> bytes:
    tag = type(value).__dict__.get(TAG_ATTRIBUTE)
    if tag is None:
        raise NoEncodingError(
            f"the dataclass {type(value).__qualname__} has no stable name; decorate it with @value('name')"
        )
    return _part(b"D", tag.encode(), _encode_fields(value, walk))


def _encode_fields(instance: object, walk: _Walk) -> bytes:
    parts: list[bytes] = []
    for name, named, default in _identity_fields(type(instance)):
        value = getattr(instance, name)
        try:
            encoded = _encode(value, walk)
            if default is not None and encoded == default():
                continue
        except NoEncodingError as error:
            raise error.within(f".{name}") from error.__cause__
        parts += (named, encoded)
    return _part(b"o", *parts)


def _identity_fields(cls: type) -> list[tuple[str, bytes, Callable[[], bytes] | None]]:
    """Return name, encoded name and, for a field that was added later, its encoded default; in name order.

    The class holds the list. A cache would keep the class alive.
    """
    if (known := cls.__dict__.get(_FIELDS_ATTRIBUTE)) is not None:
        return known

    fields: list[tuple[str, bytes, Callable[[], bytes] | None]] = []
    for spec in dataclasses.fields(cls):
        if EXECUTION not in spec.metadata:
            default = functools.cache(functools.partial(_encode, spec.default, _Walk([])))
            named = str(spec.metadata.get(FORMERLY, spec.name))
            fields.append((spec.name, named.encode(), default if SINCE in spec.metadata else None))
    fields.sort(key=lambda field: field[1])
    setattr(cls, _FIELDS_ATTRIBUTE, fields)
    return fields


def _encoder_of(value: object) -> _Encoder:
    """Return the encoder of a value that is no atom. It is not cached, so that no cache keeps a class alive."""
    kind = type(value)
    if kind is tuple:
        return _encode_tuple
    if hasattr(kind, STEP_ATTRIBUTE):
        return _encode_step
    if isinstance(value, Enum):
        return _encode_enum
    if hasattr(kind, TAG_ATTRIBUTE):
        return _encode_dataclass
    if isinstance(value, (frozenset, set)):
        return _encode_set
    if isinstance(value, Mapping):
        return _encode_mapping
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_dataclass
    raise NoEncodingError(_describe(value))


ATOMS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _held: b"N",
    bool: lambda value: b"T" if value else b"F",
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    bytes: lambda value: _part(b"b", value),
}


def cannot_change(kind: type) -> bool:
    """Return whether a class is a step's, or was decorated with @value."""
    return hasattr(kind, TAG_ATTRIBUTE) or hasattr(kind, STEP_ATTRIBUTE)


def name_of(key: object) -> str:
    """Return the name of a key or an entry for people: the label of a step, else its repr."""
    return str(getattr(key, "label", "") or repr(key))


def _is_plain_class(kind: type) -> bool:
    """Return whether a class and its bases belong to somebody's project (no kind of number, text or container)."""
    bases = [each for each in kind.__mro__[1:] if each is not object and each.__module__ not in ("abc", "typing")]
    modules = (sys.modules.get(each.__module__) for each in (kind, *bases))
    return all(is_written_here(str(getattr(module, "__file__", None))) for module in modules)


def is_written_here(filename: str) -> bool:
    """Return whether a file is the project's: not of this package, Python's, a package's or generated."""
    installed = (str(Path(__file__).parent), sys.prefix, *sysconfig.get_paths().values())
    return os.path.isabs(filename) and not any(filename.startswith(folder + os.sep) for folder in installed)


def _describe(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__} is not data; pass an instance of a @value class, or an enum"
    kind = type(value).__qualname__
    if _is_plain_class(type(value)):
        module, words = type(value).__module__.rpartition(".")[2], re.sub(r"(?<=.)(?=[A-Z])", "_", type(value).__name__)
        return f'{kind} is a plain class; write @value("{module.strip("_")}/{words.lower()}") above it'
    if callable(value):
        return (
            f"a function ({getattr(value, '__qualname__', kind)}) has no canonical encoding; "
            "make it an operator, or pass an enum that run() dispatches on"
        )
    if isinstance(value, list):
        return "a list can change after construction; write a tuple"
    if isinstance(value, bytearray):
        return "a bytearray can change after construction; write bytes(…)"
    for plain in (int, float, str, bytes, tuple):
        if isinstance(value, plain):
            return f"{kind} is a kind of {plain.__name__} and may hold more than its value; write {plain.__name__}(…)"
    return f"{kind} has no canonical encoding; use numbers, strings, tuples, dicts, enums and @value dataclasses"
