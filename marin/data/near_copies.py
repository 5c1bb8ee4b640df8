"""Find near copies among shards of documents, in tasks of one shard or one bucket each that exchange files.

sign_shard → propose (a bucket) → narrow_shard → compare_shard → decide (one for all) → sieve_shard. A finished task is
never repeated. The result does not depend on the number of shards and buckets.
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

BUCKET_KEYS = 1 << 24  # keys that one task compares
BATCH_KEYS = 1 << 20  # keys in the first batch of a task
SHARD = 40  # bits of a place below the shard's number
HEAD = 2  # numbers in a record before its shingles


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work in progress of one deduplication. shards: of all sources in order. Copies go only from shards ≥ own.

    A document's place combines its shard's number (high bits) with the start of its record in the shard's file of
    sets (low bits). A record is two numbers for the document's id, then its shingles.
    """

    state: Directory
    rule: NearDuplicates
    shards: int
    own: int
    buckets: int

    def part(self, stage: str, number: int) -> Directory:
        return self.state / stage / str(number)


def sign_shard(task: tuple[Work, int, Directory, str]) -> None:
    """Write the shingles and keys of a shard, the keys by bucket."""
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
    """Write the pairs of one bucket by the later document's shard. Returns the number of crowded keys."""
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
    """Yield a bucket's keys in order of places. Each batch is about as large as all before, to limit the sorting."""
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
    """Write the plausible pairs of a shard, and the documents that may be copies."""
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
    """Write the copies in a shard. Returns the number of pairs compared."""
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
    """Yield portions of pairs in order of later documents (all in one shard), with these documents' shingles."""
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
    """Return the earlier documents of the pairs: a marin.text.near.Reader."""
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
    """Write the copies to remove, shard after shard."""
    own = range(work.own, work.shards)
    copies = (parts.read(work.part("compared", at), "copies", COPY) for at in own)
    for at, removed in zip(own, first_copies(copies), strict=True):
        parts.write(work.part("removed", at), "copies", removed)


def sieve_shard(task: tuple[Work, int, Directory, str], out: Directory) -> Sieved:
    """Write the documents of a shard that stay, and to the sidecar each copy with the id of its original."""
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
    """Return the places of a shard's documents."""
    return (at << SHARD) + np.concatenate(([0], np.cumsum(sizes + HEAD)[:-1])).astype(np.uint64)


def _shards(places: U64) -> NDArray[Any]:
    return (places >> np.uint64(SHARD)).astype(np.int64)


def _records(signed: Directory, places: U64, sizes: NDArray[Any]) -> list[U64]:
    """Return the ids and shingles of documents in one shard."""
    starts = (places & np.uint64((1 << SHARD) - 1)).astype(np.int64)
    ends = starts + HEAD + sizes
    ranges = [(8 * start, 8 * end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return [np.frombuffer(content, np.uint64) for content in signed.read_ranges("sets", ranges)]
