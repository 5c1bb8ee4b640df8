"""A place that files can be read from and written to: a local folder or any fsspec URL."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from marin.errors import BadName
from marin.store.files.walk import OWN, FileStamp, file_stamps, files_below, folder_stamp, stamps_digest

if TYPE_CHECKING:
    from marin.store.objects.stored import Stored

LONGEST_PART, LONGEST_NAME = 255, 900  # bytes: the limit of disks for a part; a little below the limit of object stores
_PLAIN = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*")  # nearly every name matches


@dataclass(frozen=True)
class Directory:
    """A directory of files. url: an absolute local path or ``scheme://…``. Names below it use ``/``."""

    url: str

    def __truediv__(self, name: str) -> Directory:
        """Return the directory of this name below. Raises BadName."""
        return Directory(f"{self.url.rstrip('/')}/{checked(name)}")

    @property
    def is_local(self) -> bool:
        return "://" not in self.url

    @property
    def path(self) -> Path:
        """Return a local path of the directory.

        On an object store, the path of a running step's output is a local folder, uploaded when ``run`` returns. The
        path of a committed output is a local copy, checked against its manifest (see store.files.cache).
        Raises StoreError for another remote directory.
        """
        if self.is_local:
            return Path(self.url)
        from marin.store.files.cache import cached
        from marin.store.files.staging import standing_in

        here = standing_in(self.url)
        if here is None:
            return cached(self.url)
        folder = here[0].folder / here[1]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def open(self, name: str, mode: str = "rb") -> Generator[IO[Any]]:
        """Open one file. Writing makes missing parent folders. Text modes are UTF-8.

        On an object store a written file appears whole when the context ends, and not at all if the context ends with
        an error. Object stores cannot append. Raises BadName, FileNotFoundError.
        """
        checked(name)
        if "r" not in mode and name.startswith(OWN):
            raise BadName(f"{self.url}/{name}: {OWN} holds the store's own files; choose another name")
        encoding = None if "b" in mode else "utf-8"
        if self.is_local:
            with _opened(f"{self.url}/{name}", mode, encoding) as handle:
                yield handle
        elif "r" in mode:
            from marin.store.files.transfer import reader

            here = self._staged(name)
            with here.open(mode, encoding=encoding) if here else reader(f"{self.url}/{name}", mode) as handle:
                yield handle
        else:
            from marin.store.files.transfer import writer

            with writer(f"{self.url}/{name}", mode) as handle:
                yield handle

    def exists(self, name: str = "") -> bool:
        """Is there such a file, or a folder that is not empty?"""
        if self.is_local:
            return os.path.exists(f"{self.url}/{name}" if name else self.url)
        from marin.store.objects import listing

        return self._staged(name) is not None or listing.exists(f"{self.url}/{name}" if name else self.url)

    def names(self) -> list[str]:
        """Return the relative name of every file below, sorted, without ``.marin/``. Empty if nothing is there."""
        if self.is_local:
            return sorted(name for name, _ in files_below(self.url))
        return sorted(self.listing())

    def listing(self) -> dict[str, Stored]:
        """Return the files of ``names``, each with its size and the store's own checksum. Takes one listing."""
        from marin.store.objects.stored import Stored

        if self.is_local:
            found = sorted(files_below(self.url), key=lambda stored: stored[0])
            return {name: Stored(entry.stat().st_size, "") for name, entry in found}
        from marin.store.files import transfer
        from marin.store.files.staging import standing_in

        found = {name: stored for name, stored in transfer.walk(self.url).items() if not name.startswith(OWN)}
        here = standing_in(self.url)
        if here is not None:
            below = f"{here[1]}/" if here[1] else ""
            for name in here[0].names():
                if name.startswith(below):
                    found[name.removeprefix(below)] = Stored((here[0].folder / name).stat().st_size, "")
        return found

    def file_stamps(self, listed: Mapping[str, Stored] | None = None) -> dict[str, FileStamp]:
        """Return the files of ``listing``, each with a stamp that shows whether the file was written to meanwhile.

        listed: the listing, if the caller has just made one of a directory on an object store.
        """
        if self.is_local:
            return file_stamps(self.url)
        listed = self.listing() if listed is None else listed
        return {name: FileStamp(stored.size, stored.checksum or stored.modified) for name, stored in listed.items()}

    def size(self, name: str) -> int:
        """Return the size of one file in bytes."""
        here = self.path / name if self.is_local else self._staged(name)
        if here is not None:
            return here.stat().st_size
        from marin.store.files import transfer

        return transfer.info(f"{self.url}/{name}").size

    def read_bytes(self, name: str) -> bytes:
        if self.is_local or self._staged(name) is not None:
            with self.open(name, "rb") as handle:
                return handle.read()
        from marin.store.files import transfer

        return transfer.read(f"{self.url}/{checked(name)}")

    def read_ranges(self, name: str, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Read bytes start … stop - 1 of one file for each range, concurrently; fewer bytes where the file ends."""
        if not self.is_local and self._staged(name) is None:
            from marin.store.files import transfer

            return transfer.read_ranges(f"{self.url}/{checked(name)}", ranges)
        with self.open(name) as handle:
            return [handle.read(stop - handle.seek(start)) for start, stop in ranges]

    def read_text(self, name: str) -> str:
        return self.read_bytes(name).decode()

    def write_bytes(self, name: str, content: bytes) -> None:
        with self.open(name, "wb") as handle:
            handle.write(content)

    def write_text(self, name: str, content: str) -> None:
        self.write_bytes(name, content.encode())

    def copy(self, name: str, target: Directory) -> None:
        """Copy one file into another directory, under the same name. Within one store, the store itself copies."""
        if not self.is_local and not target.is_local and self._staged(name) is None:
            from marin.store.files import transfer

            if transfer.scheme_of(self.url) == transfer.scheme_of(target.url):
                transfer.copy(f"{self.url}/{name}", f"{target.url}/{name}")
                return
        with self.open(name, "rb") as reading, target.open(name, "wb") as writing:
            shutil.copyfileobj(reading, writing, 1 << 22)

    def share(self, names: Iterable[str], target: Directory) -> None:
        """Put files that nobody will change into another directory as well.

        On one local disk they become hard links. Within one object store, the store copies them. Otherwise the bytes
        pass through this machine.
        """
        if not (self.is_local and target.is_local):
            from marin.store.files.transfer import side_by_side

            side_by_side(lambda name: self.copy(name, target), names)
            return
        for name in names:
            destination = target.path / checked(name)
            destination.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(self.path / name, destination)
            except OSError:
                shutil.copyfile(self.path / name, destination)

    def remove(self) -> None:
        """Delete the directory and everything below it, if it exists."""
        if self.is_local:
            shutil.rmtree(self.path, onexc=_unless_gone)
            return
        from marin.store.files import transfer

        transfer.remove(self.url)

    def stamp(self, stamps: Mapping[str, FileStamp] | None = None) -> str:
        """Return the digest of names, sizes and modification times of every file below, without ``.marin/``.

        "" if the store has no such times, or the directory does not exist. Reads no file.
        stamps: ``file_stamps``, if the caller has them.
        """
        if stamps is None or not self.is_local:
            return folder_stamp(self.url) if self.is_local else ""
        return stamps_digest((name, stamp.size, stamp.written) for name, stamp in stamps.items())

    def _staged(self, name: str) -> Path | None:
        """Return the local path of a file that was written through ``path`` and is not uploaded yet, or None."""
        from marin.store.files.staging import standing_in

        here = standing_in(self.url)
        return None if here is None else here[0].staged("/".join(part for part in (here[1], name) if part))


def checked(name: str) -> str:
    """Return the name. Raises BadName unless every kind of store accepts it and it stays below its directory."""
    if len(name) <= LONGEST_PART and _PLAIN.fullmatch(name):
        return name
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise BadName(
            f"{name!r} is not a file name below a directory; wanted parts joined by /, none empty, '.' or '..'"
        )
    try:
        encoded = [part.encode() for part in parts]
    except UnicodeEncodeError as error:
        raise BadName(f"{name!r} cannot be written in UTF-8; rename the file") from error
    if any(character < " " or character == "\x7f" for character in name):
        raise BadName(f"{name!r} has a control character; object stores refuse it, rename the file")
    longest = max(map(len, encoded))
    if longest > LONGEST_PART or sum(map(len, encoded)) + len(encoded) > LONGEST_NAME:
        raise BadName(
            f"{name[:60]}…: {longest} bytes in one part, {len(name.encode())} in all; the limits are "
            f"{LONGEST_PART} and {LONGEST_NAME}, so shorten the name"
        )
    return name


def _opened(path: str, mode: str, encoding: str | None) -> IO[Any]:
    """Open a local file, and make its folder only if that is missing. This saves a call for nearly every file."""
    try:
        return open(path, mode, encoding=encoding)
    except FileNotFoundError:
        if "r" in mode:
            raise
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return open(path, mode, encoding=encoding)


def _unless_gone(_remove: object, _path: str, error: BaseException) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
