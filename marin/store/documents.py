"""Documents: small frozen structs that the store keeps as JSON, checked field by field when they are read."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Self

import msgspec
from msgspec.structs import asdict

from marin.errors import CorruptRecord

_FIRST = threading.Lock()
_encode = json.JSONEncoder(ensure_ascii=False, default=asdict).encode  # to make it takes as long as to use it
_AT = " - at `$"  # what msgspec puts before the place of an error


class BadDocument(Exception):
    """Content that is no such document. place: the field, "a.0.b", or "" for all of it. why: what is wrong there."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place or 'the file'}: {why}")
        self.place, self.why = place or "the file", why


def parse_json(content: bytes | str) -> Any:
    """Raises BadDocument, also for what is nested too deeply to be read."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadDocument("", str(error)) from error


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Its fields are JSON-able values, enums and documents. Unknown ones are left out."""

    def to_json(self) -> bytes:
        return json_bytes(self)

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
    def from_plain(cls, value: object) -> Self:
        """From what JSON holds. Raises BadDocument."""
        return _convert(cls, value)


def json_bytes(value: object) -> bytes:
    """As UTF-8; names of files that are not UTF-8 (Python gives them as lone surrogates) as escapes."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, default=asdict).encode()


class Versioned(Document, frozen=True, kw_only=True):
    """A document that says which format it has; one that does not was written before there was a second."""

    LATEST: ClassVar[int] = 1

    format: int = LATEST

    @classmethod
    def parse_file(cls, content: bytes, where: str, kind: str, remedy: str) -> Self:
        """Raises CorruptRecord naming the file, what is wrong with it and the remedy: for a later format, whatever
        fields that may have, to update marin."""
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
    def parse_lines(cls, content: bytes | None, where: str, kind: str, remedy: str) -> list[Self]:
        """One a line, of a file that is only ever added to; content: None where there is none.

        Raises CorruptRecord, also for an empty file: somebody wrote something, and it is lost.
        """
        if content is None:
            return []
        if not content.strip():
            raise CorruptRecord(f"{where} is empty, so that at least one {kind} is lost; {remedy}")
        lines = enumerate(content.splitlines(), start=1)
        return [cls.parse_file(line, f"{where}:{number}", kind, remedy) for number, line in lines]

    def added_to(self, content: bytes | None) -> bytes:
        """The file that ``parse_lines`` reads, with this at its end."""
        before = (content or b"").rstrip(b"\n")
        return b"".join(line + b"\n" for line in (before, self.to_json()) if line)

    @classmethod
    def _from_the_future(cls, content: bytes, where: str, kind: str) -> str:
        try:
            found = parse_json(content)["format"]
        except (BadDocument, TypeError, KeyError):
            return ""
        if not isinstance(found, int) or found <= cls.LATEST:
            return ""
        return f"{where} has {kind} format {found}, this marin reads up to {cls.LATEST}; update marin"


def _parse(kind: Any, content: bytes) -> Any:
    try:
        return _decoder(kind)(content)
    except (ValueError, RecursionError):  # not right, or it holds an infinity or a nan, which Python writes and reads
        return _convert(kind, parse_json(content))


@functools.cache
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    with _FIRST:  # msgspec crashes when two threads make it look at a type for the first time
        return msgspec.json.Decoder(kind).decode


def _convert(kind: Any, value: object) -> Any:
    _decoder(kind)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        why, _, place = str(error).partition(_AT)
        place = place.removesuffix("`").replace("[", ".").replace("]", "").removeprefix(".")
        raise BadDocument(place, why) from error
