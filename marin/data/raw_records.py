"""Records out of files as they came: JSON lines (plain, gzip, zstd) and Parquet; and whole files of text."""

# pyright: basic
from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from typing import Any

from marin.errors import GarbledDocument, TruncatedShard
from marin.store.files.directory import Directory

JSON_ENDINGS = (".jsonl", ".json", ".ndjson")
TEXT_ENDINGS = (".txt", ".md")
COMPRESSED = (".gz", ".zst", ".zstd")


def is_readable(name: str) -> bool:
    """Whether read_records knows the format, by the name's ending."""
    return name.endswith(".parquet") or _stem(name).endswith(JSON_ENDINGS)


def is_text(name: str) -> bool:
    """Whether read_text takes it, by the name's ending."""
    return _stem(name).endswith(TEXT_ENDINGS)


def read_text(directory: Directory, name: str) -> str:
    """A whole file, plain or compressed. Raises TruncatedShard if it does not decompress, GarbledDocument if it is not
    UTF-8."""
    where = f"{directory.url}/{name}"
    content = b"".join(_lines(directory, name, where))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise GarbledDocument(
            f"{where}: byte {error.start} is no UTF-8; convert the file (iconv -f latin1 -t utf-8), or take it away"
        ) from error


def _stem(name: str) -> str:
    return next((name.removesuffix(ending) for ending in COMPRESSED if name.endswith(ending)), name)


def read_records(directory: Directory, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where it stands, record): ``…/part.jsonl.gz line 17`` or ``…/part.parquet row 17``, counted from 1.

    Raises TruncatedShard for a file that ends early or does not decompress, GarbledDocument for a line
    that is not a JSON object.
    """
    where = f"{directory.url}/{name}"
    if name.endswith(".parquet"):
        yield from _parquet(directory, name, where)
    elif _stem(name).endswith(JSON_ENDINGS):
        yield from _json_lines(directory, name, where)
    else:
        raise GarbledDocument(
            f"{where}: unknown format; wanted .parquet or JSON lines, plain or with {', '.join(COMPRESSED)}"
        )


def _json_lines(directory: Directory, name: str, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    number = 0
    for number, line in enumerate(_lines(directory, name, where), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            if not line.endswith(b"\n"):
                raise TruncatedShard(f"{where}: ends inside line {number}; fetch it again") from error
            raise GarbledDocument(f"{where} line {number}: not JSON ({error}); wanted one object a line") from error
        if not isinstance(record, dict):
            raise GarbledDocument(f"{where} line {number}: a {type(record).__name__}, wanted a JSON object")
        yield f"{where} line {number}", record


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
                f"{where}: {number} whole lines, then it cannot be decompressed ({error}); fetch it again"
            ) from error


class _WholeFrames(io.RawIOBase):
    """Decompressed bytes of concatenated zstd frames; unlike zstandard's reader, an unfinished frame is an error."""

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


def _parquet(directory: Directory, name: str, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with directory.open(name, "rb") as handle:
            file = pq.ParquetFile(handle)
            for group in range(file.num_row_groups):
                for batch in file.read_row_group(group, use_threads=False).to_batches(1024):
                    for record in batch.to_pylist():
                        number += 1
                        yield f"{where} row {number}", record
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise TruncatedShard(
            f"{where}: {number} whole rows, then it cannot be read ({error}); fetch it again"
        ) from error


def look_up(record: dict[str, Any], field: str) -> Any:
    """A field by dotted name, ``metadata.extension``; None if it is not there."""
    held: Any = record
    for part in field.split("."):
        if not isinstance(held, dict) or part not in held:
            return None
        held = held[part]
    return held
