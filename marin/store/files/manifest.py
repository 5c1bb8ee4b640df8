"""The manifest of an output: path, size and sha256 of each file, and digests over all files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict

from marin.errors import CorruptRecord
from marin.store.documents import BadDocument, Document


class FileEntry(Document, frozen=True, kw_only=True):
    """One file of an output.

    path: relative to the output. size: in bytes. sha256: in hex. checksum: the store's own, which checks the file
    without reading it; "" if the store keeps none.
    """

    path: str
    size: int
    sha256: str
    checksum: str = ""


def root_digest(entries: Iterable[FileEntry], kind: str, facts: dict[str, Any]) -> str:
    """Return the digest of every path, size and sha256, and of the artifact's kind and facts.

    Outputs with equal roots are equal.
    """
    described = [[entry.path, entry.size, entry.sha256] for entry in entries]
    return hashlib.sha256(json.dumps([kind, facts, described], sort_keys=True).encode()).hexdigest()


def content_digest(entries: Iterable[FileEntry]) -> str:
    """Return the digest of every path, size and sha256; "" if there is no file."""
    described = [[entry.path, entry.size, entry.sha256] for entry in entries]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest() if described else ""


class _Listed(Document, frozen=True, kw_only=True):
    """The file of an output's record. manifest: None in stores of before, which keep it in a file of its own."""

    manifest: list[FileEntry] | None = None


def with_manifest(record: bytes, entries: Iterable[FileEntry]) -> bytes:
    """Add the manifest to a record, which is one JSON object, as one more key. It has one file a line."""
    described = [{name: value for name, value in asdict(entry).items() if value != ""} for entry in entries]
    return record[:-1] + (',\n"manifest": [\n' + ",\n".join(map(json.dumps, described)) + "\n]}").encode()


def parse_manifest(content: bytes, where: str) -> list[FileEntry] | None:
    """Return the manifest in the file of an output's record; None if that has none, as in a store of before.

    The manifest's own file, in a store of before, is a list. Raises CorruptRecord if the manifest is malformed, or if a
    path leaves the output's directory.
    """
    try:
        is_list = content.lstrip().startswith(b"[")
        entries = FileEntry.parse_list(content) if is_list else _Listed.parse(content).manifest
    except BadDocument as error:
        raise CorruptRecord(f"{where} is not a readable manifest; `--rebuild` the step, or restore the file") from error
    for entry in entries or ():
        if leaves(entry.path):
            raise CorruptRecord(f"{where} lists {entry.path!r}, which is outside the output's directory")
    return entries


def leaves(path: str) -> bool:
    """Would joining this path to a directory leave the directory?"""
    return not path or os.path.isabs(path) or ".." in path.split("/")
