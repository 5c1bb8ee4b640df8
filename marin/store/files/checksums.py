"""Digests of local files, remembered until the file is touched.

They are in ``{folder}/checksums.sqlite``, see ``cache_folder``. A file is known by its device, inode, size, and the
times of its last write and last status change. A file that changed within the last seconds is read again next time,
because a second change may leave the same time. The database is safe to delete; without it every plan reads every file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from io import BufferedReader
from pathlib import Path

import xxhash

logger = logging.getLogger(__name__)
READERS = 8
SOURCES = "sources"  # the folder of marin.fingerprint.source.cache, inside of cache_folder
SETTLED_NS = 2_000_000_000  # coarser than the clock of any file system but FAT's
TABLE = "CREATE TABLE IF NOT EXISTS digests (key TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID"


def content_digest(handle: BufferedReader) -> str:
    """Return the xxh3 digest of the bytes, 32 hex digits."""
    return hashlib.file_digest(handle, xxhash.xxh3_128).hexdigest()


def content_digests(paths: Sequence[str]) -> dict[str, str]:
    """Return the ``content_digest`` of each file, reading only files that are new or were touched."""
    keys = {path: _key(os.stat(path)) for path in paths}
    known = _remembered(list(keys.values()))
    unread = [path for path in paths if keys[path] not in known]
    with ThreadPoolExecutor(READERS) as pool:
        fresh = dict(zip(unread, pool.map(_read, unread), strict=True))
    _remember({_key(status): digest for _, (digest, status) in fresh.items() if status is not None})
    return {path: fresh[path][0] if path in fresh else known[keys[path]] for path in paths}


def _read(path: str) -> tuple[str, os.stat_result | None]:
    """Return (digest, the status to remember it by, or None if it may not be remembered)."""
    with open(path, "rb") as handle:
        before = os.fstat(handle.fileno())
        digest = content_digest(handle)
        after = os.fstat(handle.fileno())
    settled = time.time_ns() - max(before.st_mtime_ns, before.st_ctime_ns) > SETTLED_NS
    return digest, before if settled and _key(before) == _key(after) else None


def _key(status: os.stat_result) -> str:
    parts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return " ".join(map(str, parts))


def cache_folder() -> Path:
    """Return the folder in which this user's processes keep copies and digests.

    ``$MARIN_CACHE``; else ``$XDG_CACHE_HOME/marin``, if that is an absolute path; else a folder of this user's below
    the machine's temporary one, because inputs are large and a home may be on the network.
    """
    if given := os.environ.get("MARIN_CACHE"):
        return Path(given)
    if os.path.isabs(home := os.environ.get("XDG_CACHE_HOME", "")):
        return Path(home) / "marin"
    return Path(tempfile.gettempdir()) / f"marin-cache-{os.getuid()}"


def memory_file() -> Path:
    """Return the path of the database of digests, which may not exist."""
    return cache_folder() / "checksums.sqlite"


def memory_folder() -> Path | None:
    """Make and return ``cache_folder``; None if it cannot be made or belongs to another user."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder if folder.stat().st_uid == os.getuid() else None
    except OSError:
        return None


def _remembered(keys: Sequence[str]) -> dict[str, str]:
    rows = _from_database(
        lambda database: [database.execute("SELECT * FROM digests WHERE key = ?", (key,)).fetchone() for key in keys]
    )
    return {str(row[0]): str(row[1]) for row in rows or () if row is not None}


def _remember(digests: dict[str, str]) -> None:
    if digests:
        _from_database(
            lambda database: database.executemany("INSERT OR REPLACE INTO digests VALUES (?, ?)", digests.items())
        )


def _from_database[T](ask: Callable[[sqlite3.Connection], T]) -> T | None:
    """Return the answer of the database in one transaction, or None if it cannot be used. Every file is read then."""
    if memory_folder() is None:
        return None
    try:
        with closing(sqlite3.connect(memory_file(), timeout=5.0)) as database, database:
            database.execute(TABLE)
            return ask(database)
    except sqlite3.Error as error:
        logger.info("every file is read: digests cannot be remembered in %s: %s", memory_file(), error)
        return None
