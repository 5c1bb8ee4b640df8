"""Files that lie outside of the store: what a URL, a glob or a folder selects, and by which mark each file is known.

A mark tells whether a file is still the same, without reading it where the place where it lies can tell: the checksum
or etag of an object store or web server; on this machine a digest of the content, remembered as long as nobody
touches the file (see marin.store.files.checksums), so that neither a copy nor another modification time is a change.
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
ASIDE = 16  # questions to a web server at a time
HASHED_WHOLE = 64 << 20  # bytes that are read on every plan where there is neither checksum nor etag
# Whichever a place offers, best first: copying an object or editing its metadata keeps a checksum, but not every etag.
MARKS = ("md5Hash", "crc32c", "sha256", "Content-MD5", "content_md5", "Digest", "ETag", "etag")
TIMES = ("Last-Modified", "LastModified", "mtime", "created")
WEB = ("http", "https")


@dataclass(frozen=True)
class OutsideFile:
    """url: where it is. name: below the fixed part of what selects it; written: with that part as it was written.

    size: bytes. mark: changes when the content does.
    """

    url: str
    name: str
    written: str
    size: int
    mark: str


def outside_files(*urls: str) -> dict[str, str]:
    """What a step returns from ``outside()`` that reads these URLs, globs or folders: each file, size and mark.

    Then a file that is added, removed or changed is drift; run() finds the same files with ``list_files``.
    """
    return {file.written: f"{file.size:,} bytes, {file.mark}" for file in list_files(urls)}


def list_files(urls: Sequence[str]) -> list[OutsideFile]:
    """Every file that the URLs, globs and folders select, by name; ``/`` at its end makes a web page a folder.

    Raises InputError naming a URL that selects nothing or cannot be asked, or two files with one name.
    """
    found: dict[str, OutsideFile] = {}
    for url in urls:
        try:
            files = _select(url)
        except (InputError, ImportError):
            raise
        except Exception as error:  # every file system has errors of its own
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
    """Copy one file into ``out``; returns its bytes. See keep_file."""
    return keep_file(file, state).put_into(out)


def keep_file(file: OutsideFile, state: Directory) -> KeptFile:
    """Copy one file into ``state``, unless an earlier attempt left it there whole.

    Raises InputError if it is no longer the one that was listed.
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
                raise InputError(f"{file.url}: {came} arrived, {listed} was listed; it changed meanwhile, run again")
    return kept


def _select(url: str) -> list[OutsideFile]:
    import fsspec

    filesystem, path = fsspec.core.url_to_fs(url)
    filesystem.invalidate_cache()  # a listing of some minutes ago knows nothing of a change
    protocols = {filesystem.protocol} if isinstance(filesystem.protocol, str) else set(filesystem.protocol)
    web = not protocols.isdisjoint(WEB)
    infos = _web_infos(filesystem, path) if web else _infos(filesystem, path)
    infos = {
        name: info
        for name, info in infos.items()
        # A folder of the hub's cache is links to files. fsspec calls the type of a link that it lists "other".
        if info.get("type") == "file" or (info.get("islink") and filesystem.isfile(name))
    }
    if not infos:
        return []
    for name, info in infos.items():
        if info.get("size") is None:
            raise InputError(f"{name}: its server does not say how long it is; pin it by its sha256 (HttpFiles)")
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
    """One listing."""
    if any(mark in path for mark in "*?["):
        return filesystem.glob(path, detail=True)
    try:
        info = filesystem.info(path)
    except FileNotFoundError:
        return {}
    return {info["name"]: info} if info["type"] == "file" else filesystem.find(path, detail=True)


def _web_infos(filesystem, path: str) -> dict[str, dict]:
    """A page of links tells names; each file is asked for its size and mark. ``?`` belongs to an address."""
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
                f"{filesystem.unstrip_protocol(name)}: the place where it lies tells neither checksum, etag nor time, "
                "so a change could not be seen; pin it by its sha256 (HttpFiles), or copy it to a store that tells"
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
    """What all selected files have in front of their names."""
    fixed = re.split(globs, path)[0]
    if single or fixed != path:
        return "".join(fixed.rpartition("/")[:2])
    return fixed.rstrip("/") + "/"
