"""Records: the facts that a store keeps about a committed output, validated when read."""

from __future__ import annotations

import hashlib
import re
import sys
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import asdict, force_setattr

from marin.errors import CorruptRecord
from marin.store.documents import BadDocument, Document, Versioned, json_bytes, parse_json
from marin.store.files.manifest import leaves
from marin.store.files.verify import Checked

_IDENTITY = re.compile(r"[0-9a-f]{64}")


class Input(Document, frozen=True, kw_only=True):
    """One input of a step, as it was when the step read it."""

    name: str
    identity: str
    root: str  # digest of its manifest
    checked: Checked = Checked.UNKNOWN  # how its bytes were compared with the manifest


class Provenance(Document, frozen=True, kw_only=True):
    """The person, machine, time and commit behind an output."""

    who: str
    host: str
    started: str
    seconds: float  # wall time of run() and the commit
    experiment: str = ""
    git: str = ""
    because: str = ""  # why the step was rebuilt ("" for the first build), or why its output was adopted
    scale: str = ""  # of the experiment; "" in older records, and for outputs that no experiment made
    # Fields of the step, or of the steps above it, that --set changed.
    changes: list[str] = msgspec.field(default_factory=list[str])
    notes: list[str] = msgspec.field(default_factory=list[str])  # from run() to people (Context.note)

    @property
    def ended(self) -> str:
        """Return when the output was committed."""
        try:
            ended = datetime.fromisoformat(self.started) + timedelta(seconds=self.seconds)
        except (ValueError, OverflowError):
            return self.started
        return ended.isoformat(" ", "seconds")


class Mirrored(Document, frozen=True, kw_only=True):
    """A copy from another store, verified byte by byte."""

    origin: str  # the output there, prefix included
    who: str
    host: str
    when: str

    def describe(self) -> str:
        return f"mirrored from {self.origin} by {self.who} on {self.when}"


class RanCode(Document, frozen=True, kw_only=True):
    """Source that ran although nothing in the step's code names it."""

    file: str  # that holds the source
    digest: str  # of the source


class Observed(Document, frozen=True, kw_only=True):
    """Reads of run() beyond its fields, its inputs and the code of the fingerprint; see marin.plan.observed.

    Files and folders of the project have relative names, others absolute ones. The digest "" means that the file or
    folder was absent.
    """

    host: str = ""  # of the machine where run() ran
    salt: str = ""  # of the digests of the environment's values
    files: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    trees: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # folders of very many files: all below each
    folders: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # and patterns: how many names, digest
    code: dict[str, RanCode] = msgspec.field(default_factory=dict[str, RanCode])
    environment: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    programs: list[str] = msgspec.field(default_factory=list[str])  # that run() started; their reads were not observed

    @property
    def is_any(self) -> bool:
        """Is there something to compare?"""
        return bool(self.files or self.trees or self.folders or self.code or self.environment)

    def joined(self, later: Observed) -> Observed:
        """Return the reads of two attempts at one step. If both read a thing, the later read counts."""
        if not self.is_any and not self.programs:
            return later
        return Observed(
            host=later.host or self.host,
            salt=later.salt or self.salt,
            files=self.files | later.files,
            trees=self.trees | later.trees,
            folders=self.folders | later.folders,
            code=self.code | later.code,
            environment=self.environment | later.environment,
            programs=sorted({*self.programs, *later.programs}),
        )


_NOTHING = Observed()
_DIGEST = b',\n"digest": '


class BuiltFrom(Versioned, frozen=True, kw_only=True):
    """The code and inputs that built an output. A later plan compares them with today's."""

    code: str  # digest of the code fingerprint
    inputs: dict[str, str]  # root of each, by identity
    outside: dict[str, str]  # outside data
    observed: Observed = msgspec.field(default_factory=Observed)  # other reads


class WorkInProgress(BuiltFrom, frozen=True, kw_only=True):
    """The code and inputs behind work in progress. The store keeps them so that other code does not continue it."""

    replaces: str = ""  # the committed attempt that it will replace, "" if none: finished work is not continued


class Acceptance(BuiltFrom, frozen=True, kw_only=True):
    """A person's statement that an output is still right under changed code or data, which this document names."""

    because: str
    who: str
    when: str
    changes: list[str] = msgspec.field(default_factory=list[str])  # one line each, as shown to the person

    def describe(self) -> str:
        return f"drift accepted by {self.who} on {self.when}: {self.because}"


class Failure(Document, frozen=True, kw_only=True):
    """The error of a failed attempt."""

    error: str  # one line
    when: str = ""
    seconds: float = 0.0
    stopped: bool = False  # its run was stopped; the step itself did not fail

    def describe(self) -> str:
        return f"{self.when} {self.error}".strip()


class Record(Versioned, frozen=True, kw_only=True):
    """An output. It is committed if its record is the end of its attempt."""

    identity: str
    op: str
    version: int  # of the operator
    label: str  # for people
    attempt: str  # the directory of the bytes
    token: int  # number of the attempt that made it; 0 in a store of before
    kind: str  # of the artifact
    facts: dict[str, Any]  # of the artifact
    config: dict[str, Any]  # the step's fields
    inputs: list[Input]
    outside: dict[str, str]  # outside data, as it was
    code: str  # digest of the code fingerprint
    packages: dict[str, str]  # versions
    root: str  # digest of files, kind and facts
    files: int
    bytes: int
    provenance: Provenance
    alias_of: str = ""  # identity of the output that the same action built, if nothing ran for this one
    action: str = ""  # see steps.step.action_key
    stamp: str = ""  # digest of names, sizes and times of the files at the commit; "" where the store has no times
    content: str = ""  # digest of the files alone, without kind and facts; "" if there are no files
    lifetime: str = ""  # see steps.lifetime; "" means that the output is kept
    state: str = ""  # only in old records, of steps that ran in the driver's process; no longer used
    mirrored: list[Mirrored] = msgspec.field(default_factory=list[Mirrored])  # on the way to this store, oldest first
    observed: Observed = msgspec.field(default_factory=Observed)  # reads of run() beyond the fields above

    @property
    def name(self) -> str:
        """Return the step's name for people: ``op/label``, or ``op/`` and the first digits of its identity."""
        return f"{self.op}/{self.label or self.identity[:8]}"

    @property
    def made_by(self) -> BuiltFrom:
        inputs = {value.identity: value.root for value in self.inputs}
        return BuiltFrom(code=self.code, inputs=inputs, outside=self.outside, observed=self.observed)

    def to_bytes(self) -> bytes:
        """Encode the record as JSON in one line, and its digest in a second line."""
        fields = json_bytes({name: value for name, value in asdict(self).items() if value != _NOTHING})
        return fields[:-1] + _DIGEST + f'"{_digest(fields)}"}}'.encode()


def _digest(fields: bytes) -> str:
    return hashlib.sha256(fields).hexdigest()


def _is_edited(content: bytes) -> bool:
    """Do the fields differ from the digest? A record without a digest counts as not edited."""
    fields, _, last = content.rpartition(_DIGEST)
    before = fields[2:]  # until December 2026, a record had one field a line, and a digest of these lines alone
    if last[1:65].decode(errors="replace") in (_digest(fields + b"}"), _digest(before)):
        return False
    told = parse_json(content)  # it may be in another layout
    told.pop("manifest", None)  # has its own digest, the root
    digest = told.pop("digest", None)
    return digest is not None and digest != _digest(json_bytes(told))


def parse_record(content: bytes, where: str) -> Record:
    """Parse a record. Raises CorruptRecord naming the file and the error."""
    remedy = "rebuild the step with --rebuild, or restore the record from its attempt's .marin/record.json"
    record = Record.parse_file(content, where, "record", remedy)
    if not _IDENTITY.fullmatch(record.identity):
        raise CorruptRecord(f"{where} is not a readable record (identity: wanted 64 hex digits); {remedy}")
    if leaves(record.attempt):
        raise CorruptRecord(f"{where} names the output {record.attempt!r}, which is outside the store; {remedy}")
    if _is_edited(content):
        raise CorruptRecord(f"{where} was edited: its fields do not match its digest; {remedy}")
    return record


class SharedParts:
    """Lets many records hold equal parts once. A plan of 100,000 steps then needs half of the memory for them."""

    def __init__(self) -> None:
        self._last: Record | None = None

    def of(self, record: Record) -> Record:
        """Return the record, with parts of those before. It stays equal to what it was."""
        self._intern(record, "identity", "op", "kind", "code", "root")
        self._intern(record.provenance, "who", "host", "experiment", "git", "scale")
        for read in record.inputs:
            self._intern(read, "name", "identity", "root")
        if self._last is not None:
            self._like_last(self._last, record, "facts", "outside", "packages", "mirrored", "observed")
            self._like_last(self._last.provenance, record.provenance, "changes", "notes")
        self._last = record
        return record

    @staticmethod
    def _like_last(last: Document, part: Document, *names: str) -> None:
        for name in names:
            if (known := getattr(last, name)) == getattr(part, name):
                force_setattr(part, name, known)

    @staticmethod
    def _intern(part: Document, *names: str) -> None:
        for name in names:
            force_setattr(part, name, sys.intern(getattr(part, name)))


def parse_failure(content: bytes, where: str) -> Failure:
    """Parse a failure. An unreadable file also gives a failure: the attempt certainly failed."""
    try:
        return Failure.parse(content)
    except BadDocument:
        return Failure(error=f"{where} cannot be read")
