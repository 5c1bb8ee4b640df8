"""Files outside the store: list the files that a URL, glob or folder selects, each with a mark of its content.

A mark changes when the content does. Of an object store or web server, the mark is the checksum or etag, so marin need
not read the file. On this machine it is a digest of the content, which marin remembers until the file is touched (see
marin.store.files.checksums). Neither a copy nor another modification time counts as a change.
"""

# pyright: basic
from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import xxhash

from marin.data.kept_files import KeptFile
from marin.errors import InputError
from marin.store.files.checksums import content_digest, content_digests
from marin.store.files.directory import Directory

CHUNK = 1 << 20
ASIDE = 16  # concurrent requests to a web server
HASHED_WHOLE = 64 << 20  # bytes to read on every plan if there is neither checksum nor etag
# Best first. Copying an object or editing its metadata keeps a checksum, but not every etag.
MARKS = ("md5Hash", "crc32c", "sha256", "Content-MD5", "content_md5", "Digest", "ETag", "etag")
TIMES = ("Last-Modified", "LastModified", "mtime", "created")
WEB = ("http", "https")


@dataclass(frozen=True)
class OutsideFile:
    """A file outside the store. name: its path below the fixed part of the selection.

    written: the fixed part as the user wrote it, then name. size: bytes. mark: changes when the content does.
    """

    url: str
    name: str
    written: str
    size: int
    mark: str


def outside_files(*urls: str) -> dict[str, str]:
    """Return each file with size and mark, for the ``outside()`` of a step that reads these URLs, globs or folders.

    A file that is added, removed or changed is then drift. run() finds the same files with ``list_files``.
    """
    return {file.written: f"{file.size:,} bytes, {file.mark}" for file in list_files(urls)}


def list_files(urls: Sequence[str]) -> list[OutsideFile]:
    """Return every file that the URLs, globs and folders select, by name. A web page ending in ``/`` is a folder.

    Raises InputError, which names the URL, if it selects nothing or cannot be listed, or if two files share a name.
    """
    found: dict[str, OutsideFile] = {}
    for url in urls:
        try:
            files = _select(url)
        except (InputError, ImportError):
            raise
        except Exception as error:  # every file system has its own errors
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(
                f"{url}: cannot be listed ({why}); check the address, the network, and that this machine may read it"
            ) from error
        if not files:
            raise InputError(f"{url} selects no file; check the path, and that this machine may read it")
        for file in files:
            if found.setdefault(file.name, file).url != file.url:
                raise InputError(
                    f"{file.url} and {found[file.name].url} would both become {file.name}; fetch them in two steps"
                )
    return [found[name] for name in sorted(found)]


def copy_file(file: OutsideFile, out: Directory, state: Directory) -> int:
    """Copy one file into ``out``. Returns its size in bytes. See keep_file."""
    return keep_file(file, state).put_into(out)


def keep_file(file: OutsideFile, state: Directory) -> KeptFile:
    """Copy one file into ``state``, unless an earlier attempt completed it there.

    Raises InputError if the file has changed since it was listed.
    """
    import fsspec

    kept = KeptFile(state, file.name, file.url, str(file.size), file.mark)
    if not kept.there():
        filesystem, path = fsspec.core.url_to_fs(file.url)
        xxh3, md5, copied = xxhash.xxh3_128(), hashlib.md5(usedforsecurity=False), 0
        by_md5 = file.mark.startswith("md5 ")
        with kept.arriving() as target, filesystem.open(path, "rb") as source:
            while block := source.read(CHUNK):
                (md5 if by_md5 else xxh3).update(block)
                copied += target.write(block)
            came = f"md5 {md5.hexdigest()}" if by_md5 else f"xxh3 {xxh3.hexdigest()}"
            if copied != file.size:
                came, listed = f"{copied} bytes", f"{file.size}"
            elif file.mark.startswith(("md5 ", "xxh3 ")):
                listed = file.mark
            else:
                listed = came
            if came != listed:
                raise InputError(
                    f"{file.url}: {came} arrived, {listed} was listed; the file changed meanwhile, run again"
                )
    return kept


def _select(url: str) -> list[OutsideFile]:
    import fsspec

    filesystem, path = fsspec.core.url_to_fs(url)
    filesystem.invalidate_cache()  # a cached listing would miss recent changes
    protocols = {filesystem.protocol} if isinstance(filesystem.protocol, str) else set(filesystem.protocol)
    web = not protocols.isdisjoint(WEB)
    infos = _web_infos(filesystem, path) if web else _infos(filesystem, path)
    infos = {
        name: info
        for name, info in infos.items()
        # The hub's cache is a folder of links to files. fsspec lists a link with type "other".
        if info.get("type") == "file" or (info.get("islink") and filesystem.isfile(name))
    }
    if not infos:
        return []
    for name, info in infos.items():
        if info.get("size") is None:
            raise InputError(
                f"{name}: its server does not give the file's size; pin the file by its sha256 (HttpFiles)"
            )
    marks = _local_marks(infos) if "file" in protocols else _marks(filesystem, infos)
    single = path in infos
    globs = r"[*\[]" if web else r"[*?\[]"
    base, written = _fixed_part(path, globs, single), _fixed_part(url, globs, single)
    found: list[OutsideFile] = []
    for held, info in infos.items():
        name = held.removeprefix(base)
        where = filesystem.unstrip_protocol(held)
        found.append(OutsideFile(where, name, f"{written}{name}", info["size"], marks[held]))
    return found


def _infos(filesystem, path: str) -> dict[str, dict]:
    """Return the files of a path or glob with one listing."""
    if any(mark in path for mark in "*?["):
        return filesystem.glob(path, detail=True)
    try:
        info = filesystem.info(path)
    except FileNotFoundError:
        return {}
    return {info["name"]: info} if info["type"] == "file" else filesystem.find(path, detail=True)


def _web_infos(filesystem, path: str) -> dict[str, dict]:
    """Return the files that a page links to, and request each one's size and mark. ``?`` is part of an address."""
    if "*" in path or "[" in path:
        names = [name for name in filesystem.glob(path) if not name.endswith("/")]
    elif path.endswith("/"):
        names = filesystem.find(path)
    else:
        names = [path]
    with ThreadPoolExecutor(ASIDE) as pool:
        infos = dict(zip(names, pool.map(lambda name: _asked(filesystem, name), names), strict=True))
    return {name: info for name, info in infos.items() if info is not None}


def _asked(filesystem, name: str) -> dict | None:
    try:
        return filesystem.info(name)
    except FileNotFoundError:
        return None


def _local_marks(infos: dict[str, dict]) -> dict[str, str]:
    return {name: f"xxh3 {digest}" for name, digest in content_digests(list(infos)).items()}


def _marks(filesystem, infos: dict[str, dict]) -> dict[str, str]:
    marks = {name: _mark(info) for name, info in infos.items()}
    unmarked = [name for name, mark in marks.items() if not mark]
    whole = sum(infos[name]["size"] for name in unmarked) <= HASHED_WHOLE
    for name in unmarked:
        time = next((f"{key} {infos[name][key]}" for key in TIMES if infos[name].get(key)), "")
        if whole:
            with filesystem.open(name, "rb") as handle:
                marks[name] = f"xxh3 {content_digest(handle)}"
        elif time:
            marks[name] = f"modified {time}"
        else:
            raise InputError(
                f"{filesystem.unstrip_protocol(name)}: its server gives no checksum, etag or modification time, so "
                "marin could not see a change. Pin the file by its sha256 (HttpFiles), or copy it to a bucket or disk"
            )
    return marks


def _mark(info: dict[str, Any]) -> str:
    for key in MARKS:
        if held := info.get(key):
            if key == "md5Hash":
                return f"md5 {b64decode(held).hex()}"
            return f"{key.lower()} {str(held).strip('"')}"
    return ""


def _fixed_part(path: str, globs: str, single: bool) -> str:
    """Return the part of a path that all selected files have in front of their names."""
    fixed = re.split(globs, path)[0]
    if single or fixed != path:
        return "".join(fixed.rpartition("/")[:2])
    return fixed.rstrip("/") + "/"
