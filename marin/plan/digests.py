"""Digests of files and folders as they are now."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Iterable

from marin.fingerprint.ignored import Ignored
from marin.store.files.checksums import content_digests

ABSENT = ""  # instead of a digest
UNREADABLE = "cannot be read"


class Digests:
    """Digests of files and folders as they are now. Each is read once and remembered until ``forget``."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: dict[tuple[str, Ignored], str] = {}
        self._trees: dict[str, str] = {}

    def forget(self) -> None:
        self._files.clear()
        self._folders.clear()
        self._trees.clear()

    def add(self, paths: Iterable[str]) -> None:
        """Read all these files at once, which is quicker."""
        regular: list[str] = []
        for path in set(paths) - self._files.keys():
            try:
                status = os.stat(path)
                readable = os.access(path, os.R_OK)
            except (FileNotFoundError, NotADirectoryError):
                self._files[path] = ABSENT
                continue
            except OSError:
                self._files[path] = UNREADABLE
                continue
            if not stat.S_ISREG(status.st_mode):
                self._files[path] = f"mode {stat.S_IFMT(status.st_mode):o}"  # a folder, a pipe
            elif readable:
                regular.append(path)
            else:
                self._files[path] = UNREADABLE
        try:
            self._files |= content_digests(regular) if regular else {}
        except OSError:  # one went away meanwhile
            for path in regular:
                self._files[path] = UNREADABLE if os.path.exists(path) else ABSENT

    def file(self, path: str) -> str:
        if path not in self._files:
            self.add([path])
        return self._files[path]

    def folder(self, path: str, ignored: Ignored) -> str:
        """Return the number of names in a folder, and their digest. path: the folder, or a pattern for ``glob``."""
        if (path, ignored) not in self._folders:
            if glob.has_magic(path):
                base = fixed(path)
                found = ignored.left((os.path.relpath(each, base) for each in glob.iglob(path, recursive=True)), path)
            else:
                try:
                    found = ignored.left(os.listdir(path))
                except OSError:
                    return ABSENT
            text = "\n".join(names := sorted(set(found))).encode(errors="surrogateescape")
            self._folders[path, ignored] = f"{len(names):,} names, {hashlib.sha256(text).hexdigest()[:24]}"
        return self._folders[path, ignored]

    def tree(self, path: str) -> str:
        """Return the number of files below a folder, and the digest of their names and contents."""
        if path not in self._trees:
            found = sorted(
                os.path.join(where, name)
                for where, _, names in os.walk(path)
                for name in names
                if "__pycache__" not in where and not name.startswith(".")
            )
            self.add(found)
            text = "\n".join(f"{os.path.relpath(each, path)} {self._files[each]}" for each in found)
            digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]
            self._trees[path] = f"{len(found):,} files, {digest}"
        return self._trees[path]


def fixed(path: str) -> str:
    """Return the folder that a pattern starts from. A path without a pattern is returned unchanged."""
    parts = path.split(os.sep)
    magic = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return os.sep.join(parts[:magic]) or os.sep
