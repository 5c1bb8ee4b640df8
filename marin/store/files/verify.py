"""Compare an output with its manifest, and make the manifest of a new output."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from marin.store.files.directory import Directory
from marin.store.files.manifest import FileEntry
from marin.store.files.walk import FileStamp, not_files, output_stamps
from marin.store.objects.stored import Stored

CHUNK = 1 << 20
EVERY_BYTE = sys.maxsize  # as a bound on the bytes to read
WORTH_THREADS = 16 << 20  # bytes; reading less takes less time than starting threads


class Check(StrEnum):
    """The thoroughness of a comparison of an output with its manifest.

    SIZES: names and sizes. CHECKSUMS: also the store's own checksums, and every byte of a file without one.
    BYTES: every byte.
    """

    SIZES = "sizes"
    CHECKSUMS = "checksums"
    BYTES = "bytes"


class Checked(StrEnum):
    """The comparison of an input's files with its manifest that was made before a step read them.

    Names and sizes are always compared.
    """

    UNKNOWN = ""  # an alias read nothing; or an older marin compared names and sizes and did not record it
    SIZES = "sizes"
    SAMPLE = "sample"  # some whole files
    FULL = "full"  # every byte, or the store's own checksum


def file_entry(directory: Directory, path: str, pass_on: Callable[[bytes], object] = lambda _: None) -> FileEntry:
    """Read a file and return its entry. pass_on: takes the bytes as they are read."""
    hasher, size = hashlib.sha256(), 0
    with directory.open(path) as handle:
        while chunk := handle.read(CHUNK):
            pass_on(chunk)
            hasher.update(chunk)
            size += len(chunk)
    return FileEntry(path=path, size=size, sha256=hasher.hexdigest())


def manifest_and_stamps(directory: Directory) -> tuple[list[FileEntry], dict[str, FileStamp]]:
    """Return one entry for each file of an output, sorted by path, and the files' stamps from before they were read.

    Does not read files that this attempt sent to the store. Raises NotAFile, before it reads anything.
    """
    if directory.is_local:
        stamps = output_stamps(directory.url)
        return [file_entry(directory, path) for path in sorted(stamps)], stamps
    from marin.store.files.transfer import side_by_side
    from marin.store.files.written import hashes

    stored = directory.listing()
    known = hashes(directory.url, stored)
    read = side_by_side(lambda path: file_entry(directory, path), [path for path in stored if path not in known])
    known |= {entry.path: entry.sha256 for entry in read}
    entries = [
        FileEntry(path=path, size=stored[path].size, sha256=known[path], checksum=stored[path].checksum)
        for path in sorted(stored)
    ]
    return entries, directory.file_stamps(stored)


class Examined(Struct, frozen=True, kw_only=True):
    """The result of comparing an output with its manifest. wrong: the differences. checked: how thoroughly."""

    wrong: list[str]
    checked: Checked


def examine(
    directory: Directory,
    entries: Sequence[FileEntry],
    check: Check,
    at_most: int = EVERY_BYTE,
    seed: str = "",
    listed: Mapping[str, Stored] | None = None,
) -> Examined:
    """Compare an output with its manifest.

    at_most: bytes to read. If the files are larger, read a sample of whole files that fits, chosen by ``seed``.
    listed: the directory's listing, if the caller has just made one.
    """
    not_kept = dict(not_files(directory.url, {entry.path for entry in entries}))
    found = [f"no file: {name} is {why}" for name, why in not_kept.items()]
    unread: list[FileEntry] = []
    listed = directory.listing() if listed is None else listed
    present = {name: there for name, there in listed.items() if name not in not_kept}
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
    """Choose whole files of at most so many bytes together. A seed always chooses the same files."""
    if sum(entry.size for entry in entries) <= at_most:
        return entries
    chosen: list[FileEntry] = []
    for entry in sorted(entries, key=lambda entry: hashlib.sha256(f"{seed} {entry.path}".encode()).digest()):
        if 0 < entry.size <= at_most:
            chosen.append(entry)
            at_most -= entry.size
    return chosen


def _sha256_of(directory: Directory, entries: list[FileEntry]) -> dict[str, str]:
    """Return the sha256 of each file by path. Reads large sets in threads: hashing releases the GIL."""
    if sum(entry.size for entry in entries) < WORTH_THREADS:
        read = [file_entry(directory, entry.path) for entry in entries]
    else:
        from marin.store.files.transfer import side_by_side

        read = side_by_side(lambda entry: file_entry(directory, entry.path), entries)
    return {entry.path: entry.sha256 for entry in read}
