"""Comparing an output with its manifest, and making the manifest of a new one."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from marin.store.files.directory import Directory
from marin.store.files.manifest import FileEntry
from marin.store.files.regular import must_hold_files, not_files

CHUNK = 1 << 20
EVERY_BYTE = sys.maxsize  # as a bound on how much is read
WORTH_THREADS = 16 << 20  # bytes; less is read sooner than threads are started
HASH_THREADS = min(8, os.cpu_count() or 1)


class Check(StrEnum):
    """How well to look. SIZES: names and sizes. CHECKSUMS: the store's own checksums too, and every byte of a file that
    has none. BYTES: every byte."""

    SIZES = "sizes"
    CHECKSUMS = "checksums"
    BYTES = "bytes"


class Checked(StrEnum):
    """How the files of an input were compared with its manifest before a step read them, names and sizes always."""

    UNKNOWN = ""  # nothing was read (an alias), or by a marin that compared names and sizes and did not say so
    SIZES = "sizes"
    SAMPLE = "sample"  # some whole files
    FULL = "full"  # every byte, or the checksum that the store keeps of it


def file_entry(directory: Directory, path: str) -> FileEntry:
    hasher = hashlib.sha256()
    size = 0
    with directory.open(path, "rb") as handle:
        while chunk := handle.read(CHUNK):
            hasher.update(chunk)
            size += len(chunk)
    return FileEntry(path=path, size=size, sha256=hasher.hexdigest())


def manifest_of(directory: Directory) -> list[FileEntry]:
    """One entry per file of an output, sorted by path. Reads no file that this attempt itself sent to the store.

    Raises NotAFile, before it reads anything.
    """
    must_hold_files(directory.url)
    if directory.is_local:
        return [file_entry(directory, path) for path in directory.names()]
    from marin.store.files.transfer import side_by_side
    from marin.store.files.written import hashes

    stored = directory.listing()
    known = hashes(directory.url, stored)
    read = side_by_side(lambda path: file_entry(directory, path), [path for path in stored if path not in known])
    known |= {entry.path: entry.sha256 for entry in read}
    return [
        FileEntry(path=path, size=stored[path].size, sha256=known[path], checksum=stored[path].checksum)
        for path in sorted(stored)
    ]


@dataclass(frozen=True, kw_only=True)
class Examined:
    """wrong: how an output differs from its manifest. checked: how well that is known."""

    wrong: list[str]
    checked: Checked


def examine(
    directory: Directory, entries: Sequence[FileEntry], check: Check, at_most: int = EVERY_BYTE, seed: str = ""
) -> Examined:
    """Compare an output with its manifest.

    at_most: bytes to read. Where there are more, whole files that fit in are read, chosen by ``seed``.
    """
    not_kept = dict(not_files(directory.url))
    found = [f"no file: {name} is {why}" for name, why in not_kept.items()]
    unread: list[FileEntry] = []
    present = {name: there for name, there in directory.listing().items() if name not in not_kept}
    for entry in entries:
        there = present.pop(entry.path, None)
        if entry.path in not_kept:
            continue
        if there is None:
            found.append(f"missing: {entry.path}")
        elif there.size != entry.size:
            word = "truncated" if there.size < entry.size else "longer"
            found.append(f"{word}: {entry.path} has {there.size} bytes, the manifest says {entry.size}")
        elif check is Check.BYTES or not there.checksum or there.checksum != entry.checksum:
            unread.append(entry)
    chosen = [] if check is Check.SIZES else _sample(unread, at_most, seed)
    sums = _sha256_of(directory, chosen)
    found += [f"changed: {entry.path} (same size, other bytes)" for entry in chosen if sums[entry.path] != entry.sha256]
    found += [f"extra: {path}" for path in sorted(present)]
    if len(chosen) == len(unread):
        return Examined(wrong=found, checked=Checked.FULL)
    return Examined(wrong=found, checked=Checked.SAMPLE if chosen or len(unread) < len(entries) else Checked.SIZES)


def _sample(entries: list[FileEntry], at_most: int, seed: str) -> list[FileEntry]:
    """Whole files of no more than so many bytes together: the same ones for the same seed, others for another."""
    if sum(entry.size for entry in entries) <= at_most:
        return entries
    chosen: list[FileEntry] = []
    for entry in sorted(entries, key=lambda entry: hashlib.sha256(f"{seed} {entry.path}".encode()).digest()):
        if 0 < entry.size <= at_most:
            chosen.append(entry)
            at_most -= entry.size
    return chosen


def _sha256_of(directory: Directory, entries: list[FileEntry]) -> dict[str, str]:
    """By path. Several files at once where there is much to read: hashing leaves other threads room."""

    def digest(entry: FileEntry) -> str:
        return file_entry(directory, entry.path).sha256

    if len(entries) > 1 and sum(entry.size for entry in entries) >= WORTH_THREADS:
        with ThreadPoolExecutor(HASH_THREADS) as pool:
            return {entry.path: found for entry, found in zip(entries, pool.map(digest, entries), strict=True)}
    return {entry.path: digest(entry) for entry in entries}
