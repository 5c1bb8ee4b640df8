"""Copy the files of one output from one store to another. Every byte is verified, and none is copied twice.

::

    {attempt}/.marin/mirror.json        the output that this attempt copies: later attempts reuse its files
    {attempt}/.marin/verified.jsonl     each file that has arrived whole and was verified
    {attempt}/.marin/partial/           on a disk: files that are being copied

A file appears under its name only once its bytes match the manifest. If both stores are of one kind and keep checksums,
the store copies and the checksums are compared. Otherwise the bytes pass through this machine and are hashed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import uuid
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from marin.errors import CorruptOutput, StoreError
from marin.store.documents import BadDocument, Document
from marin.store.files.directory import Directory
from marin.store.files.manifest import FileEntry
from marin.store.files.verify import CHUNK, file_entry
from marin.store.files.walk import must_hold_files
from marin.store.layout import ARRIVED, MIRROR, PARTIAL, RECORD
from marin.store.objects.stored import Stored
from marin.store.record import Record
from marin.store.store import Store

AT_A_TIME = 8  # files
WORTH_NOTING, WORTH_NOTING_BYTES = 4, 8 << 20  # files, bytes: copying less again is faster than noting it


class Marker(Document, frozen=True, kw_only=True):
    """The output that an attempt copies. root: of the bytes, from any store."""

    root: str


class Verified(Document, frozen=True, kw_only=True):
    """A file that has arrived whole.

    checksum, modified: the store's own; "" and 0 if it keeps none or was not asked. md5: of the bytes; "" if they did
    not pass through this machine.
    """

    path: str
    size: int
    sha256: str
    md5: str = ""
    checksum: str = ""
    modified: float = 0.0


@dataclass(frozen=True)
class Earlier:
    """An earlier attempt that did not finish."""

    directory: Directory
    verified: dict[str, Verified]


@dataclass
class CopyProgress:
    """Counts of bytes and files. copied: from the source. resumed: from an earlier attempt.

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


def earlier_attempts(store: Store, record: Record, but: str) -> list[Earlier]:
    """Return the attempts to copy this output, except the attempt ``but``. Takes two reads for each."""
    op, _, last = but.rpartition("/")
    stem = f"{record.identity[:12]}."
    found: list[Earlier] = []
    for name in store.objects.list(op):
        marker = store.objects.read(f"{op}/{name}/{MIRROR}") if stem in name and name != last else None
        if marker is None or marker != Marker(root=record.root).to_json():
            continue
        lines = store.objects.read_log(f"{op}/{name}/{ARRIVED}").splitlines()
        verified: dict[str, Verified] = {}
        for line in lines:
            with contextlib.suppress(BadDocument):  # a killed writer leaves half a line
                file = Verified.parse(line)
                verified[file.path] = file
        found.append(Earlier(store.directory / f"{op}/{name}", verified))
    return found


def clear_away(store: Store, attempt: str, earlier: Iterable[Earlier]) -> None:
    """Delete partial files and earlier attempts once every file has arrived. gc deletes dead attempts with a record."""
    output = store.directory / attempt
    if output.is_local:
        (output / PARTIAL).remove()
    for other in earlier:
        if not other.directory.exists(RECORD):
            other.directory.remove()


class Copier:
    """Copies the files of one output into one attempt's directory. still_ours: raises if another process took over."""

    def __init__(
        self,
        source: Directory,
        store: Store,
        attempt: str,
        earlier: Iterable[Earlier],
        progress: CopyProgress,
        still_ours: Callable[[], None],
    ) -> None:
        self.source, self.store, self.attempt = source, store, attempt
        self.target = store.directory / attempt
        self.earlier, self.progress, self.still_ours = list(earlier), progress, still_ours
        self._listed: dict[str, dict[str, Stored]] = {}
        self._noted = False
        self._stop = threading.Event()

    def copy(self, entries: list[FileEntry], root: str) -> None:
        """Copy the files.

        Raises CorruptOutput for a file that differs from its manifest; such a file does not appear in the target.
        Raises NotAFile if the source holds anything but files.
        """
        must_hold_files(self.source.url, links={entry.path for entry in entries})
        self._noted = len(entries) >= WORTH_NOTING or sum(entry.size for entry in entries) >= WORTH_NOTING_BYTES
        self.store.objects.write(f"{self.attempt}/{MIRROR}", Marker(root=root).to_json())
        pool = ThreadPoolExecutor(AT_A_TIME)
        try:
            for running in [pool.submit(self._bring, entry) for entry in entries]:
                running.result()
        finally:  # also after Ctrl-C: copies in progress stop at their next chunk and do not appear
            self._stop.set()
            pool.shutdown(cancel_futures=True)
            if sys.exception() is not None:
                self._send_notes()

    def _send_notes(self) -> None:
        with contextlib.suppress(StoreError):
            if self._noted:
                self.store.objects.flush(f"{self.attempt}/{ARRIVED}")

    def _go_on(self) -> None:
        self.still_ours()
        if self._stop.is_set():
            raise CancelledError

    def _bring(self, entry: FileEntry) -> None:
        self._go_on()
        for attempt in self.earlier:
            if self._take(entry, attempt):
                self.progress.add(entry.size, resumed=True)
                self.progress.moved(entry.size)
                break
        else:
            if self._let_the_store_copy(entry):
                self.progress.moved(entry.size)
            else:
                self._stream(entry)
            self.progress.add(entry.size, resumed=False)
        self._note(entry)

    def _take(self, entry: FileEntry, earlier: Earlier) -> bool:
        """Take a file from an earlier attempt that verified it. Return False if the file changed since."""
        noted = earlier.verified.get(entry.path)
        if noted is None or noted.sha256 != entry.sha256:
            return False
        try:
            if earlier.directory.is_local:
                if file_entry(earlier.directory, entry.path).sha256 != entry.sha256:
                    return False
                target = self.target.path / entry.path
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(earlier.directory.path / entry.path, target)
                return True
            from marin.store.files.written import Written

            was = Stored(noted.size, noted.checksum, noted.modified) if noted.checksum else None
            written = Written(size=noted.size, sha256=noted.sha256, md5=noted.md5, stored=was)
            there = self._listing(earlier.directory).get(entry.path)
            return (
                there is not None
                and written.is_what(there)
                and self._copied(earlier.directory, entry, there, noted.md5)
            )
        except (OSError, StoreError):
            return False  # the file is copied again

    def _let_the_store_copy(self, entry: FileEntry) -> bool:
        """Let the store copy between two buckets of one kind, if its checksum shows the file unchanged.

        Returns whether the store made a whole copy.
        """
        from marin.store.objects.clients import REMOTE

        schemes = {where.url.split("://")[0] for where in (self.source, self.target)}
        in_parts = entry.checksum.startswith("etag:") and "-" in entry.checksum
        if len(schemes) > 1 or not schemes <= set(REMOTE) or not entry.checksum or in_parts:
            return False
        there = self._listing(self.source).get(entry.path)
        if there is None or (there.size, there.checksum) != (entry.size, entry.checksum):
            return False
        try:
            return self._copied(self.source, entry, there)
        except StoreError:
            return False  # another account or server: copy through this machine, which names the error

    def _copied(self, origin: Directory, entry: FileEntry, there: Stored, md5: str = "") -> bool:
        """Let the store copy a file. Return False if the checksum does not show that the copy is whole.

        md5: of the bytes, if known. A file that S3 received in parts has another kind of checksum, but its copy has
        the md5.
        """
        from marin.store.files import transfer
        from marin.store.files.written import Written, note

        origin.copy(entry.path, self.target)
        url = f"{self.target.url}/{entry.path}"
        here = transfer.info(url)
        alike = {there.checksum, f"md5:{md5}", f"etag:{md5}"} if md5 else {there.checksum}
        if not here.checksum or here.checksum not in alike or here.size != entry.size:
            return False
        note(url, Written(size=here.size, sha256=entry.sha256, md5=md5, stored=here))
        return True

    def _stream(self, entry: FileEntry) -> None:
        hasher, size = hashlib.sha256(), 0
        with ExitStack() as stack:
            try:
                reading = stack.enter_context(self.source.open(entry.path, "rb"))
            except FileNotFoundError as error:
                raise CorruptOutput(
                    f"{self.source.url}/{entry.path} is missing, but in its manifest; rebuild it with --rebuild"
                ) from error
            writing = stack.enter_context(self._appearing(entry.path))
            while chunk := reading.read(CHUNK):
                self._go_on()
                hasher.update(chunk)
                size += len(chunk)
                writing.write(chunk)
                self.progress.moved(len(chunk))
            if (size, hasher.hexdigest()) != (entry.size, entry.sha256):
                raise CorruptOutput(
                    f"{self.source.url}/{entry.path} differs from its manifest: {size} bytes, sha256 "
                    f"{hasher.hexdigest()[:12]}; wanted {entry.size}, {entry.sha256[:12]}. It was not mirrored; "
                    "rebuild it there with --rebuild"
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

    def _note(self, entry: FileEntry) -> None:
        from marin.store.files import written

        if not self._noted:
            return
        sent = written.written(f"{self.target.url}/{entry.path}")
        stored = sent.stored if sent is not None else None
        line = Verified(
            path=entry.path,
            size=entry.size,
            sha256=entry.sha256,
            md5=sent.md5 if sent is not None else "",
            checksum=stored.checksum if stored is not None else "",
            modified=stored.modified if stored is not None else 0.0,
        )
        self.store.objects.append(f"{self.attempt}/{ARRIVED}", line.to_json() + b"\n")

    def _listing(self, directory: Directory) -> dict[str, Stored]:
        if directory.url not in self._listed:
            self._listed[directory.url] = directory.listing()
        return self._listed[directory.url]
