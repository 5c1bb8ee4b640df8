"""The content of an output as entries for people: documents, decoded token stores, items, metrics, files.

Also all of its text, for a search.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from marin.errors import BadField, CorruptOutput, InputError, UnknownStep, did_you_mean
from marin.store.files.directory import Directory
from marin.store.inventory import Inventory
from marin.store.numbers import write_bytes
from marin.store.record import Record
from marin.training.metrics import METRICS

if TYPE_CHECKING:
    from marin.data.tokenizer import LoadedTokenizer

TEXT = ("documents", "tokens")  # kinds of artifacts that hold training text
ITEMS, REPORT = "items.jsonl", "report.json"
RECORDS = (".parquet", ".jsonl", ".ndjson")
COMPRESSED = (".gz", ".zst", ".zstd")
AT_ONCE = 4096  # documents of a token store that count as one shard
LONG = 4000  # tokens of a document that are decoded, unless the whole document is wanted


class Form(Enum):
    """The form of entries. TEXTS: a title and a text each. ROWS: a table. LINES: printed as they are.

    SAMPLED: a table with so many rows that a few evenly spaced ones say more than the first.
    """

    TEXTS = auto()
    ROWS = auto()
    SAMPLED = auto()
    LINES = auto()


@dataclass(frozen=True)
class Entry:
    """One entry. title, text: for people. data: everything, JSON-able."""

    data: Any
    title: str = ""
    text: str = ""


@dataclass(frozen=True)
class Contents:
    """Entries of an output. total: None if only reading tells. read(first): the entries from that number on."""

    form: Form
    total: int | None
    read: Callable[[int], Iterator[Entry]]


def contents(inventory: Inventory, record: Record, *, whole: bool, most: int | None = None) -> Contents:
    """Return the main content of an output. whole: every token of a long document, not only its beginning.

    most: see contents_of_file.
    """
    directory = inventory.store.output(record)
    facts = record.facts
    if record.kind == "documents":
        return Contents(Form.TEXTS, facts["documents"], lambda first: _documents(directory, first))
    if record.kind == "tokens":
        tokenizer = tokenizer_of(inventory, record)
        return Contents(
            Form.TEXTS, facts["documents"], lambda first: _token_documents(directory, tokenizer, first, whole)
        )
    if record.kind == "items":
        return Contents(Form.TEXTS, facts["items"], lambda first: itertools.islice(_items(directory), first, None))
    if record.kind == "scores":
        return _rows([{"metric": name, "value": value} for name, value in facts["metrics"].items()])
    if record.kind == "tokenizer":
        known: dict[str, int] = cast(Any, _loaded(directory).tokenizer).get_vocab(with_added_tokens=True)
        return _rows([{"id": number, "token": token} for token, number in sorted(known.items(), key=itemgetter(1))])
    entries = inventory.store.manifest(record)
    paths = [entry.path for entry in entries]
    if telling := [name for name in (METRICS, REPORT) if name in paths] or (paths if len(paths) == 1 else []):
        return contents_of_file(inventory, record, telling[0], most)
    return _rows([{"file": entry.path, "bytes": entry.size, "sha256": entry.sha256} for entry in entries])


def contents_of_file(inventory: Inventory, record: Record, path: str, most: int | None = None) -> Contents:
    """Return the content of one file of an output. Raises UnknownStep with near misses.

    most: bytes to read and to decompress of a file that can only be read whole. Reading a larger file raises BadField.
    Parquet and JSON lines are read in pieces.
    """
    paths = [entry.path for entry in inventory.store.manifest(record)]
    if path not in paths:
        raise UnknownStep(f"{record.name} has no file {path!r}; {did_you_mean(path, paths)}")
    directory = inventory.store.output(record)
    stem = next((path.removesuffix(ending) for ending in COMPRESSED if path.endswith(ending)), path)
    if stem.endswith(RECORDS):
        form = Form.SAMPLED if path.endswith(METRICS) else Form.ROWS
        return Contents(form, None, lambda first: itertools.islice(_records(directory, path), first, None))
    if stem.endswith(".json"):
        made = json.loads(_bytes(directory, path, most))
        text = json.dumps(made, indent=1, ensure_ascii=False)
        return Contents(Form.LINES, 1, lambda first: iter([Entry(made, path, text)][first:]))
    return Contents(Form.LINES, None, lambda first: itertools.islice(_lines(directory, path, most), first, None))


def _rows(rows: list[dict[str, Any]]) -> Contents:
    return Contents(Form.ROWS, len(rows), lambda first: (Entry(row) for row in rows[first:]))


def _documents(directory: Directory, first: int) -> Iterator[Entry]:
    from marin.data.documents import read_documents_from

    for number, document in enumerate(read_documents_from(directory, first), start=first):
        data = {"id": document.id, "text": document.text, "source": document.source, "metadata": document.metadata}
        extra = f" {json.dumps(document.metadata, ensure_ascii=False)}" if document.metadata else ""
        yield Entry(data, f"document {number} · {document.source} · {document.id}{extra}", document.text)


def _token_documents(directory: Directory, tokenizer: Directory | None, first: int, whole: bool) -> Iterator[Entry]:
    from marin.data.token_store import TokenStore

    store = TokenStore.open(directory)
    decode = None if tokenizer is None else _loaded(tokenizer).decode
    for number in range(first, store.meta.documents):
        start, end = int(store.offsets[number]), int(store.offsets[number + 1])
        cut = end if whole else min(end, start + LONG)
        ids = [int(token) for token in store.tokens[start:cut]]
        data: dict[str, Any] = {"document": number, "tokens": ids}
        if decode is not None:
            data["text"] = decode(ids)
        more = f" (the first {LONG:,} are shown; --full)" if cut < end else ""
        text = data.get("text", " ".join(map(str, ids)))
        yield Entry(data, f"document {number} · {end - start:,} tokens{more}", text)


def tokenizer_of(inventory: Inventory, record: Record) -> Directory | None:
    """Return the tokenizer of these tokens: the input, or an output with an equal tokenizer; None if there is none."""
    there = inventory.records
    read = [there[each.identity] for each in record.inputs if each.identity in there]
    for each in [*read, *inventory.newest_first()]:
        if each.kind == "tokenizer" and each.facts.get("digest") == record.facts.get("tokenizer"):
            return inventory.store.output(each)
    return None


def _items(directory: Directory) -> Iterator[Entry]:
    for number, entry in enumerate(_records(directory, ITEMS)):
        item: Mapping[str, Any] = entry.data
        text = f"{item.get('question', '')}\n→ {item.get('answer', '')}"
        yield Entry(item, f"item {number} · {item.get('id', '')} · final {item.get('final', '')}", text)


def _records(directory: Directory, path: str) -> Iterator[Entry]:
    from marin.data.raw_records import read_records

    return (Entry(record) for _, record in read_records(directory, path))


def _bytes(directory: Directory, path: str, most: int | None) -> bytes:
    limit = -1 if most is None else most + 1
    try:
        content = b"" if most is not None and directory.size(path) > most else directory.read_bytes(path)
    except FileNotFoundError as error:
        raise CorruptOutput(f"{directory.url}/{path} is missing; `marin audit --bytes` says what else is") from error
    if content and path.endswith(".gz"):
        content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(limit)
    elif content and path.endswith((".zst", ".zstd")):
        import zstandard

        content = zstandard.ZstdDecompressor().stream_reader(content).read(limit)
    if most is not None and (len(content) > most or directory.size(path) > most):
        raise BadField(f"{directory.url}/{path} has more than {write_bytes(most)}, too much to be shown whole")
    return content


def _lines(directory: Directory, path: str, most: int | None) -> Iterator[Entry]:
    content = _bytes(directory, path, most)
    if b"\0" in content[:8192]:
        yield Entry(None, text=f"{directory.url}/{path} is not text: {len(content):,} bytes")
        return
    for line in content.decode(errors="replace").split("\n"):
        yield Entry(line, text=line)


def cached_text(inventory: Inventory, record: Record, every: int = 1) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of each document. every: only one shard in so many. Memory: a row group of documents.

    Raises a MarinError or OSError for unreadable text: damaged files, or tokens without their tokenizer.
    """
    output = inventory.store.output(record)
    if record.kind == "tokens":
        yield from _decoded(inventory, record, output, every)
        return
    from marin.data.documents import read_shard, shard_names

    for name in shard_names(output)[::every]:
        for row, document in enumerate(read_shard(output, name)):
            yield f"{name} row {row}", document.text


def _decoded(inventory: Inventory, record: Record, output: Directory, every: int) -> Iterator[tuple[str, str]]:
    from marin.data.token_store import TokenStore
    from marin.data.tokenizer import check_digest

    digest, folder = record.facts["tokenizer"], tokenizer_of(inventory, record)
    if folder is None:
        raise InputError(
            f"the store does not hold the tokenizer of these tokens, whose digest is {digest[:12]}; add that tokenizer "
            "with a step: PretrainedTokenizer, or FolderTokenizer if it is not on the hub"
        )
    tokenizer = _loaded(folder)
    check_digest(tokenizer, digest, folder)
    store = TokenStore.open(output)
    for first in range(0, store.meta.documents, AT_ONCE * every):
        for number in range(first, min(first + AT_ONCE, store.meta.documents)):
            start, end = int(store.offsets[number]), int(store.offsets[number + 1])
            yield f"document {number}", tokenizer.decode(store.tokens[start:end].tolist())


@lru_cache(maxsize=1)  # the token stores of one experiment share a tokenizer
def _loaded(folder: Directory) -> LoadedTokenizer:
    from marin.data.tokenizer import load_tokenizer

    return load_tokenizer(folder)


_CONDITION = re.compile(r"([^=!<>~]+?)\s*(!=|<=|>=|=|<|>|~)\s*(.*)", re.DOTALL)
_MISSING = object()
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """A condition on entries. how: one of =, !=, <, <=, >, >=, ~ (a regular expression that matches somewhere).

    field: a name, or names joined by dots. Fields of a document's metadata also work without ``metadata.``.
    """

    field: str
    how: str
    wanted: str

    def fits(self, data: Any) -> bool:
        held = self.value(data)
        if held is _MISSING or held is None:
            return self.how == "!="
        if self.how == "~":
            return re.search(self.wanted, written(held)) is not None
        if self.how in _ORDER:
            compare = _ORDER[self.how]
            try:
                return compare(float(held), float(self.wanted))
            except (TypeError, ValueError):  # text against text
                return isinstance(held, str) and compare(held, self.wanted)
        return (written(held) == self.wanted or _equal_numbers(held, self.wanted)) is (self.how == "=")

    def value(self, data: Any) -> Any:
        """Return the field's value in an entry, or _MISSING."""
        found = _look_up(data, self.field)
        return _look_up(data, f"metadata.{self.field}") if found is _MISSING else found


def parse_condition(text: str) -> Condition:
    """Return the condition in a text. Raises BadField if there is none."""
    parsed = _CONDITION.fullmatch(text)
    if parsed is None:
        raise BadField(f"{text!r} is no condition; wanted FIELD=VALUE, or !=, <, <=, >, >=, ~ in place of =")
    field, how, wanted = parsed.groups()
    if how == "~":
        try:
            re.compile(wanted)
        except re.error as error:
            raise BadField(f"{text!r}: {wanted!r} is no regular expression: {error}") from error
    return Condition(field.strip(), how, wanted)


def only(found: Contents, conditions: Sequence[Condition]) -> Contents:
    """Return the entries that fit all conditions. Reading to the end raises BadField for a field that no entry has."""

    def read(first: int) -> Iterator[Entry]:
        unseen, names = {each.field: each for each in conditions}, dict[str, None]()
        for entry in found.read(first):
            for each in [each for each in unseen.values() if each.value(entry.data) is not _MISSING]:
                del unseen[each.field]
            if unseen:
                names |= dict.fromkeys(_names(entry.data))
            if all(each.fits(entry.data) for each in conditions):
                yield entry
        if unseen and names:
            raise BadField(f"no entry has the field {next(iter(unseen))!r}; there are {', '.join(names)}")

    return Contents(found.form, None, read) if conditions else found


def written(held: Any) -> str:
    """Return the value as a person would type it."""
    return str(held).lower() if isinstance(held, bool) else str(held)


def _equal_numbers(held: Any, wanted: str) -> bool:
    try:
        return not isinstance(held, bool) and isinstance(held, int | float) and float(held) == float(wanted)
    except ValueError:
        return False


def _look_up(data: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(data, dict) or part not in data:
            return _MISSING
        data = cast("dict[str, Any]", data)[part]
    return data


def _names(data: Any, before: str = "") -> Iterator[str]:
    if not isinstance(data, dict):
        return
    for name, held in cast("dict[str, Any]", data).items():
        if isinstance(held, dict) and held:
            yield from _names(held, f"{before}{name}.")
        else:
            yield f"{before}{name}"
