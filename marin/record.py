"""Records and manifests: what a store says about a committed output, validated when read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import asdict

from marin.directory import Directory
from marin.document import BadDocument, Document, Versioned, json_bytes
from marin.errors import CorruptRecord
from marin.output_files import must_hold_files, not_files

MANIFEST = ".marin/manifest.json"
RECORD = ".marin/record.json"
FAILURE = ".marin/failure.json"
LOG = ".marin/log.txt"
CHUNK = 1 << 20
EVERY_BYTE = sys.maxsize  # as a bound on how much is read
WORTH_THREADS = 16 << 20  # bytes; less is read sooner than threads are started
HASH_THREADS = min(8, os.cpu_count() or 1)
_IDENTITY = re.compile(r"[0-9a-f]{64}")


class Checked(StrEnum):
    """How the files of an input were compared with its manifest before a step read them, names and sizes always."""

    UNKNOWN = ""  # nothing was read (an alias), or by a marin that compared names and sizes and did not say so
    SIZES = "sizes"
    SAMPLE = "sample"  # some whole files
    FULL = "full"  # every byte, or the checksum that the store keeps of it


class Input(Document, frozen=True, kw_only=True):
    """One dependency as it was: its identity, the root digest of its manifest, and how its bytes were checked."""

    name: str
    identity: str
    root: str
    checked: Checked = Checked.UNKNOWN


class Provenance(Document, frozen=True, kw_only=True):
    """Who, where, when and from which commit. seconds: wall time of run() and the commit.

    because: why an output that there was had to be made again ("" for the first), or why it was adopted. scale: of the
    experiment that made it; "" in records from before it was written down, and for what no experiment made.
    """

    who: str
    host: str
    started: str
    seconds: float
    experiment: str = ""
    git: str = ""
    because: str = ""
    scale: str = ""


class Mirrored(Document, frozen=True, kw_only=True):
    """A copy from another store, every byte of it verified. origin: the output there, prefix included."""

    origin: str
    who: str
    host: str
    when: str

    def describe(self) -> str:
        return f"mirrored from {self.origin} by {self.who} on {self.when}"


class RanCode(Document, frozen=True, kw_only=True):
    """Source that ran although nothing in the step's code names it. file: where it stands; digest: of the source."""

    file: str
    digest: str


class Observed(Document, frozen=True, kw_only=True):
    """What run() was seen to read beyond fields, inputs and the code of the fingerprint; see marin.observed.

    Files and folders are named within the project, others absolutely; "" is the digest of what was not there.
    """

    host: str = ""  # of the machine where that was seen
    salt: str = ""  # of the digests of the environment's values
    files: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    trees: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # folders of very many files: all below each
    folders: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # and patterns: how many names, digest
    code: dict[str, RanCode] = msgspec.field(default_factory=dict[str, RanCode])
    environment: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    programs: list[str] = msgspec.field(default_factory=list[str])  # that it started, whose reads nobody saw

    @property
    def is_any(self) -> bool:
        """Whether there is something to compare."""
        return bool(self.files or self.trees or self.folders or self.code or self.environment)


_NOTHING = Observed()


class MadeBy(Versioned, frozen=True, kw_only=True):
    """What something was made by, as today's plan would be compared with it: code, root of each input, outside data,
    and what else was seen to be read."""

    code: str
    inputs: dict[str, str]
    outside: dict[str, str]
    observed: Observed = msgspec.field(default_factory=Observed)


class Begun(MadeBy, frozen=True, kw_only=True):
    """Kept beside work in progress, because going on with it under other code would mix the two.

    replaces: the committed attempt that the work is to replace ("" if none): what a finished attempt left is not
    gone on with.
    """

    replaces: str = ""


class Acceptance(MadeBy, frozen=True, kw_only=True):
    """Somebody declared: this output stands, although what would make it now is this.

    changes: what had changed, one line each, as the person who accepted it saw it.
    """

    because: str
    who: str
    when: str
    changes: list[str] = msgspec.field(default_factory=list[str])

    def describe(self) -> str:
        return f"drift accepted by {self.who} on {self.when}: {self.because}"


class Failure(Document, frozen=True, kw_only=True):
    """What a failed attempt left behind. error: one line. stopped: with its run, which is no failure of its own."""

    error: str
    when: str = ""
    seconds: float = 0.0
    stopped: bool = False

    def describe(self) -> str:
        return f"{self.when} {self.error}".strip()


class Record(Versioned, frozen=True, kw_only=True):
    """The one file whose presence means "committed".

    attempt: the directory of the bytes. alias_of: "" or, where nothing ran because another identity's output was made
    by the same action (operator, version, fields and input contents), that identity; attempt is then its directory.
    action: see ``marin.step.action_key``. stamp: names, sizes and times of the files as the commit left them, where
    the store has times; equal stamps mean that nobody touched them. content: digest of the files alone, so that the
    same files are known under another kind or other facts; "" where there are none. lifetime: see marin.lifetime; ""
    for good. state: digest of what the driver's modules held, see marin.fingerprint.patched; "" where nobody looked.
    mirrored: the copies that brought it here from where it was made, the last one at the end. observed: what run() read
    that none of these tell.
    """

    identity: str
    op: str
    version: int
    label: str
    attempt: str
    token: int
    kind: str
    facts: dict[str, Any]
    config: dict[str, Any]
    inputs: list[Input]
    outside: dict[str, str]
    code: str
    packages: dict[str, str]
    root: str
    files: int
    bytes: int
    provenance: Provenance
    alias_of: str = ""
    action: str = ""
    stamp: str = ""
    content: str = ""
    lifetime: str = ""
    state: str = ""
    mirrored: list[Mirrored] = msgspec.field(default_factory=list[Mirrored])
    observed: Observed = msgspec.field(default_factory=Observed)

    @property
    def name(self) -> str:
        """What people call the step: ``op/label``, or ``op/`` and the first digits of its identity."""
        return f"{self.op}/{self.label or self.identity[:8]}"

    @property
    def made_by(self) -> MadeBy:
        inputs = {held.identity: held.root for held in self.inputs}
        return MadeBy(code=self.code, inputs=inputs, outside=self.outside, observed=self.observed)

    def to_bytes(self) -> bytes:
        """One field a line, and below them their digest. Written twice for every commit."""
        lines = _lines({name: held for name, held in asdict(self).items() if held != _NOTHING})
        return b'{\n%s,\n"digest": "%s"\n}' % (lines, _digest(lines))


def _lines(fields: dict[str, Any]) -> bytes:
    return b",\n".join(b"%s: %s" % (json_bytes(name), json_bytes(held)) for name, held in fields.items())


def _digest(lines: bytes) -> bytes:
    return hashlib.sha256(lines).hexdigest().encode()


def _is_edited(content: bytes) -> bool:
    """Are the fields not those that the digest was made of? One that was written without a digest says nothing."""
    lines, _, last = content[2:-2].rpartition(b",\n")
    if last == b'"digest": "%s"' % _digest(lines):
        return False
    try:
        fields = json.loads(content)
        said = fields.pop("digest", None)
        return said is not None and _digest(_lines(fields)) != json_bytes(said).strip(b'"')
    except RecursionError:
        return True


def parse_record(content: bytes, where: str) -> Record:
    """Raises CorruptRecord naming the file and what is wrong with it."""
    remedy = "make the step again with --rebuild, or restore the record from its attempt's .marin/record.json"
    record = Record.parse_file(content, where, "record", remedy)
    if not _IDENTITY.fullmatch(record.identity):
        raise CorruptRecord(f"{where} is not a readable record (identity: wanted 64 hex digits); {remedy}")
    if _leaves(record.attempt):
        raise CorruptRecord(f"{where} names the output {record.attempt!r}, which is outside the store; {remedy}")
    if _is_edited(content):
        raise CorruptRecord(f"{where} was edited: its fields do not have the digest that it gives; {remedy}")
    return record


def _leaves(path: str) -> bool:
    """Would joining this path to a directory leave the directory?"""
    return not path or os.path.isabs(path) or ".." in path.split("/")


class FileEntry(Document, frozen=True, kw_only=True):
    """path relative to the output; size in bytes; sha256 in hex. checksum: as the store that holds it keeps it, by
    which it can be checked without reading it; "" where the store keeps none."""

    path: str
    size: int
    sha256: str
    checksum: str = ""


class Check(StrEnum):
    """How well to look. SIZES: names and sizes. CHECKSUMS: the store's own checksums too, and every byte of a file that
    has none. BYTES: every byte."""

    SIZES = "sizes"
    CHECKSUMS = "checksums"
    BYTES = "bytes"


def file_entry(directory: Directory, path: str) -> FileEntry:
    hasher = hashlib.sha256()
    size = 0
    with directory.open(path, "rb") as handle:
        while chunk := handle.read(CHUNK):
            hasher.update(chunk)
            size += len(chunk)
    return FileEntry(path=path, size=size, sha256=hasher.hexdigest())


def manifest_of(directory: Directory) -> list[FileEntry]:
    """One entry per file of an output, sorted by path. Reads no file that this attempt itself sent to the store.

    Raises NotAFile, before it reads anything.
    """
    must_hold_files(directory)
    if directory.is_local:
        return [file_entry(directory, path) for path in directory.names()]
    from marin.remote.files import side_by_side
    from marin.remote.ledger import hashes

    stored = directory.listing()
    known = hashes(directory.url, stored)
    read = side_by_side(lambda path: file_entry(directory, path), [path for path in stored if path not in known])
    known |= {entry.path: entry.sha256 for entry in read}
    return [
        FileEntry(path=path, size=stored[path].size, sha256=known[path], checksum=stored[path].checksum)
        for path in sorted(stored)
    ]


def root_digest(entries: Iterable[FileEntry], kind: str, facts: dict[str, Any]) -> str:
    """Digest of every path, size and checksum, and of the artifact's facts: equal roots, equal outputs."""
    described = [[entry.path, entry.size, entry.sha256] for entry in entries]
    return hashlib.sha256(json.dumps([kind, facts, described], sort_keys=True).encode()).hexdigest()


def content_digest(entries: Iterable[FileEntry]) -> str:
    """Digest of every path, size and checksum; "" if there is no file."""
    described = [[entry.path, entry.size, entry.sha256] for entry in entries]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest() if described else ""


def parse_failure(content: bytes, where: str) -> Failure:
    """Also of what cannot be read: that it failed is certain."""
    try:
        return Failure.parse(content)
    except BadDocument:
        return Failure(error=f"{where} cannot be read")


def manifest_bytes(entries: Iterable[FileEntry]) -> bytes:
    """One file a line."""
    described = [{name: held for name, held in asdict(entry).items() if held != ""} for entry in entries]
    return ("[\n" + ",\n".join(map(json.dumps, described)) + "\n]").encode()


def parse_manifest(content: bytes, where: str) -> list[FileEntry]:
    """Raises CorruptRecord if it is not a manifest or a path leaves the output's directory."""
    try:
        entries = FileEntry.parse_list(content)
    except BadDocument as error:
        raise CorruptRecord(f"{where} is not a readable manifest; `--rebuild` the step, or restore the file") from error
    for entry in entries:
        if _leaves(entry.path):
            raise CorruptRecord(f"{where} lists {entry.path!r}, which is outside the output's directory")
    return entries


@dataclass(frozen=True, kw_only=True)
class Examined:
    """wrong: how an output differs from its manifest. checked: how well that is known."""

    wrong: list[str]
    checked: Checked


def examine(
    directory: Directory, entries: Sequence[FileEntry], check: Check, at_most: int = EVERY_BYTE, seed: str = ""
) -> Examined:
    """Compare an output with its manifest.

    at_most: bytes to read. Where there are more, whole files that fit in are read, chosen by ``seed``.
    """
    odd = dict(not_files(directory))
    found = [f"no file: {name} is {why}" for name, why in odd.items()]
    unread: list[FileEntry] = []
    present = {name: held for name, held in directory.listing().items() if name not in odd}
    for entry in entries:
        held = present.pop(entry.path, None)
        if entry.path in odd:
            continue
        if held is None:
            found.append(f"missing: {entry.path}")
        elif held.size != entry.size:
            word = "truncated" if held.size < entry.size else "longer"
            found.append(f"{word}: {entry.path} has {held.size} bytes, the manifest says {entry.size}")
        elif check is Check.BYTES or not held.checksum or held.checksum != entry.checksum:
            unread.append(entry)
    chosen = [] if check is Check.SIZES else _sample(unread, at_most, seed)
    sums = _sha256_of(directory, chosen)
    found += [f"changed: {entry.path} (same size, other bytes)" for entry in chosen if sums[entry.path] != entry.sha256]
    found += [f"extra: {path}" for path in sorted(present)]
    if len(chosen) == len(unread):
        return Examined(wrong=found, checked=Checked.FULL)
    return Examined(wrong=found, checked=Checked.SAMPLE if chosen or len(unread) < len(entries) else Checked.SIZES)


def _sample(entries: list[FileEntry], at_most: int, seed: str) -> list[FileEntry]:
    """Whole files of no more than so many bytes together: the same ones for the same seed, others for another."""
    if sum(entry.size for entry in entries) <= at_most:
        return entries
    chosen: list[FileEntry] = []
    for entry in sorted(entries, key=lambda held: hashlib.sha256(f"{seed} {held.path}".encode()).digest()):
        if 0 < entry.size <= at_most:
            chosen.append(entry)
            at_most -= entry.size
    return chosen


def _sha256_of(directory: Directory, entries: list[FileEntry]) -> dict[str, str]:
    """By path. Several files at once where there is much to read: hashing leaves other threads room."""

    def digest(entry: FileEntry) -> str:
        return file_entry(directory, entry.path).sha256

    if len(entries) > 1 and sum(entry.size for entry in entries) >= WORTH_THREADS:
        with ThreadPoolExecutor(HASH_THREADS) as pool:
            return {entry.path: found for entry, found in zip(entries, pool.map(digest, entries), strict=True)}
    return {entry.path: digest(entry) for entry in entries}
