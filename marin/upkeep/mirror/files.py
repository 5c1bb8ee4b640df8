"""Copy the files of one output from one store to another, and verify every byte.

A file appears under its name only once its bytes match the manifest. If both stores are buckets of one kind, the store
copies and the checksums are compared. Otherwise the bytes pass through this machine and are hashed. A file that an
interrupted copy left in the folder counts if its size and its checksum are right, or else its bytes.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import IO, Any

from msgspec import Struct, field

from marin.errors import CorruptOutput, StoreError
from marin.store.files import transfer
from marin.store.files.directory import Directory
from marin.store.files.manifest import FileEntry
from marin.store.files.verify import file_entry, manifest_and_stamps
from marin.store.files.walk import must_hold_files
from marin.store.files.written import Written, forget, note
from marin.store.layout import PARTIAL
from marin.store.objects.clients import REMOTE
from marin.store.objects.stored import Stored


class CopyProgress(Struct):
    """Counts of bytes and files. copied: from the source. resumed: left there by an interrupted copy.

    moved: called with bytes as they arrive.
    """

    moved: Callable[[int], object] = lambda _: None
    copied_bytes: int = 0
    copied_files: int = 0
    resumed_bytes: int = 0
    resumed_files: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, size: int, *, resumed: bool) -> None:
        with self._lock:
            if resumed:
                self.resumed_bytes, self.resumed_files = self.resumed_bytes + size, self.resumed_files + 1
            else:
                self.copied_bytes, self.copied_files = self.copied_bytes + size, self.copied_files + 1


def copy_files(
    source: Directory,
    target: Directory,
    entries: list[FileEntry],
    progress: CopyProgress,
    go_on: Callable[[], None],
) -> list[FileEntry]:
    """Copy an output's files, and return the target's manifest.

    go_on: raises if the copy must stop. Raises CorruptOutput for a file that differs from its manifest; that file does
    not appear in the target. Raises NotAFile if the source holds anything but files.
    """
    must_hold_files(source.url, links={entry.path for entry in entries})
    try:
        transfer.side_by_side(_Copier(source, target, progress, go_on).bring, entries)
        found, _ = manifest_and_stamps(target)
    finally:
        forget(target.url)
    if target.is_local:
        (target / PARTIAL).remove()
    return found


class _Copier:
    def __init__(self, source: Directory, target: Directory, progress: CopyProgress, go_on: Callable[[], None]) -> None:
        self.source, self.target, self.progress, self.go_on = source, target, progress, go_on
        self.there = target.listing()
        one_kind = transfer.scheme_of(source.url) == transfer.scheme_of(target.url) in REMOTE
        self.offered = source.listing() if one_kind else dict[str, Stored]()  # files that the store itself can copy

    def bring(self, entry: FileEntry) -> None:
        self.go_on()
        there = self._there_already(entry)
        here = there or self._copied_by_the_store(entry)
        if here is None:
            self._stream(entry)
        else:
            # Let manifest_and_stamps trust the file, unless it changes, so that it need not be read.
            known = Written(size=here.size, sha256=entry.sha256, md5="", stored=here)
            note({f"{self.target.url}/{entry.path}": known})
            self.progress.moved(entry.size)
        self.progress.add(entry.size, resumed=there is not None)

    def _there_already(self, entry: FileEntry) -> Stored | None:
        """Return the file if the target holds it. Stores of different kinds may keep the same checksum of a file."""
        there = self.there.get(entry.path)
        if there is None or there.size != entry.size:
            return None
        alike = there.checksum and there.checksum.partition(":")[2] == entry.checksum.partition(":")[2]
        return there if alike or file_entry(self.target, entry.path).sha256 == entry.sha256 else None

    def _copied_by_the_store(self, entry: FileEntry) -> Stored | None:
        """Let the store copy a file between two buckets of one kind. Return the copy if its checksum proves it.

        A file that S3 received in parts has another checksum than its copy.
        """
        offered = self.offered.get(entry.path)
        in_parts = entry.checksum.startswith("etag:") and "-" in entry.checksum
        right = entry.size, entry.checksum
        if not entry.checksum or in_parts or offered is None or (offered.size, offered.checksum) != right:
            return None
        try:
            self.source.copy(entry.path, self.target)
            here = transfer.info(f"{self.target.url}/{entry.path}")
        except StoreError:
            return None  # another account or server: copy through this machine, which names the error
        return here if (here.size, here.checksum) == right else None

    def _stream(self, entry: FileEntry) -> None:
        where = f"{self.source.url}/{entry.path}"

        def pass_on(chunk: bytes) -> None:
            self.go_on()
            writing.write(chunk)
            self.progress.moved(len(chunk))

        with self._appearing(entry.path) as writing:
            try:
                found = file_entry(self.source, entry.path, pass_on)
            except FileNotFoundError as error:
                raise CorruptOutput(f"{where} is missing, but in its manifest; rebuild it with --rebuild") from error
            if (found.size, found.sha256) != (entry.size, entry.sha256):
                raise CorruptOutput(
                    f"{where} differs from its manifest: {found.size} bytes, sha256 {found.sha256[:12]}; wanted "
                    f"{entry.size}, {entry.sha256[:12]}. It was not mirrored; rebuild it there with --rebuild"
                )

    @contextmanager
    def _appearing(self, path: str) -> Generator[IO[Any]]:
        """Open a file of the target. It appears whole when the context ends, and not at all after an error."""
        if not self.target.is_local:
            with self.target.open(path, "wb") as writing:
                yield writing
            return
        partial = self.target.path / PARTIAL / uuid.uuid4().hex
        partial.parent.mkdir(parents=True, exist_ok=True)
        target = self.target.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as writing:
                yield writing
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
