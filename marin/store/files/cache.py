"""Local copies of committed outputs: downloaded once on a machine, checked, shared by processes, bounded in size.

::

    {folder}/<content>/          a complete copy, named by the digest of its paths, sizes and sha256 sums
    {folder}/<content>.using     locked (shared) by every process that uses the copy, so that nobody evicts it
    {folder}/<content>.making    locked by the process that downloads the copy

``folder`` is the cache folder of ``marin.store.files.checksums``. Before a download, the least recently used copies are
evicted until the new one fits into ``$MARIN_CACHE_GIB`` (default: half of the disk). Copies in use stay. The folder is
safe to delete when nothing runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import threading
import uuid
from pathlib import Path

from msgspec.structs import replace

from marin.errors import CorruptOutput, StoreError, StoreFull
from marin.store.files import transfer
from marin.store.files.checksums import SOURCES, cache_folder
from marin.store.files.manifest import FileEntry, content_digest, parse_manifest
from marin.store.files.walk import FileStamp, file_stamps
from marin.store.layout import MANIFEST, RECORD

SHALLOWEST = 3  # slashes of scheme://bucket/folder
_in_use: dict[Path, int] = {}  # descriptors of our shared locks, kept until this process ends
_compared: dict[Path, dict[str, FileStamp]] = {}  # stamps of the copies that this process has compared byte by byte
_lock = threading.Lock()


def cached(url: str) -> Path:
    """Return a local folder with the files of a committed output, or of a folder inside one.

    The copy stays as long as this process lives. Raises StoreError if no committed output holds the directory,
    CorruptOutput if a file differs from its manifest, StoreFull.
    """
    root, wanted = _manifest(url)
    content = content_digest(wanted) or "empty"
    folder = cache_folder() / content
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock:
        if folder not in _in_use:
            _in_use[folder] = _locked(content, "using", fcntl.LOCK_SH)
    making = _locked(content, "making", fcntl.LOCK_EX)
    try:
        if not _complete(folder, wanted):
            _make_room(sum(entry.size for entry in wanted))
            _download(url, root, wanted, folder)
    finally:
        os.close(making)
    os.utime(folder)
    return folder


def _manifest(url: str) -> tuple[str, list[FileEntry]]:
    """Return the output that holds this directory, and the files below the directory."""
    root = url
    while root.count("/") > SHALLOWEST:
        try:
            listed = parse_manifest(transfer.read(f"{root}/{RECORD}"), f"{root}/{RECORD}")
            if listed is None:  # of a store of before
                listed = parse_manifest(transfer.read(f"{root}/{MANIFEST}"), f"{root}/{MANIFEST}")
        except FileNotFoundError:
            root = root.rsplit("/", 1)[0]
            continue
        below = url[len(root) + 1 :] + "/" if url != root else ""
        inside = [entry for entry in listed or () if entry.path.startswith(below)]
        return root, [replace(entry, path=entry.path.removeprefix(below)) for entry in inside]
    raise StoreError(
        f"{url} has no local path: it is neither a committed output nor the output of a running step. "
        "open() its files, or write below ctx.out.path"
    )


def _complete(folder: Path, wanted: list[FileEntry]) -> bool:
    """Is the copy complete and right?

    A process compares every byte once, and again if a file was written to: a disk keeps no checksums.
    """
    if not folder.is_dir():
        return False
    stamps = file_stamps(str(folder))
    if _compared.get(folder) != stamps:
        if {name: stamp.size for name, stamp in stamps.items()} != {entry.path: entry.size for entry in wanted}:
            return False
        if any(_sha256(folder / entry.path) != entry.sha256 for entry in wanted):
            return False
        _compared[folder] = stamps
    return True


def _download(url: str, root: str, wanted: list[FileEntry], folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        transfer.fetch(url, [entry.path for entry in wanted], partial)
        partial.mkdir(parents=True, exist_ok=True)
        for entry in wanted:
            found = _sha256(partial / entry.path)
            if found != entry.sha256:
                raise CorruptOutput(
                    f"{url}/{entry.path} differs from the manifest of {root} (sha256 {found[:12]}, wanted "
                    f"{entry.sha256[:12]}); `marin audit --bytes` finds other damage; rebuild the step with --rebuild"
                )
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
        _compared[folder] = file_stamps(str(folder))
    except FileNotFoundError as error:
        raise CorruptOutput(f"{url}: {error}; the manifest of {root} lists it, so --rebuild the step") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _make_room(wanted: int) -> None:
    folder = cache_folder()
    given = os.environ.get("MARIN_CACHE_GIB")
    bound = int(float(given) * 2**30) if given else shutil.disk_usage(folder).total // 2
    copies = [path for path in folder.iterdir() if path.is_dir() and path.name != SOURCES]
    copies.sort(key=lambda path: path.stat().st_mtime)
    sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in copies}
    for path in copies:
        if sum(sizes.values()) + wanted <= bound:
            return
        if _evict(path):
            del sizes[path]
    if sum(sizes.values()) + wanted > bound:
        raise StoreFull(
            f"{folder}: {wanted / 2**30:,.1f} GiB of inputs do not fit beside {sum(sizes.values()) / 2**30:,.1f} GiB "
            f"in use; the bound is {bound / 2**30:,.1f} GiB. Raise it (MARIN_CACHE_GIB) or name a larger disk "
            "(MARIN_CACHE)"
        )


def _evict(path: Path) -> bool:
    """Delete a copy, unless a process uses it. Return whether it was deleted."""
    try:
        using = _locked(path.name.split(".")[0], "using", fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(using)
    return True


def _locked(content: str, name: str, how: int) -> int:
    handle = os.open(cache_folder() / f"{content}.{name}", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, how)
    except BaseException:
        os.close(handle)
        raise
    return handle
