"""Documents: small frozen dataclasses that the store keeps as JSON, checked when they are read.

What is as this program writes it is checked field by field here, which takes a few microseconds. Anything else goes
to pydantic, which either makes sense of it or says which field is wrong, and is imported only then: a plan reads
thousands of records, and loading pydantic takes longer than reading them.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, Self, cast, dataclass_transform

from marin.errors import CorruptRecord

type _Reader = Callable[[Any], Any]
_PLAIN = (str, int, bool)


class BadDocument(Exception):
    """Content that is no such document. place: the field, "a.0.b", or "" for all of it. why: what is wrong there."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place or 'the file'}: {why}")
        self.place, self.why = place or "the file", why


class _OddError(ValueError):
    """Not what we write: pydantic has the last word."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
class Document:
    """Subclasses are frozen dataclasses of JSON-able values, enums and documents. Unknown fields are left out."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    def to_json(self, indent: int | None = None) -> bytes:
        return json.dumps(self, ensure_ascii=False, indent=indent, default=vars).encode()

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Raises BadDocument."""
        try:
            return cls.from_plain(json.loads(content))
        except (ValueError, RecursionError):
            return cast(Self, _parsed_by_pydantic(cls, content))

    @classmethod
    def parse_list(cls, content: bytes) -> list[Self]:
        """Raises BadDocument."""
        try:
            return _list(cls.from_plain, json.loads(content))
        except (ValueError, RecursionError):
            return cast(list[Self], _parsed_by_pydantic(list[cls], content))

    @classmethod
    def from_plain(cls, held: Any) -> Self:
        """From what JSON holds. Raises ValueError for anything but what ``to_json`` writes."""
        if held.__class__ is not dict:
            raise _OddError
        given: dict[str, Any] = {}
        for name, kind, read, needed in _fields_of(cls):
            if name in held:
                item = given[name] = held[name]
                if read is not None:
                    given[name] = read(item)
                elif item.__class__ is not kind:
                    raise _OddError
            elif needed:
                raise _OddError
        return cls(**given)


def refuse_future(content: bytes, latest: int, kind: str, where: str) -> None:
    """Instead of complaining about its fields: a later format may have others. Raises CorruptRecord."""
    try:
        found = json.loads(content)["format"]
    except (ValueError, TypeError, KeyError):
        return
    if isinstance(found, int) and found > latest:
        raise CorruptRecord(f"{where} has {kind} format {found}, this marin reads up to {latest}; update marin")


def _parsed_by_pydantic(kind: Any, content: bytes) -> Any:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadDocument(".".join(str(part) for part in first["loc"]), first["msg"]) from error


class _Field(NamedTuple):
    """kind: the exact class of what JSON gives as it is. read: checks and converts everything else."""

    name: str
    kind: type | None
    read: _Reader | None
    needed: bool


@functools.cache
def _fields_of(cls: type[Any]) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(
        _Field(
            spec.name,
            hints[spec.name] if hints[spec.name] in _PLAIN else None,
            None if hints[spec.name] in _PLAIN else _reader(hints[spec.name]),
            spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING,
        )
        for spec in dataclasses.fields(cls)
    )


def _reader(hint: Any) -> _Reader:
    """What checks, and where needed converts, a value of this type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return lambda held: held
    if hint is float:
        return _float
    if origin is dict:
        return functools.partial(_dict, _reader(arguments[1]), arguments[1] is Any)
    if origin is list:
        return functools.partial(_list, _reader(arguments[0]))
    if origin in (types.UnionType, typing.Union):
        kinds = [_reader(kind) for kind in arguments if kind is not types.NoneType]
        assert len(kinds) == 1, "a document's field is of one type, or that type or None"
        return lambda held: None if held is None else kinds[0](held)
    if issubclass(hint, Document):
        return hint.from_plain
    if issubclass(hint, Enum):
        return hint
    assert hint in _PLAIN, f"a document cannot hold {hint}"
    return functools.partial(_exactly, hint)


def _exactly(kind: type, held: Any) -> Any:
    if type(held) is not kind:
        raise _OddError
    return held


def _float(held: Any) -> float:
    if type(held) is float:
        return held
    if type(held) is not int:
        raise _OddError
    return float(held)


def _dict(read: _Reader, anything: bool, held: Any) -> Any:
    if held.__class__ is not dict:
        raise _OddError
    items: dict[str, Any] = held
    return items if anything else {name: read(item) for name, item in items.items()}


def _list(read: _Reader, held: Any) -> Any:
    if held.__class__ is not list:
        raise _OddError
    return [read(item) for item in held]
