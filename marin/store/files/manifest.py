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


def manifest_bytes(entries: Iterable[FileEntry]) -> bytes:
    """Encode a manifest, one file a line."""
    described = [{name: value for name, value in asdict(entry).items() if value != ""} for entry in entries]
    return ("[\n" + ",\n".join(map(json.dumps, described)) + "\n]").encode()


def parse_manifest(content: bytes, where: str) -> list[FileEntry]:
    """Parse a manifest. Raises CorruptRecord if it is malformed or a path leaves the output's directory."""
    try:
        entries = FileEntry.parse_list(content)
    except BadDocument as error:
        raise CorruptRecord(f"{where} is not a readable manifest; `--rebuild` the step, or restore the file") from error
    for entry in entries:
        if leaves(entry.path):
            raise CorruptRecord(f"{where} lists {entry.path!r}, which is outside the output's directory")
    return entries


def leaves(path: str) -> bool:
    """Would joining this path to a directory leave the directory?"""
    return not path or os.path.isabs(path) or ".." in path.split("/")
