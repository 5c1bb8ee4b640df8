"""Documents: small frozen structs that the store keeps as JSON, and checks field by field when it reads them."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Self

import msgspec
from msgspec.structs import asdict

from marin.errors import CorruptRecord

_FIRST = threading.Lock()
_encode = json.JSONEncoder(ensure_ascii=False, default=asdict).encode  # making an encoder takes as long as using it
_AT = " - at `$"  # msgspec writes this before the place of an error


class BadDocument(Exception):
    """Content that is not the wanted document.

    place: the field, "a.0.b", or "" for the whole file. why: the error there.
    """

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place or 'the file'}: {why}")
        self.place, self.why = place or "the file", why


def parse_json(content: bytes | str) -> Any:
    """Parse JSON. Raises BadDocument, also if the content is nested too deeply."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadDocument("", str(error)) from error


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A struct whose fields are JSON-able values, enums and documents. Reading ignores unknown fields."""

    def to_json(self) -> bytes:
        return json_bytes(self)

    def to_plain(self) -> dict[str, Any]:
        """Return the document as JSON-able data, with the documents inside it."""
        return msgspec.to_builtins(self)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle as MessagePack, in a tenth of the time that pickling field by field takes."""
        try:
            return _unpacked, (type(self), msgspec.msgpack.encode(self))
        except (OverflowError, UnicodeEncodeError):  # an integer of more than 64 bits; a name that is not UTF-8
            return _parse, (type(self), self.to_json())

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Parse one document. Raises BadDocument."""
        return _parse(cls, content)

    @classmethod
    def parse_list(cls, content: bytes) -> list[Self]:
        """Parse a list of documents. Raises BadDocument."""
        return _parse(list[cls], content)

    @classmethod
    def from_plain(cls, value: object) -> Self:
        """Make a document from parsed JSON. Raises BadDocument."""
        return _convert(cls, value)


def json_bytes(value: object) -> bytes:
    """Encode as UTF-8 JSON. A lone surrogate, as in a file name that is not UTF-8, is written as an escape."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, default=asdict).encode()


class Versioned(Document, frozen=True, kw_only=True):
    """A document with a format number. A document without one has the first format."""

    LATEST: ClassVar[int] = 1

    format: int = LATEST

    @classmethod
    def parse_file(cls, content: bytes, where: str, kind: str, remedy: str) -> Self:
        """Parse the content of one file.

        Raises CorruptRecord naming the file, the error and the remedy. For a later format, whatever its fields, the
        remedy is to update marin.
        """
        try:
            found = cls.parse(content)
        except BadDocument as error:
            raise CorruptRecord(
                cls._from_the_future(content, where, kind) or f"{where} is not a readable {kind} ({error}); {remedy}"
            ) from error
        if found.format > cls.LATEST:
            raise CorruptRecord(cls._from_the_future(content, where, kind))
        return found

    @classmethod
    def _from_the_future(cls, content: bytes, where: str, kind: str) -> str:
        with suppress(BadDocument):
            if (found := Versioned.parse(content).format) > cls.LATEST:
                return f"{where} has {kind} format {found}, this marin reads up to {cls.LATEST}; update marin"
        return ""


def _parse(kind: Any, content: bytes) -> Any:
    try:
        return _decoder(kind)(content)
    except (ValueError, RecursionError):  # bad content, or an infinity or a nan, which only Python's own JSON reads
        return _convert(kind, parse_json(content))


@functools.cache
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    with _FIRST:  # msgspec crashes when two threads use a type for the first time at once
        return msgspec.json.Decoder(kind).decode


def _unpacked(kind: Any, content: bytes) -> Any:
    return _unpacker(kind)(content)


@functools.cache
def _unpacker(kind: Any) -> Callable[[bytes], Any]:
    _decoder(kind)
    return msgspec.msgpack.Decoder(kind).decode


def _convert(kind: Any, value: object) -> Any:
    _decoder(kind)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        why, _, place = str(error).partition(_AT)
        place = place.removesuffix("`").replace("[", ".").replace("]", "").removeprefix(".")
        raise BadDocument(place, why) from error
