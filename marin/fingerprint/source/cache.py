"""Keep the content of source files in the user's cache folder, so that each version of a file is parsed once.

::

    {folder}/sources/<digest>    the content of one file as JSON, behind a checksum

``folder`` is the cache folder of ``marin.store.files.checksums``. The name is a digest of the file's bytes, the
module's name and the code that reads, so new code finds no old entry. A damaged entry is read again. The folder is safe
to delete. Nobody needs it: where it cannot be written, or others could write to it, each process parses every file.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from marin.fingerprint import origin
from marin.fingerprint.source.module import ModuleSource
from marin.store.files.checksums import SOURCES, memory_folder

MOST = 4096  # entries of about 10 KB each; the older half goes when there are more
LARGEST = 1 << 20  # bytes of an entry
_CHECKSUM = 16  # bytes
_IMPORTED_NS = time.time_ns()
_decoder = msgspec.json.Decoder(ModuleSource)


class SourceCache:
    """A reader of source files, which parses only files whose content no process has kept."""

    def __init__(self) -> None:
        self._has_room = False

    def read(self, path: Path, name: str) -> ModuleSource:
        """Return the content of a file. Raises OSError, and SyntaxError if Python could not import the file either."""
        source, is_package = path.read_bytes(), path.name == "__init__.py"
        entry = ""
        if self._folder is not None:
            entry = f"{self._folder}/{_digest(_reader(), name.encode(), b'%d' % is_package, source).hex()}"
            if (kept := _kept(entry)) is not None:
                return kept
        # Most plans parse nothing, and do without these imports.
        from marin.fingerprint.source.reading import read

        found = read(source, name, path, is_package=is_package)
        if entry and len(found.units) == len(found.bindings) + bool(found.effects) + found.has_script:
            with suppress(OSError, UnicodeEncodeError):
                self._keep(entry, msgspec.json.encode(found))
        return found

    def _keep(self, entry: str, content: bytes) -> None:
        """Write an entry. Another process may write the same entry meanwhile."""
        if len(content) > LARGEST or _reader_is_newer():
            return
        folder = os.path.dirname(entry)
        if not self._has_room:
            _make_room(folder)
            self._has_room = True
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(_digest(content) + content)
        os.replace(file.name, entry)

    @functools.cached_property
    def _folder(self) -> str | None:
        """Return the folder of the entries; None if it cannot be made or others could write to it."""
        above = memory_folder()
        if above is None or _reader_is_newer():
            return None
        folder = above / SOURCES
        with suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            state = folder.stat()
            if stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077:
                return str(folder)
        return None


def _kept(entry: str) -> ModuleSource | None:
    try:
        with open(entry, "rb") as file:
            held = file.read()
        content = held[_CHECKSUM:]
        return _decoder.decode(content) if _digest(content) == held[:_CHECKSUM] else None
    except (OSError, msgspec.DecodeError):
        return None


def _make_room(folder: str) -> None:
    """Delete the older half of the entries if there are too many."""
    if len(os.listdir(folder)) <= MOST:
        return
    written: list[tuple[int, str]] = []
    for entry in os.scandir(folder):
        with suppress(OSError):  # another process deletes entries too
            written.append((entry.stat().st_mtime_ns, entry.path))
    for _, path in sorted(written)[: len(written) // 2]:
        with suppress(OSError):
            os.unlink(path)


def _digest(*parts: bytes) -> bytes:
    made = hashlib.blake2b(digest_size=_CHECKSUM)
    for part in parts:
        made.update(b"%d " % len(part))
        made.update(part)
    return made.digest()


@functools.cache
def _files() -> list[Path]:
    return [*sorted(Path(__file__).parent.glob("*.py")), Path(origin.__file__)]


@functools.cache
def _reader() -> bytes:
    """Return a digest of the code that reads, and of Python."""
    files = (part for file in _files() for part in (file.name.encode(), file.read_bytes()))
    return _digest(sys.version.encode(), *files)


def _reader_is_newer() -> bool:
    """Return whether a file of the reader was written after this process imported the reader."""
    return max(file.stat().st_ctime_ns for file in _files()) >= _IMPORTED_NS
