"""Local folders for files that must be written through a path, uploaded when the work is done.

A folder stands in for one directory of the store, in one process, while a context lasts. Files that are written
through ``Directory.open`` go to the store at once and need no folder.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from marin.store.files import transfer
from marin.store.files.walk import OWN, must_hold_files

_open: dict[str, Staging] = {}
_lock = threading.Lock()


class Staging:
    """A local folder that stands in for a directory of the store.

    url: the directory. filled: the folder begins with the directory's files.
    """

    def __init__(self, url: str, *, filled: bool) -> None:
        self.url, self.filled = url, filled
        self._folder: Path | None = None
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path:
        """Return the folder, below $TMPDIR. The first call makes it."""
        with self._lock:
            if self._folder is None:
                folder = Path(tempfile.mkdtemp(prefix="marin-staged-"))
                try:
                    if self.filled:
                        names = [name for name in transfer.walk(self.url) if not name.startswith(OWN)]
                        transfer.fetch(self.url, names, folder)
                except BaseException:
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
                self._folder = folder
        return self._folder

    def staged(self, name: str) -> Path | None:
        """Return the staged file or folder of that name, or None."""
        if self._folder is None or not (self._folder / name).exists():
            return None
        return self._folder / name

    def names(self) -> list[str]:
        folder = self._folder
        if folder is None:
            return []
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())

    def must_hold_files(self) -> None:
        """Raise NotAFile if the folder holds anything that an output cannot hold. Call it before ``deliver``."""
        if self._folder is not None:
            must_hold_files(str(self._folder), self.url)

    def deliver(self) -> None:
        """Upload every staged file, and remove the folder."""
        if self._folder is not None:
            folder = self._folder
            transfer.side_by_side(lambda name: transfer.upload(folder / name, f"{self.url}/{name}"), self.names())
            self.remove()

    def remove(self) -> None:
        with self._lock:
            folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def staging(url: str, *, filled: bool = False) -> Generator[Staging]:
    """Open a folder that stands in for this directory until the context ends. Only ``deliver`` uploads its files.

    If a folder already stands in for the directory, return that one; the caller that opened it delivers it.
    """
    with _lock:
        is_ours = url not in _open
        here = _open.setdefault(url, Staging(url, filled=filled))
    try:
        yield here
    finally:
        if is_ours:
            with _lock:
                del _open[url]
            here.remove()


def standing_in(url: str) -> tuple[Staging, str] | None:
    """Return the folder that stands in for a directory or for one above it, and the path inside the folder."""
    with _lock:
        for root, staged_here in _open.items():
            if url == root or url.startswith(f"{root}/"):
                return staged_here, url[len(root) + 1 :]
    return None
