"""Files below a local folder, without the store's own: stamps that show whether a file was written to, and refusals.

An output holds regular files. A link may lead to other bytes tomorrow, and a folder behind a link would be missing from
the manifest. Opening a named pipe waits for ever.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from marin.errors import NotAFile
from marin.store.layout import OWN as OWN_FOLDER

OWN = f"{OWN_FOLDER}/"  # the store's own files, in every output


class FileStamp(NamedTuple):
    """A file's metadata, known without reading the file. If two stamps are equal, nobody wrote to the file in between.

    written: time of the last write in ns; for an object its checksum, or its creation time if the store keeps none.
    changed: time of the last change of bytes or metadata in ns, which no program can set. access: mode, owner, group,
    hard links.
    """

    size: int
    written: int | float | str
    changed: int = 0
    inode: int = 0
    access: tuple[int, ...] = ()

    def was_written(self, now: FileStamp | None) -> bool:
        """May the file have been written to since? A change of mode, owner or links alone does not count."""
        if now is None or (now.size, now.written) != (self.size, self.written):
            return True
        return now.changed != self.changed and now.access == self.access


def file_stamps(folder: str) -> dict[str, FileStamp]:
    """Return the stamp of every file below, by its relative name."""
    return {name: _stamp(entry) for name, entry in files_below(folder)}


def output_stamps(folder: str) -> dict[str, FileStamp]:
    """Return the stamp of every file of a new output. Raises NotAFile for an entry that an output cannot hold."""
    stamps: dict[str, FileStamp] = {}
    for name, entry in entries_below(folder):
        if why := _refusal(entry):
            raise NotAFile(f"{folder}/{name} is {why}")
        stamps[name] = _stamp(entry)
    return stamps


def folder_stamp(folder: str) -> str:
    """Return the digest of names, sizes and modification times of every file below; "" if there is no folder."""
    try:
        found = [(name, _status(entry)) for name, entry in entries_below(folder)]
    except FileNotFoundError:
        return ""
    if not found and not os.path.isdir(folder):
        return ""
    return stamps_digest((name, status.st_size, status.st_mtime_ns) for name, status in found)


def stamps_digest(found: Iterable[tuple[str, int, object]]) -> str:
    """Return the ``folder_stamp`` of a folder with these files: name, size and time of the last write of each."""
    lines = sorted(f"{name} {size} {written}" for name, size, written in found)
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()[:32]


def _stamp(entry: os.DirEntry[str]) -> FileStamp:
    status = entry.stat()
    access = (status.st_mode, status.st_uid, status.st_gid, status.st_nlink)
    return FileStamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, access)


def files_below(root: str) -> list[tuple[str, os.DirEntry[str]]]:
    """Return the files and the links to files below, without the store's own. A missing folder is empty.

    ``not_files`` finds entries of other kinds. Raises OSError for a folder that cannot be listed.
    """
    return [(name, entry) for name, entry in entries_below(root) if _is_file(entry)]


def _is_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) or (entry.is_symlink() and os.path.isfile(entry.path))


def _status(entry: os.DirEntry[str]) -> os.stat_result:
    """Return the status of a link's target, or of the link itself if it has no target."""
    try:
        return entry.stat()
    except OSError:
        return entry.stat(follow_symlinks=False)


def must_hold_files(url: str, called: str = "", links: Collection[str] = ()) -> None:
    """Raise NotAFile if a directory holds an entry that an output cannot hold.

    url: of the directory. called: the directory's name for people. links: as for ``not_files``.
    """
    for name, why in not_files(url, links):
        raise NotAFile(f"{called or url}/{name} is {why}")


def not_files(url: str, links: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield (name, what it is and what to do) for each entry that is no regular file. Opens nothing.

    links: names that may be links to files. marin before December 2026 committed links.
    """
    if "://" in url:
        return
    for name, entry in entries_below(url):
        if (why := _refusal(entry)) and not (name in links and _is_file(entry)):
            yield name, why


def _refusal(entry: os.DirEntry[str]) -> str:
    """Return why an output cannot hold this entry and what to do; "" for a regular file."""
    if entry.is_file(follow_symlinks=False):
        return ""
    if entry.is_symlink():
        return f"a link to {os.readlink(entry.path)}; copy the file or remove the link"
    return "a pipe, a socket or a device, not a file; remove it"


def entries_below(folder: str, below: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every entry below that is not a folder, without the store's own. A missing folder is empty."""
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        if below:  # deleted meanwhile
            raise
        return
    with entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield f"{below}{entry.name}", entry
            elif below or entry.name != OWN_FOLDER:
                yield from entries_below(entry.path, f"{below}{entry.name}/")
