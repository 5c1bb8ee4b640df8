"""Files below a local folder, without the store's own, and stamps that tell whether somebody wrote to them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from marin.store.layout import OWN as OWN_FOLDER

OWN = f"{OWN_FOLDER}/"  # the store's own files, in every output


class FileStamp(NamedTuple):
    """What a file's system says of it without reading it: equal stamps, and nobody wrote to it in between.

    written: when, in ns; of an object its checksum, or when it was made where the store keeps none. changed: when its
    bytes or anything said of it changed last, in ns; no program can set that. access: mode, owner, group, hard links.
    """

    size: int
    written: int | float | str
    changed: int = 0
    inode: int = 0
    access: tuple[int, ...] = ()

    def was_written(self, now: FileStamp | None) -> bool:
        """May its bytes have been touched since? Not where its mode, owner or links explain what moved."""
        if now is None or (now.size, now.written) != (self.size, self.written):
            return True
        return now.changed != self.changed and now.access == self.access


def file_stamps(folder: str) -> dict[str, FileStamp]:
    """Of every file below, by its relative name."""
    return {name: _file_stamp(entry.stat()) for name, entry in files_below(folder)}


def folder_stamp(folder: str) -> str:
    """Digest of names, sizes and modification times of every file below; "" if the folder is not there."""
    try:
        found = [(name, _status(entry)) for name, entry in entries_below(folder)]
    except FileNotFoundError:
        return ""
    lines = [f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in found]
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()[:32]


def _file_stamp(status: os.stat_result) -> FileStamp:
    access = (status.st_mode, status.st_uid, status.st_gid, status.st_nlink)
    return FileStamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, access)


def files_below(root: str) -> list[tuple[str, os.DirEntry[str]]]:
    """Files and links to files, without the store's own; ``marin.store.files.regular`` tells what else is there.

    Raises OSError for a folder that cannot be listed; one that is not there is empty.
    """
    try:
        return [(name, entry) for name, entry in entries_below(root) if _is_file(entry)]
    except FileNotFoundError as error:
        if error.filename != root:
            raise
        return []


def _is_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) or (entry.is_symlink() and os.path.isfile(entry.path))


def _status(entry: os.DirEntry[str]) -> os.stat_result:
    """Of what a link leads to, or of the link where that is nothing."""
    try:
        return entry.stat()
    except OSError:
        return entry.stat(follow_symlinks=False)


def entries_below(folder: str, below: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything that is no folder, the store's own left out."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield f"{below}{entry.name}", entry
            elif below or entry.name != OWN_FOLDER:
                yield from entries_below(entry.path, f"{below}{entry.name}/")
