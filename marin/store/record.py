"""Records: what a store says about a committed output, validated when read."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import asdict

from marin.errors import CorruptRecord
from marin.store.documents import BadDocument, Document, Versioned, json_bytes
from marin.store.files.manifest import leaves
from marin.store.files.verify import Checked

_IDENTITY = re.compile(r"[0-9a-f]{64}")


class Input(Document, frozen=True, kw_only=True):
    """One dependency as it was when the step read it."""

    name: str
    identity: str
    root: str  # digest of its manifest
    checked: Checked = Checked.UNKNOWN  # how its bytes were compared with the manifest


class Provenance(Document, frozen=True, kw_only=True):
    """Who, where, when and from which commit."""

    who: str
    host: str
    started: str
    seconds: float  # wall time of run() and the commit
    experiment: str = ""
    git: str = ""
    because: str = ""  # why an earlier output had to be made again ("" for the first), or why it was adopted
    scale: str = ""  # of the experiment; "" in older records, and for what no experiment made
    changes: list[str] = msgspec.field(
        default_factory=list[str]
    )  # what --set changed in it, or in what it is made from
    notes: list[str] = msgspec.field(default_factory=list[str])  # what run() told people (Context.note)

    @property
    def ended(self) -> str:
        """When it was committed."""
        try:
            ended = datetime.fromisoformat(self.started) + timedelta(seconds=self.seconds)
        except (ValueError, OverflowError):
            return self.started
        return ended.isoformat(" ", "seconds")


class Mirrored(Document, frozen=True, kw_only=True):
    """A copy from another store, every byte of it verified."""

    origin: str  # the output there, prefix included
    who: str
    host: str
    when: str

    def describe(self) -> str:
        return f"mirrored from {self.origin} by {self.who} on {self.when}"


class RanCode(Document, frozen=True, kw_only=True):
    """Source that ran although nothing in the step's code names it."""

    file: str  # that it is in
    digest: str  # of the source


class Observed(Document, frozen=True, kw_only=True):
    """What run() was seen to read beyond fields, inputs and the code of the fingerprint; see marin.plan.observed.

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

    def joined(self, later: Observed) -> Observed:
        """What either of two attempts at one step read; of what both did, as the later one saw it."""
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


class BuiltFrom(Versioned, frozen=True, kw_only=True):
    """What something was made by, as a later plan compares it with what would make it then."""

    code: str  # digest of the code fingerprint
    inputs: dict[str, str]  # root of each, by identity
    outside: dict[str, str]  # outside data
    observed: Observed = msgspec.field(default_factory=Observed)  # what else was seen to be read


class WorkInProgress(BuiltFrom, frozen=True, kw_only=True):
    """Kept beside work in progress, because continuing it under other code would mix the two."""

    replaces: str = ""  # the committed attempt that it is to replace, "" if none: finished work is not continued


class Acceptance(BuiltFrom, frozen=True, kw_only=True):
    """Somebody declared that an output is still right, although today's code or data, named here, would make it."""

    because: str
    who: str
    when: str
    changes: list[str] = msgspec.field(default_factory=list[str])  # one line each, as the person saw them

    def describe(self) -> str:
        return f"drift accepted by {self.who} on {self.when}: {self.because}"


class Failure(Document, frozen=True, kw_only=True):
    """What a failed attempt left behind."""

    error: str  # one line
    when: str = ""
    seconds: float = 0.0
    stopped: bool = False  # with its run, which is no failure of its own

    def describe(self) -> str:
        return f"{self.when} {self.error}".strip()


class Record(Versioned, frozen=True, kw_only=True):
    """The one file whose presence means "committed"."""

    identity: str
    op: str
    version: int  # of the operator
    label: str  # for people
    attempt: str  # the directory of the bytes
    token: int  # of the lease under which it was committed
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
    alias_of: str = ""  # identity of the output that was made by the same action, where nothing ran
    action: str = ""  # see steps.step.action_key
    stamp: str = (
        ""  # digest of names, sizes and times of the files as the commit left them; "" where there are no times
    )
    content: str = ""  # digest of the files alone, whatever their kind and facts; "" where there are none
    lifetime: str = ""  # see steps.lifetime; "" for good
    state: str = ""  # of records that steps made in a driver's own process have; it says nothing any more
    mirrored: list[Mirrored] = msgspec.field(
        default_factory=list[Mirrored]
    )  # copies on the way here, the last at the end
    observed: Observed = msgspec.field(default_factory=Observed)  # what run() read that none of these tell

    @property
    def name(self) -> str:
        """What people call the step: ``op/label``, or ``op/`` and the first digits of its identity."""
        return f"{self.op}/{self.label or self.identity[:8]}"

    @property
    def made_by(self) -> BuiltFrom:
        inputs = {value.identity: value.root for value in self.inputs}
        return BuiltFrom(code=self.code, inputs=inputs, outside=self.outside, observed=self.observed)

    def to_bytes(self) -> bytes:
        """One field a line, and below them their digest. Written twice for every commit."""
        lines = _lines({name: value for name, value in asdict(self).items() if value != _NOTHING})
        return b'{\n%s,\n"digest": "%s"\n}' % (lines, _digest(lines))


def _lines(fields: dict[str, Any]) -> bytes:
    return b",\n".join([b'"%s": %s' % (name.encode(), json_bytes(value)) for name, value in fields.items()])


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
    except (RecursionError, UnicodeEncodeError):
        return True


def parse_record(content: bytes, where: str) -> Record:
    """Raises CorruptRecord naming the file and what is wrong with it."""
    remedy = "make the step again with --rebuild, or restore the record from its attempt's .marin/record.json"
    record = Record.parse_file(content, where, "record", remedy)
    if not _IDENTITY.fullmatch(record.identity):
        raise CorruptRecord(f"{where} is not a readable record (identity: wanted 64 hex digits); {remedy}")
    if leaves(record.attempt):
        raise CorruptRecord(f"{where} names the output {record.attempt!r}, which is outside the store; {remedy}")
    if _is_edited(content):
        raise CorruptRecord(f"{where} was edited: its fields do not have the digest that it gives; {remedy}")
    return record


def parse_failure(content: bytes, where: str) -> Failure:
    """Also of what cannot be read: that it failed is certain."""
    try:
        return Failure.parse(content)
    except BadDocument:
        return Failure(error=f"{where} cannot be read")
