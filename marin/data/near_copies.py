"""Near copies of shards of documents, found in steps that are tasks: a shard's or a bucket's each, files between them.

sign_shard → propose (a bucket) → narrow_shard → compare_shard → decide (one for all) → sieve_shard. A step that is done
is not done again. The copies are the same whatever the shards and buckets.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.data import parts
from marin.data.documents import SCHEMA, Document, read_rows
from marin.data.dropped import Dropped, Sieved, sieve
from marin.store.files.directory import Directory
from marin.text.near import PORTION, Sets, candidates, compare
from marin.text.near_keys import KEY, Keys, chunks, keys
from marin.text.near_pairs import COPY, PAIR, Pairs, first_copies, merged, proposals
from marin.text.near_rule import NearDuplicates
from marin.text.shingles import U64, shingle_set

BUCKET_KEYS = 1 << 24  # that are compared in one task
BATCH_KEYS = 1 << 20  # of them, at a time at first
SHARD = 40  # bits of a place below its shard's number
HEAD = 2  # numbers of a record before its shingles


@dataclass(frozen=True, kw_only=True)
class Work:
    """Where the parts are. shards: of all sources in order; from own on they are those that documents go from.

    A document's place is its shard's number and, below it, where its record starts in the shard's file of sets: two
    numbers that are its id, and its shingles.
    """

    state: Directory
    rule: NearDuplicates
    shards: int
    own: int
    buckets: int

    def part(self, stage: str, number: int) -> Directory:
        return self.state / stage / str(number)


def sign_shard(task: tuple[Work, int, Directory, str]) -> None:
    """Shingles and keys of a shard; keys by bucket."""
    work, at, inputs, name = task
    out = work.part("signed", at)
    if out.exists(parts.DONE):
        return
    ids: list[bytes] = []

    def sets() -> Iterator[U64]:
        for key, text, _, _ in read_rows(inputs, name, SCHEMA):
            ids.append(bytes.fromhex(key))
            yield shingle_set(text, work.rule.words)

    sizes: list[int] = []
    found = [np.empty(0, KEY)]
    end = at << SHARD
    with out.open("sets", "wb") as file:
        for chunk in chunks(sets()):
            lengths = [HEAD + len(each) for each in chunk]
            ends = end + np.cumsum([0, *lengths]).astype(np.uint64)
            found.append(keys(chunk, ends[:-1], work.rule))
            for each in chunk:
                file.write(ids[len(sizes)])
                file.write(each.tobytes())
                sizes.append(len(each))
            end = int(ends[-1])
    held = np.concatenate(found)
    buckets = (held["key"] % np.uint64(work.buckets)).astype(np.int64)
    parts.write(out, "sizes", np.array(sizes, np.int64))
    parts.write(out, "keys", held[np.argsort(buckets, kind="stable")])
    parts.finish(out, np.bincount(buckets, minlength=work.buckets))


def propose(task: tuple[Work, int]) -> int:
    """Pairs of one bucket, by the later document's shard. Returns how many keys were crowded."""
    work, bucket = task
    out = work.part("proposed", bucket)
    if not out.exists(parts.DONE):
        counts, crowded = np.zeros(work.shards, np.int64), 0
        with out.open("pairs", "wb") as file:
            for proposed in proposals(_batches(work, bucket), work.own << SHARD, work.rule):
                file.write(proposed.pairs.tobytes())
                counts += np.bincount(_shards(proposed.pairs["later"]), minlength=work.shards)
                crowded += proposed.crowded
        parts.finish(out, counts, crowded)
    return int(out.read_text(parts.DONE))


def _batches(work: Work, bucket: int) -> Iterator[Keys]:
    """A bucket's keys in order of places, each batch about as large as all before it: few are sorted often."""
    batch: list[Keys] = []
    before = size = 0
    for at in range(work.shards):
        batch.append(parts.read_part(work.part("signed", at), "keys", KEY, bucket))
        size += len(batch[-1])
        if size >= min(max(BATCH_KEYS, before), BUCKET_KEYS):
            yield np.concatenate(batch)
            before, size = before + size, 0
            batch.clear()
    if batch:
        yield np.concatenate(batch)


def narrow_shard(task: tuple[Work, int]) -> None:
    """The plausible pairs of a shard, and which of its documents may be copies."""
    work, at = task
    out = work.part("narrowed", at)
    if out.exists(parts.DONE):
        return
    pairs = merged(
        [parts.read_part(work.part("proposed", bucket), "pairs", PAIR, at) for bucket in range(work.buckets)]
    )
    held = [candidates(portion, sets, work.rule) for portion, sets in _portions(work, at, pairs)]
    pairs = np.concatenate([np.empty(0, PAIR), *held])
    parts.write(out, "pairs", pairs)
    parts.write(out, "later", np.unique(pairs["later"]))
    parts.finish(out, np.array([len(pairs)]))


def compare_shard(task: tuple[Work, int]) -> int:
    """The copies in a shard. Returns how many pairs were compared."""
    work, at = task
    out = work.part("compared", at)
    if not out.exists(parts.DONE):
        pairs = parts.read(work.part("narrowed", at), "pairs", PAIR)
        held, compared = [np.empty(0, COPY)], 0
        for portion, sets in _portions(work, at, pairs):
            copies, looked_at = compare(portion, sets, lambda wanted: _earlier(work, wanted), work.rule)
            held.append(copies)
            compared += looked_at
        copies = np.concatenate(held)
        parts.write(out, "copies", copies)
        parts.finish(out, np.array([len(copies)]), compared)
    return int(out.read_text(parts.DONE))


def _portions(work: Work, at: int, pairs: Pairs) -> Iterator[tuple[Pairs, dict[int, U64]]]:
    """Pairs in order of later documents, which are all in one shard, and the shingles of those, some at a time."""
    signed = work.part("signed", at)
    sizes = parts.read(signed, "sizes", np.dtype(np.int64))
    starts = _starts(at, sizes)
    later, firsts = np.unique(pairs["later"], return_index=True)
    sizes = sizes[np.searchsorted(starts, later)]
    portion = np.cumsum(sizes) // PORTION
    for number in np.unique(portion):
        low, high = np.searchsorted(portion, [number, number + 1])
        records = _records(signed, later[low:high], sizes[low:high])
        sets = {place: record[HEAD:] for place, record in zip(later[low:high].tolist(), records, strict=True)}
        yield pairs[firsts[low] : firsts[high] if high < len(firsts) else None], sets


def _earlier(work: Work, wanted: Pairs) -> Sets:
    """A marin.text.near.Reader."""
    shards = _shards(wanted["earlier"])
    records: list[U64] = []
    stay = np.ones(len(wanted), np.bool_)
    for shard in np.unique(shards).tolist():
        here = shards == shard
        places = wanted["earlier"][here]
        records += _records(work.part("signed", shard), places, wanted["size"][here])
        if shard >= work.own:
            stay[here] = ~np.isin(places, parts.read(work.part("narrowed", shard), "later", np.dtype(np.uint64)))
    ids = np.array([record[:HEAD] for record in records], np.uint64).reshape(-1, HEAD)
    return Sets(ids, [record[HEAD:] for record in records], stay)


def decide(work: Work) -> None:
    """Which of the copies go, shard after shard."""
    own = range(work.own, work.shards)
    copies = (parts.read(work.part("compared", at), "copies", COPY) for at in own)
    for at, removed in zip(own, first_copies(copies), strict=True):
        parts.write(work.part("removed", at), "copies", removed)


def sieve_shard(task: tuple[Work, int, Directory, str], out: Directory) -> Sieved:
    """Write what stays of a shard, and of which document each other one is a copy."""
    work, at, inputs, name = task
    starts = _starts(at, parts.read(work.part("signed", at), "sizes", np.dtype(np.int64)))
    removed = parts.read(work.part("removed", at), "copies", COPY)
    copies = dict(zip(np.searchsorted(starts, removed["later"]).tolist(), removed, strict=True))
    row = -1

    def judge(document: Document) -> Document | Dropped:
        nonlocal row
        row += 1
        if row not in copies:
            return document
        copy: Any = copies[row]
        evidence = {
            "of": copy["id"].tobytes().hex(),
            "jaccard": round(float(copy["jaccard"]), 4),
            "containment": round(float(copy["containment"]), 4),
        }
        return Dropped(document.id, "near_duplicate", evidence)

    return sieve(inputs, name, out, judge)


def _starts(at: int, sizes: NDArray[Any]) -> U64:
    """Places of a shard's documents."""
    return (at << SHARD) + np.concatenate(([0], np.cumsum(sizes + HEAD)[:-1])).astype(np.uint64)


def _shards(places: U64) -> NDArray[Any]:
    return (places >> np.uint64(SHARD)).astype(np.int64)


def _records(signed: Directory, places: U64, sizes: NDArray[Any]) -> list[U64]:
    """Ids and shingles of documents of one shard."""
    starts = (places & np.uint64((1 << SHARD) - 1)).astype(np.int64)
    ends = starts + HEAD + sizes
    ranges = [(8 * start, 8 * end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return [np.frombuffer(content, np.uint64) for content in signed.read_ranges("sets", ranges)]
