"""Documents: small frozen structs that the store keeps as JSON, checked field by field when they are read."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, Self

import msgspec
from msgspec.structs import asdict

from marin.errors import CorruptRecord

_AT = " - at `$"  # what msgspec puts before the place of an error


class BadDocument(Exception):
    """Content that is no such document. place: the field, "a.0.b", or "" for all of it. why: what is wrong there."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place or 'the file'}: {why}")
        self.place, self.why = place or "the file", why


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Its fields are JSON-able values, enums and documents. Unknown ones are left out."""

    def to_json(self, indent: int | None = None) -> bytes:
        return json.dumps(self, ensure_ascii=False, indent=indent, default=asdict).encode()

    def to_plain(self) -> dict[str, Any]:
        """JSON-able, documents within documents included."""
        return msgspec.to_builtins(self)

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Raises BadDocument."""
        return _parse(cls, content)

    @classmethod
    def parse_list(cls, content: bytes) -> list[Self]:
        """Raises BadDocument."""
        return _parse(list[cls], content)

    @classmethod
    def from_plain(cls, held: object) -> Self:
        """From what JSON holds. Raises BadDocument."""
        return _convert(cls, held)


def refuse_future(content: bytes, latest: int, kind: str, where: str) -> None:
    """Instead of complaining about its fields: a later format may have others. Raises CorruptRecord."""
    try:
        found = json.loads(content)["format"]
    except (ValueError, TypeError, KeyError):
        return
    if isinstance(found, int) and found > latest:
        raise CorruptRecord(f"{where} has {kind} format {found}, this marin reads up to {latest}; update marin")


def _parse(kind: Any, content: bytes) -> Any:
    try:
        return _decoder(kind)(content)
    except (ValueError, RecursionError):  # not right, or it holds an infinity or a nan, which Python writes and reads
        try:
            held = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise BadDocument("", str(error)) from error
        return _convert(kind, held)


@functools.cache
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


def _convert(kind: Any, held: object) -> Any:
    try:
        return msgspec.convert(held, kind)
    except msgspec.ValidationError as error:
        why, _, place = str(error).partition(_AT)
        place = place.removesuffix("`").replace("[", ".").replace("]", "").removeprefix(".")
        raise BadDocument(place, why) from error
