"""Remove documents: record each removed document with its reason, and bound the share that may be removed."""

# pyright: basic
from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from marin.data.artifacts import Documents
from marin.data.documents import Document, read_rows, read_shard, shard_names, write_rows, write_shard
from marin.errors import OverRemoval
from marin.store.files.directory import Directory

# The sidecar's folder below the documents, with the same shard names.
FOLDER = "dropped"
TOOK_OUT = "took out "  # beginning of the log line about removed documents
PARTS = "parts of documents that stay"  # lines and paragraphs
SCHEMA = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("id", "reason", "detail")])


@dataclass(frozen=True)
class Dropped:
    """A removed document. id: of the document, or the place of a record that gave none. detail: JSON-able evidence.

    bytes: UTF-8 bytes of its text, 0 if it had none.
    """

    id: str
    reason: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    bytes: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Sieved:
    """The result of a filter: documents and UTF-8 bytes kept, and the removed ones by reason."""

    documents: int
    bytes: int
    dropped: dict[str, int]
    dropped_bytes: dict[str, int] = field(default_factory=dict)

    @property
    def seen(self) -> int:
        return self.documents + sum(self.dropped.values())


def sieve(inputs: Directory, name: str, out: Directory, judge: Callable[[Document], Document | Dropped]) -> Sieved:
    """Pass one shard through judge. Kept documents go to a shard of the same name, dropped ones to its sidecar."""
    index, shards, parts = int(name[6:11]), int(name[15:20]), 0

    def judged() -> Iterator[Document | Dropped]:
        nonlocal parts
        for document in read_shard(inputs, name):
            verdict, size = judge(document), len(document.text.encode())
            if isinstance(verdict, Dropped):
                verdict = replace(verdict, bytes=size)
            elif verdict.text is not document.text:
                parts += max(size - len(verdict.text.encode()), 0)
            yield verdict

    written = write_sieved(out, index, shards, judged())
    return replace(written, dropped_bytes=written.dropped_bytes | {PARTS: parts}) if parts else written


def write_sieved(out: Directory, index: int, shards: int, verdicts: Iterable[Document | Dropped]) -> Sieved:
    """Write one shard and its sidecar."""
    gone: list[Dropped] = []

    def staying() -> Iterator[Document]:
        for verdict in verdicts:
            if isinstance(verdict, Dropped):
                gone.append(verdict)
            else:
                yield verdict

    documents, size = write_shard(out, index, shards, staying())
    rows = [(drop.id, drop.reason, json.dumps(dict(drop.detail), sort_keys=True, ensure_ascii=False)) for drop in gone]
    write_rows(out / FOLDER, f"shard-{index:05d}-of-{shards:05d}.parquet", SCHEMA, rows)
    removed = Counter[str]()
    for drop in gone:
        removed[drop.reason] += drop.bytes
    counts = dict(sorted(Counter(drop.reason for drop in gone).items()))
    return Sieved(documents, size, counts, {reason: removed[reason] for reason in counts if removed[reason]})


def read_dropped(directory: Directory) -> Iterator[Dropped]:
    """Yield the documents that a step removed, in the order of its input."""
    for name in shard_names(directory / FOLDER):
        for key, reason, detail in read_rows(directory / FOLDER, name, SCHEMA):
            yield Dropped(key, reason, json.loads(detail))


def total(parts: Iterable[Sieved]) -> Sieved:
    """Return the sum over all shards, with reasons sorted by name."""
    held = list(parts)
    dropped, removed = Counter[str](), Counter[str]()
    for part in held:
        dropped.update(part.dropped)
        removed.update(part.dropped_bytes)
    documents, size = sum(part.documents for part in held), sum(part.bytes for part in held)
    return Sieved(documents, size, dict(sorted(dropped.items())), dict(sorted(removed.items())))


def remaining(
    step: str, source: str, written: Sequence[Sieved], bound: float, out: Directory, log: Callable[[str], None]
) -> Documents:
    """Return the Documents that a step keeps of a source, and log the removed ones. written: of each shard.

    Raises OverRemoval if more than ``bound`` of the documents were removed.
    """
    sieved = total(written)
    check_removed(step, source, sieved, bound, out)
    if sieved.dropped or sieved.dropped_bytes:
        log(what_went(sieved))
    return Documents(documents=sieved.documents, bytes=sieved.bytes, shards=len(written), dropped=sieved.dropped)


def what_went(sieved: Sieved) -> str:
    """Return ``took out 2 of 10 documents, 1,200 of 9,000 bytes: …``, the reasons with the most bytes first."""
    counts, sizes = sieved.dropped, sieved.dropped_bytes
    reasons: list[str] = []
    for why in sorted({**sizes, **counts}, key=lambda why: (-sizes.get(why, 0), -counts.get(why, 0), why)):
        size = f"({sizes[why]:,} bytes)" if why in sizes else ""
        reasons.append(" ".join(filter(None, [why, f"{counts[why]:,}" if why in counts else "", size])))
    gone, size = sum(counts.values()), sum(sizes.values())
    bytes_gone = f", {size:,} of {size + sieved.bytes:,} bytes" if size else ""
    return f"{TOOK_OUT}{gone:,} of {sieved.seen:,} documents{bytes_gone}: {', '.join(reasons)}"


def check_removed(step: str, source: str, sieved: Sieved, bound: float, out: Directory) -> None:
    """Raise OverRemoval if more than ``bound`` of the documents were removed."""
    removed = sum(sieved.dropped.values())
    if not removed or removed <= bound * sieved.seen:
        return
    top = sorted(sieved.dropped.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    raise OverRemoval(
        f"{step} removed {removed} of {sieved.seen} documents ({removed / sieved.seen:.1%}) of {source}; "
        f"at most {bound:.1%} may go. Top reasons: {', '.join(f'{reason} {count}' for reason, count in top)}. "
        f"Each is in {out.url}/{FOLDER}. If they should go, raise max_removed; if not, choose other rules"
    )
