"""Sharded documents on disk: ``shard-00000-of-00004.parquet``, zstd. Equal documents give equal bytes."""

# pyright: basic
from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from marin.errors import GarbledDocument, TruncatedShard
from marin.store.files.directory import Directory

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("metadata", pa.string(), nullable=False),
    ]
)
# A row group ends at the first limit that it reaches. Arrow string arrays hold at most 2 GiB.
ROWS_PER_GROUP = 4096
BYTES_PER_GROUP = 64 << 20

SHARD = re.compile(r"shard-(\d{5})-of-(\d{5})\.parquet")


@dataclass(frozen=True)
class Document:
    """One text. source: its origin, for people. metadata: JSON-able."""

    text: str
    source: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Return the xxh3-128 of the text in UTF-8, as 32 hex digits."""
        return xxhash.xxh3_128_hexdigest(self.text.encode())


def shard_name(index: int, shards: int) -> str:
    return f"shard-{index:05d}-of-{shards:05d}.parquet"


def shard_names(directory: Directory) -> list[str]:
    """Return the names of the shards at the top of a directory, in order.

    Raises TruncatedShard if there is none, if one is missing, or if two writers' shards are mixed.
    """
    found = [name for name in directory.names() if SHARD.fullmatch(name)]
    if not found:
        raise TruncatedShard(
            f"{directory.url}: expected shard-00000-of-….parquet, found no shard; rebuild the step that wrote it"
        )
    totals = sorted({int(name[15:20]) for name in found})
    expected = [shard_name(index, totals[0]) for index in range(totals[0])]
    if found != expected:
        missing = sorted(set(expected) - set(found))
        extra = sorted(set(found) - set(expected))
        raise TruncatedShard(
            f"{directory.url}: expected {len(expected)} shards, found {len(found)}"
            + (f"; missing {', '.join(missing[:3])}" if missing else "")
            + (f"; unexpected {', '.join(extra[:3])}" if extra else "")
            + "; rebuild the step that wrote it"
        )
    return found


def read_documents(directory: Directory) -> Iterator[Document]:
    """Yield every document in order of shards and rows. Raises TruncatedShard for a broken shard."""
    for name in shard_names(directory):
        yield from read_shard(directory, name)


def read_documents_from(directory: Directory, first: int) -> Iterator[Document]:
    """Yield every document after the first ``first``. Row groups before them are not read. Raises TruncatedShard."""
    for name in shard_names(directory):
        if not first:
            yield from read_shard(directory, name)
            continue
        try:
            with directory.open(name, "rb") as handle:
                file = parquet_file(handle)
                for group in range(file.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    if first < rows:
                        for row in file.read_row_group(group, use_threads=False).slice(first).to_pylist():
                            yield Document(row["text"], row["source"], json.loads(row["metadata"]))
                    first = max(first - rows, 0)
        except (pa.ArrowException, OSError, EOFError, ValueError, KeyError) as error:
            raise TruncatedShard(
                f"{directory.url}/{name} cannot be read ({_first_line(error)}); rebuild the step that wrote it"
            ) from error


def read_shard(directory: Directory, name: str) -> Iterator[Document]:
    """Yield the documents of one shard.

    Raises TruncatedShard, which names the file, the expected columns and rows, and the rows found.
    """
    for batch in _batches(directory, name, SCHEMA):
        columns = [batch.column(index).to_pylist() for index in range(1, 4)]
        for text, source, metadata in zip(*columns, strict=True):
            yield Document(text, source, json.loads(metadata) if metadata != "{}" else {})


def read_keyed(directory: Directory, name: str) -> Iterator[tuple[str, Document]]:
    """Yield the documents of one shard like ``read_shard``, each with its stored id."""
    for key, text, source, metadata in read_rows(directory, name, SCHEMA):
        yield key, Document(text, source, json.loads(metadata))


def write_documents(out: Directory, documents: Iterable[Document], shards: int = 1) -> tuple[int, int, int]:
    """Write all documents, in order, into contiguous shards of (almost) equal counts.

    Returns (documents, UTF-8 bytes of text, shards). One shard is streamed. For several shards, all
    documents are held in memory to count them, so large jobs write shard by shard with write_shard.
    Raises GarbledDocument for text that cannot be encoded as UTF-8 or metadata that is not JSON.
    """
    if shards < 1:
        raise ValueError(f"{out.url}: shards is {shards}; wanted at least 1")
    if shards == 1:
        return (*write_shard(out, 0, 1, documents), 1)
    held = list(documents)
    cuts = [len(held) * index // shards for index in range(shards + 1)]
    written = [write_shard(out, index, shards, held[cuts[index] : cuts[index + 1]]) for index in range(shards)]
    return (sum(rows for rows, _ in written), sum(size for _, size in written), shards)


def write_shard(out: Directory, index: int, shards: int, documents: Iterable[Document]) -> tuple[int, int]:
    """Write one shard of ``shards``. Returns (documents, UTF-8 bytes of text)."""
    size = 0

    def rows() -> Iterator[tuple[str, ...]]:
        nonlocal size
        for position, document in enumerate(documents):
            where = f"{out.url}/{shard_name(index, shards)}: document {position} from {document.source!r}"
            try:
                encoded = document.text.encode()
            except UnicodeEncodeError as error:
                raise GarbledDocument(f"{where}: {error}; the text is not valid Unicode, normalise it first") from error
            size += len(encoded)
            key = xxhash.xxh3_128_hexdigest(encoded)
            yield key, document.text, document.source, _to_json(document.metadata, where)

    return write_rows(out, shard_name(index, shards), SCHEMA, rows()), size


def write_rows(out: Directory, name: str, schema: pa.Schema, rows: Iterable[Sequence[str]]) -> int:
    """Write rows of strings as one Parquet file with deterministic bytes, also for sidecars. Returns their number."""
    with out.open(name, "wb") as handle:
        return _write(handle, schema, rows)


def read_rows(directory: Directory, name: str, schema: pa.Schema) -> Iterator[tuple[str, ...]]:
    """Yield the rows that write_rows wrote. Raises TruncatedShard as read_shard does."""
    for batch in _batches(directory, name, schema):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _write(handle: IO[bytes], schema: pa.Schema, rows: Iterable[Sequence[str]]) -> int:
    total = 0
    options: dict[str, Any] = {"compression": "zstd", "store_schema": False, "write_page_checksum": True}
    with pq.ParquetWriter(handle, schema, **options) as writer:
        group: list[Sequence[str]] = []
        size = 0
        for row in rows:
            group.append(row)
            size += sum(map(len, row))
            if len(group) == ROWS_PER_GROUP or size >= BYTES_PER_GROUP:
                writer.write_batch(_batch(group, schema))
                total += len(group)
                group, size = [], 0
        if group:
            writer.write_batch(_batch(group, schema))
        return total + len(group)


def _batch(rows: list[Sequence[str]], schema: pa.Schema) -> pa.RecordBatch:
    # Built from buffers, because pa.array() imports pandas if it is installed: .2 s in every new process.
    arrays = [_strings(column) for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _strings(column: Sequence[str]) -> pa.Array:
    encoded = [cell.encode() for cell in column]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        raise GarbledDocument(
            f"a document has {max(map(len, encoded))} bytes, but a row group holds at most 2 GiB; split it first"
        )
    offsets = pa.py_buffer(ends.astype(np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), len(encoded), [None, offsets, pa.py_buffer(b"".join(encoded))])


def parquet_file(handle: IO[bytes]) -> pq.ParquetFile:
    """Open a Parquet file that verifies its checksums and is read by this thread alone.

    Arrow's own threads may release a Python file while the interpreter shuts down. The process then aborted in one of
    300 programs that read a file and exit at once.
    """
    return pq.ParquetFile(handle, page_checksum_verification=True, pre_buffer=False)


def _batches(directory: Directory, name: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    found, expected = 0, "a Parquet file"
    try:
        with directory.open(name, "rb") as handle:
            try:
                file = parquet_file(handle)
                expected = f"{file.metadata.num_rows} rows"
                columns = [f"{column.name} ({column.type})" for column in file.schema_arrow]
                if columns != [f"{column.name} ({column.type})" for column in schema]:
                    raise pa.ArrowInvalid(f"its columns are {', '.join(columns)}")
                for group in range(file.num_row_groups):
                    batch = file.read_row_group(group, use_threads=False)
                    yield from batch.to_batches()
                    found += batch.num_rows
            # OSError: zstd and checksum failures. EOFError and ValueError: broken offsets.
            except (pa.ArrowException, OSError, EOFError, ValueError) as error:
                raise TruncatedShard(
                    f"{directory.url}/{name}: expected {expected} with columns {', '.join(schema.names)}, found "
                    f"{found} readable rows ({_first_line(error)}); rebuild or fetch it again"
                ) from error
    except FileNotFoundError as error:
        raise TruncatedShard(f"{directory.url}/{name}: expected a shard, found no file; rebuild it") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _to_json(metadata: Mapping[str, Any], where: str) -> str:
    try:
        return json.dumps(dict(metadata), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise GarbledDocument(f"{where}: its metadata is not JSON: {error}") from error
