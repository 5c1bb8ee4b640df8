"""Read records from published files: JSON lines (plain, gzip, zstd), Parquet, and whole text files.

A strict reader stops at the first record that it cannot use. A tolerant reader sets the record aside with its file,
line and reason. It takes nothing from a damaged file: records before the damage may be wrong too, because compressed
data is verified only at its end.
"""

# pyright: basic
from __future__ import annotations

import base64
import gzip
import io
import json
import math
import string
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from marin.data.artifacts import Documents
from marin.data.documents import Document, parquet_file
from marin.data.dropped import Dropped, Sieved, read_dropped, total, write_sieved
from marin.errors import GarbledDocument, InputError, TruncatedShard
from marin.store.files.directory import Directory

JSON_ENDINGS = (".jsonl", ".json", ".ndjson")
TEXT_ENDINGS = (".txt", ".md")
COMPRESSED = (".gz", ".zst", ".zstd")
# The reasons to set a record aside. A damaged file counts as one record.
BAD = ("not JSON", "no object", "no text", "not Unicode", "damaged file")
OTHER_ENDING = "another ending"


@dataclass(frozen=True)
class Bad:
    """A record that cannot be used. where: its file and line. reason: of BAD. error: for a strict reader to raise."""

    where: str
    reason: str
    error: InputError


def is_readable(name: str) -> bool:
    """Return whether read_records knows the format, by the name's ending."""
    return name.endswith(".parquet") or _stem(name).endswith(JSON_ENDINGS)


def is_text(name: str) -> bool:
    """Return whether read_text takes the file, by the name's ending."""
    return _stem(name).endswith(TEXT_ENDINGS)


def read_text(directory: Directory, name: str) -> str:
    """Return the text of a whole file, plain or compressed.

    Raises TruncatedShard if the file does not decompress, GarbledDocument if it is not UTF-8.
    """
    where = f"{directory.url}/{name}"
    content = b"".join(_lines(directory, name, where))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GarbledDocument(
            f"{where}: byte {error.start} is no UTF-8; convert the file (iconv -f latin1 -t utf-8), or remove it"
        ) from error


def _stem(name: str) -> str:
    return next((name.removesuffix(ending) for ending in COMPRESSED if name.endswith(ending)), name)


def read_records(directory: Directory, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, record). A place is ``…/part.jsonl.gz line 17`` or ``…/part.parquet row 17``, counted from 1.

    Raises TruncatedShard for a file that ends early or does not decompress, GarbledDocument for a line
    that is not a JSON object.
    """
    found = _records(directory, name)
    for where, record in found:
        if isinstance(record, Bad):
            _stop(record, found)
        else:
            yield where, record


def read_texts(
    directory: Directory,
    name: str,
    *,
    text_field: str,
    template: str = "",
    keep: Iterable[tuple[str, tuple[str, ...]]] = (),
    strict: bool = True,
) -> Iterator[Document | Dropped]:
    """Yield the documents of one file, with the other fields as metadata, and a Dropped for each omitted record.

    A text file is one document. template: used in place of ``text_field``, see ``str.format``.
    keep: (field, values). A record with none of the values in that field is dropped with the field as the reason. A
    record without text is dropped as "empty". strict: raise GarbledDocument for a record that cannot be used, and
    TruncatedShard for a damaged file. Otherwise each is Dropped with one of the reasons BAD.
    """
    if is_text(name):
        yield _whole_text(directory, name, strict)
        return
    if not strict:
        try:
            _check_whole(directory, name)
        except TruncatedShard as error:
            yield Dropped(name, "damaged file", {"why": str(error)})
            return
    taken = {part for _, part, _, _ in string.Formatter().parse(template) if part} if template else {text_field}
    found = _records(directory, name)
    for where, record in found:
        if not isinstance(record, Bad):
            reason = next((field for field, values in keep if str(look_up(record, field)) not in values), None)
            text = _fill(template, record, where) if template else _text(text_field, record, where)
            if reason is not None:
                yield Dropped(where, reason)
                continue
            if isinstance(text, str):
                if text.strip():
                    yield Document(text, name, without(record, taken))
                else:
                    yield Dropped(where, "empty")
                continue
            record = text
        if strict:
            _stop(record, found)
        yield Dropped(where, record.reason, {"why": str(record.error)})


def write_readable(out: Directory, index: int, shards: int, texts: Iterable[Document | Dropped]) -> Sieved:
    """Write one shard, and its bad records to the sidecar. Records dropped for another reason are only counted."""
    others = Counter[str]()

    def worth_writing() -> Iterator[Document | Dropped]:
        for each in texts:
            if isinstance(each, Dropped) and each.reason not in BAD:
                others[each.reason] += 1
            else:
                yield each

    written = write_sieved(out, index, shards, worth_writing())
    return total([written, Sieved(0, 0, dict(others))])


def documents_of(step: str, written: Iterable[Sieved], others: int, most: int, out: Directory) -> Documents:
    """Return the Documents that a reader wrote. written: of each shard. others: number of files with another ending.

    most: the most bad records or files. Raises GarbledDocument if there are more, or if there is no document.
    """
    shards = list(written)
    read = total([*shards, Sieved(0, 0, {OTHER_ENDING: others} if others else {})])
    bad = {reason: count for reason, count in read.dropped.items() if reason in BAD}
    if sum(bad.values()) > most:
        listed = [str(each.detail["why"]) for each in read_dropped(out)][:3]
        counts = ", ".join(f"{count} {reason}" for reason, count in bad.items())
        raise GarbledDocument(
            f"{step}: {sum(bad.values())} records or files are bad ({counts}); at most {most} may be (max_bad). The "
            "first:\n" + "\n".join(f"  {line}" for line in listed)
        )
    if not read.documents:
        left_out = ", ".join(f"{count} {reason}" for reason, count in read.dropped.items()) or "the files are empty"
        raise GarbledDocument(f"{step}: its files hold no document ({left_out}); check text_field, template and keep")
    return Documents(documents=read.documents, bytes=read.bytes, shards=len(shards), dropped=read.dropped)


def _whole_text(directory: Directory, name: str, strict: bool) -> Document | Dropped:
    try:
        text = read_text(directory, name)
    except InputError as error:
        if strict:
            raise
        reason = "damaged file" if isinstance(error, TruncatedShard) else "not Unicode"
        return Dropped(name, reason, {"why": str(error)})
    return Document(text, name) if text.strip() else Dropped(name, "empty")


def without(record: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Return the record without these fields, as JSON values. fields: dotted names."""
    left = {str(name): _plain(held) for name, held in record.items()}
    for field in fields:
        *path, last = field.split(".")
        inner: Any = left
        for part in path:
            inner = inner.get(part) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner.pop(last, None)
    return left


def _plain(held: Any) -> Any:
    """Return a value as JSON: times and the like as text, bytes in base64, NaN and infinity as ``"nan"``, ``"inf"``."""
    if isinstance(held, dict):
        return {str(name): _plain(inner) for name, inner in held.items()}
    if isinstance(held, list | tuple):
        return [_plain(inner) for inner in held]
    if isinstance(held, bytes):
        return base64.b64encode(held).decode()
    if isinstance(held, float) and not math.isfinite(held):
        return str(held)
    return held if held is None or isinstance(held, str | int | float) else str(held)


def _text(field: str, record: dict[str, Any], where: str) -> str | Bad:
    text = look_up(record, field)
    if not isinstance(text, str):
        found = "missing" if text is None else f"of type {type(text).__name__}"
        has = ", ".join(sorted(map(str, record)))
        why = f"{where}: the field {field!r} is {found}, wanted a string; the record has {has}: set text_field"
        return Bad(where, "no text", GarbledDocument(why))
    return _unicode(text, where)


def _fill(template: str, record: dict[str, Any], where: str) -> str | Bad:
    try:
        return _unicode(template.format(**record), where)
    except (KeyError, IndexError) as error:
        has = ", ".join(sorted(map(str, record)))
        return Bad(where, "no text", GarbledDocument(f"{where}: the template asks for {error}, the record has {has}"))


def _unicode(text: str, where: str) -> str | Bad:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        why = f"{where}: character {error.start} is half of a pair (\\u{ord(text[error.start]):x}), which is no text"
        return Bad(where, "not Unicode", GarbledDocument(why))
    return text


def _stop(bad: Bad, rest: Iterator[Any]) -> None:
    """Raise the record's error. If the rest of the file is damaged, raise that error instead: it may be the cause."""
    for _ in rest:
        pass
    raise bad.error


def _records(directory: Directory, name: str) -> Iterator[tuple[str, dict[str, Any] | Bad]]:
    where = f"{directory.url}/{name}"
    if name.endswith(".parquet"):
        yield from _parquet(directory, name, where)
    elif _stem(name).endswith(JSON_ENDINGS):
        yield from _json_lines(directory, name, where)
    else:
        raise GarbledDocument(
            f"{where}: unknown format; wanted .parquet or JSON lines, plain or with {', '.join(COMPRESSED)}"
        )


def _json_lines(directory: Directory, name: str, where: str) -> Iterator[tuple[str, dict[str, Any] | Bad]]:
    for number, line in enumerate(_lines(directory, name, where), start=1):
        if line.strip():
            yield f"{where} line {number}", _object(line, where, number)


def _object(line: bytes, file: str, number: int) -> dict[str, Any] | Bad:
    where = f"{file} line {number}"
    try:
        record = json.loads(line)
    except RecursionError:
        return Bad(where, "not JSON", GarbledDocument(f"{where}: JSON nested too deeply; wanted one object a line"))
    except ValueError as error:
        if not line.endswith(b"\n"):
            return Bad(where, "damaged file", TruncatedShard(f"{file}: ends inside line {number}; fetch it again"))
        reason = "not Unicode" if isinstance(error, UnicodeDecodeError) else "not JSON"
        return Bad(where, reason, GarbledDocument(f"{where}: not JSON ({error}); wanted one object a line"))
    if not isinstance(record, dict):
        why = f"{where}: a {type(record).__name__}, wanted a JSON object"
        return Bad(where, "no object", GarbledDocument(why))
    return record


def _check_whole(directory: Directory, name: str) -> None:
    """Read a Parquet or compressed file to its end to verify it. Raises TruncatedShard."""
    where = f"{directory.url}/{name}"
    if name.endswith(".parquet"):
        for _ in _parquet(directory, name, where):
            pass
    elif name.endswith(COMPRESSED):
        for _ in _lines(directory, name, where):
            pass


def _lines(directory: Directory, name: str, where: str) -> Iterator[bytes]:
    import zstandard

    number = 0
    with directory.open(name, "rb") as raw:
        stream: Any = raw
        if name.endswith(".gz"):
            stream = gzip.GzipFile(fileobj=raw)
        elif name.endswith((".zst", ".zstd")):
            stream = io.BufferedReader(_WholeFrames(raw), 1 << 20)
        try:
            for line in stream:
                number += 1
                yield line
        except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
            raise TruncatedShard(
                f"{where}: cannot be decompressed after {number} whole lines ({error}); fetch it again"
            ) from error


class _WholeFrames(io.RawIOBase):
    """Decompressed bytes of concatenated zstd frames. Unlike zstandard's reader, it rejects an unfinished frame."""

    def __init__(self, raw: Any) -> None:
        import zstandard

        self._raw, self._new = raw, zstandard.ZstdDecompressor
        self._frame = self._new().decompressobj()
        self._begun, self._left, self._ready = False, b"", b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            block = self._left or self._raw.read(1 << 18)
            self._left = b""
            if not block:
                if self._begun:
                    raise EOFError("the last frame is unfinished")
                return 0
            self._begun = True
            self._ready = self._frame.decompress(block)
            if self._frame.eof:
                self._left, self._begun = self._frame.unused_data, False
                self._frame = self._new().decompressobj()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def _parquet(directory: Directory, name: str, where: str) -> Iterator[tuple[str, dict[str, Any] | Bad]]:
    import pyarrow as pa

    number = 0
    try:
        with directory.open(name, "rb") as handle:
            file = parquet_file(handle)
            for group in range(file.num_row_groups):
                for batch in file.read_row_group(group, use_threads=False).to_batches(1024):
                    for record in batch.to_pylist():
                        number += 1
                        yield f"{where} row {number}", record
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise TruncatedShard(f"{where}: cannot be read after {number} whole rows ({error}); fetch it again") from error


def look_up(record: dict[str, Any], field: str) -> Any:
    """Return a field by dotted name, ``metadata.extension``, or None if the record does not have it."""
    held: Any = record
    for part in field.split("."):
        if not isinstance(held, dict) or part not in held:
            return None
        held = held[part]
    return held
