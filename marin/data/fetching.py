"""Fetch files by URL, resume and verify them, and read the file listings of publishers."""

# pyright: basic
from __future__ import annotations

import gzip
import hashlib
import netrc
import urllib.parse
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

from marin.data.http_file import HttpFile
from marin.data.kept_files import KeptFile, scratch
from marin.data.resuming import bring
from marin.errors import InputError
from marin.store.files.directory import Directory


@dataclass(frozen=True)
class Fetched:
    """One fetched file. origin: its place. checked: the publisher's checksum, verified; "" if none is published."""

    name: str
    bytes: int
    origin: str
    checked: str

    def line(self) -> str:
        return f"{self.name}: {self.bytes:,} bytes, {self.checked or 'no checksum published'}, from {self.origin}"


def fetch_http(file: HttpFile, out: Directory, state: Directory) -> Fetched:
    """Fetch one file into ``out``. A file in ``state`` from an earlier attempt is resumed, or reused if complete.

    Raises InputError, which names the URL, if it is unreachable or refused, or if the pinned checksum differs.
    """
    size = _fetch(file, state).put_into(out)
    return Fetched(file.path, size, file.url, f"sha256 {file.sha256}" if file.sha256 else "")


def read_index(index: HttpFile, state: Directory) -> list[str]:
    """Return the lines of a pinned listing of paths (plain or gzip)."""
    kept = _fetch(index, state)
    content = kept.directory.read_bytes(kept.name)
    try:
        text = (gzip.decompress(content) if index.path.endswith(".gz") else content).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{index.url}: not a list of paths ({error}); check the URL") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _fetch(file: HttpFile, state: Directory) -> KeptFile:
    kept = KeptFile(state, file.path, file.url, file.sha256)
    if kept.there():
        return kept
    with scratch(state) as folder:
        part = folder / f"{kept.key}.part"
        bring(file.url, part, login=_login(file.url), pinned=bool(file.sha256))
        found = sha256(part)
        if file.sha256 and found != file.sha256:
            part.unlink()
            raise InputError(
                f"{file.url}: sha256 is {found}, wanted {file.sha256}; the file changed at its source or was "
                "damaged on the way. Run again; if the message returns, ask the publisher and pin the new checksum"
            )
        kept.take(part)
    return kept


def _login(url: str) -> str:
    """Return the Authorization header from ~/.netrc, "" if it has no entry. No field of a step may hold a secret."""
    try:
        found = netrc.netrc().authenticators(urllib.parse.urlsplit(url).hostname or "")
    except FileNotFoundError:
        return ""
    except netrc.NetrcParseError as error:
        raise InputError(f"~/.netrc cannot be read: {error}; correct it") from error
    return f"Basic {b64encode(f'{found[0]}:{found[2]}'.encode()).decode()}" if found else ""


def sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
