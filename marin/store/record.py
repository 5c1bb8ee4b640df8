"""Records: what a store says about a committed output, validated when read."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import msgspec
from msgspec.structs import asdict

from marin.errors import CorruptRecord
from marin.store.documents import BadDocument, Document, Versioned, json_bytes
from marin.store.files.manifest import leaves
from marin.store.files.verify import Checked

_IDENTITY = re.compile(r"[0-9a-f]{64}")


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


_NOTHING = Observed()


class BuiltFrom(Versioned, frozen=True, kw_only=True):
    """What something was made by, as today's plan would be compared with it: code, root of each input, outside data,
    and what else was seen to be read."""

    code: str
    inputs: dict[str, str]
    outside: dict[str, str]
    observed: Observed = msgspec.field(default_factory=Observed)


class WorkInProgress(BuiltFrom, frozen=True, kw_only=True):
    """Kept beside work in progress, because going on with it under other code would mix the two.

    replaces: the committed attempt that the work is to replace ("" if none): what a finished attempt left is not
    gone on with.
    """

    replaces: str = ""


class Acceptance(BuiltFrom, frozen=True, kw_only=True):
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
    action: see ``steps.step.action_key``. stamp: names, sizes and times of the files as the commit left them, where
    the store has times; equal stamps mean that nobody touched them. content: digest of the files alone, so that the
    same files are known under another kind or other facts; "" where there are none. lifetime: see steps.lifetime; ""
    for good. state: digest of what the driver's modules held, see fingerprint.live.patched; "" where nobody looked.
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
    def made_by(self) -> BuiltFrom:
        inputs = {value.identity: value.root for value in self.inputs}
        return BuiltFrom(code=self.code, inputs=inputs, outside=self.outside, observed=self.observed)

    def to_bytes(self) -> bytes:
        """One field a line, and below them their digest. Written twice for every commit."""
        lines = _lines({name: value for name, value in asdict(self).items() if value != _NOTHING})
        return b'{\n%s,\n"digest": "%s"\n}' % (lines, _digest(lines))


def _lines(fields: dict[str, Any]) -> bytes:
    return b",\n".join(b"%s: %s" % (json_bytes(name), json_bytes(value)) for name, value in fields.items())


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
