"""What counts of files that are no Python source: data beside the code, and compiled modules."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

SHOWN = 64 << 10  # larger files are known by their checksum alone
MOST_BYTES = 64 << 20
MOST_FILES = 1000
_CHUNK = 1 << 20


class TooMuch(Exception):
    """Says how much, for a note."""


def content(path: Path) -> str:
    """The text of a small text file, size and checksum of any other, "not there". Raises TooMuch."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise TooMuch(f"{size:,} bytes")
        if size <= SHOWN:
            found = path.read_bytes()
            try:
                return found.decode() or "empty"
            except UnicodeDecodeError:
                return f"{size} bytes, sha256 {hashlib.sha256(found).hexdigest()}"
        with path.open("rb") as handle:
            return f"{size} bytes, sha256 {hashlib.file_digest(handle, 'sha256').hexdigest()}"
    except OSError:
        return "not there"


def listing(folder: Path) -> str:
    """Name, size and checksum of every file below that is no Python source and not hidden. Raises TooMuch."""
    lines: list[str] = []
    total = 0
    for path in _files(folder):
        size = path.stat().st_size
        total += size
        if len(lines) == MOST_FILES or total > MOST_BYTES:
            raise TooMuch(f"more than {len(lines):,} files or {MOST_BYTES:,} bytes")
        with path.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        lines.append(f"{path.relative_to(folder).as_posix()} {size} {digest}")
    return "\n".join(sorted(lines)) or "empty"


def _files(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for name in sorted(names):
            if not name.startswith(".") and not name.endswith((".py", ".pyc")):
                yield Path(where, name)
