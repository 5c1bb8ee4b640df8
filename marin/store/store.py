"""A store: committed outputs by identity, below one prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import asdict, replace

from marin.errors import BadPrefix, CorruptOutput, CorruptRecord
from marin.store.earlier import earlier_record
from marin.store.ends import How, parse_end, read_ends
from marin.store.files.directory import Directory
from marin.store.files.manifest import FileEntry, parse_manifest, root_digest
from marin.store.files.verify import EVERY_BYTE, Check, Checked, Examined, examine
from marin.store.layout import (
    ACCEPTED,
    ACTIONS,
    FAILURE,
    MADE_BY,
    MANIFEST,
    RECORD,
    RECORDS,
    STATE,
    action_name,
    end_name,
    slug,
    stamp_name,
    state_name,
)
from marin.store.objects.objects import open_objects
from marin.store.objects.stored import Stored
from marin.store.packs import Packs
from marin.store.record import Acceptance, Failure, Record, WorkInProgress, parse_failure, parse_record
from marin.store.redaction import is_address_with_credentials, redacted, redacted_bytes
from marin.store.statements import Statements


class Store:
    """A store of committed outputs. Opening a store reads and writes nothing.

    prefix: an absolute local path, ``gs://…``, ``s3://…`` or ``memory://…``.
    Raises BadPrefix for an empty, malformed or impossible prefix.
    """

    def __init__(self, prefix: str) -> None:
        if is_address_with_credentials(prefix):
            raise BadPrefix(
                f"{redacted(prefix)} holds a credential, which every record and page would show. Leave it out: the "
                "store's client finds it in the environment or its configuration"
            )
        self.prefix = prefix.removeprefix("file://").rstrip("/") or prefix
        self.objects = open_objects(self.prefix)
        self.directory = Directory(self.prefix)
        self.packs = Packs(self.objects)

    def record(self, identity: str, after: int | None = None) -> Record | None:
        """Return the committed output of one step; for many use marin.store.inventory. Raises CorruptRecord.

        after: number of the last end that does not count; None to count all. Ends before the last output do not
        matter: a rebuild goes past an unreadable one.
        """
        ends = read_ends(self.objects, {identity: after or 0})[identity]
        for number in sorted(ends, reverse=True):
            end = parse_end(ends[number], f"{self.prefix}/{end_name(identity, number)}")
            if isinstance(end, Record):
                return end
            if end is not None and end.how is How.COLLECTED:
                return None
        return earlier_record(self.objects, self.prefix, identity) if after is None else None

    def actions(self) -> dict[str, list[str]]:
        """Return the identities of each action's outputs, by action key, with one listing."""
        found: dict[str, list[str]] = {}
        for name in self.objects.list(ACTIONS):
            key, _, identity = name.partition("-")
            found.setdefault(key, []).append(identity)
        return found

    def note_action(self, record: Record) -> None:
        """Let other identities find this output by its action."""
        self.objects.write(action_name(record.action, record.identity), b"")

    def output(self, record: Record) -> Directory:
        return self.directory / record.attempt

    def manifest(self, record: Record) -> list[FileEntry]:
        """Return the manifest of an output.

        Raises CorruptOutput if the manifest is gone, CorruptRecord if it is unreadable or another output's.
        """
        return self._manifest(record, self.objects.read(f"{record.attempt}/{RECORD}"))

    def bad_manifests(self, records: Iterable[Record]) -> dict[str, str]:
        """Return the errors of bad manifests, by the output's directory."""
        wanted = {f"{record.attempt}/{RECORD}": record for record in records}
        contents, found = self.objects.read_many(list(wanted)), dict[str, str]()
        for name, record in wanted.items():
            try:
                self._manifest(record, contents.get(name))
            except (CorruptOutput, CorruptRecord) as error:
                found[record.attempt] = str(error)
        return found

    def _manifest(self, record: Record, content: bytes | None) -> list[FileEntry]:
        """Return the manifest from the content of the record's file in the output's directory."""
        where = f"{self.prefix}/{record.attempt}/{RECORD}"
        entries = parse_manifest(content, where) if content else None
        if entries is None and content and (before := self.objects.read(f"{record.attempt}/{MANIFEST}")):
            where = f"{self.prefix}/{record.attempt}/{MANIFEST}"
            entries = parse_manifest(before, where)
        if entries is None:
            raise CorruptOutput(
                f"{where} is missing or holds no manifest: the output was deleted, moved or torn by a power cut; "
                f"{self.remedy(record)}"
            )
        if len(entries) != record.files or sum(entry.size for entry in entries) != record.bytes:
            size = sum(entry.size for entry in entries)
            raise CorruptRecord(
                f"{where} lists {len(entries)} files of {size:,} bytes, the record {record.files} of {record.bytes:,}: "
                f"one of the two was edited; {self.remedy(record)}"
            )
        return entries

    def verify(self, record: Record, check: Check) -> list[str]:
        """Return the errors in the files of a committed output; empty if there are none."""
        return self.examine(record, check).wrong

    def examine(
        self,
        record: Record,
        check: Check,
        at_most: int = EVERY_BYTE,
        seed: str = "",
        listed: Mapping[str, Stored] | None = None,
    ) -> Examined:
        """Return the errors of a committed output, and how thoroughly it was checked; see files.verify.examine."""
        try:
            entries = self.manifest(record)
        except (CorruptOutput, CorruptRecord) as error:
            return Examined(wrong=[str(error)], checked=Checked.UNKNOWN)
        found = examine(self.output(record), entries, check, at_most, seed, listed)
        root = root_digest(entries, record.kind, record.facts)
        if root != record.root:
            edited = f"edited: manifest and facts have the digest {root[:12]}, the record says {record.root[:12]}"
            found.wrong.append(edited)
        return found

    def disagreements(self, records: Iterable[Record]) -> dict[str, str]:
        """Return the outputs whose record differs from the copy in their own folder, as errors by identity."""
        wanted = {f"{record.attempt}/{RECORD}": record for record in records if not record.alias_of}
        copies, found = self.objects.read_many(list(wanted)), dict[str, str]()
        for name, record in wanted.items():
            where = f"{self.prefix}/{name}"
            seen = end_name(record.identity, record.token) if record.token else f"{RECORDS}/{record.identity}.json"
            try:
                copy = parse_record(copies.get(name, b""), where)
            except CorruptRecord as error:
                said = f"{where} is missing; the record {seen} is its copy" if name not in copies else str(error)
                found[record.identity] = said
                continue
            ours, theirs = asdict(record), asdict(copy if record.token else replace(copy, token=0))
            if differing := [field for field, content in ours.items() if content != theirs[field]]:
                found[record.identity] = (
                    f"edited: {seen} and {where} differ in {', '.join(differing)}; restore the wrong one from the other"
                )
        return found

    def stamp(self, record: Record) -> str:
        """Return the stamp of an output's files at the last verification; "" if there was none."""
        content = self.objects.read(stamp_name(record.attempt))
        return "" if content is None else content.decode(errors="replace")

    def note_stamp(self, record: Record) -> None:
        """Store the stamp of an output's files after every byte was found right. Equal stamps later mean no change."""
        self.objects.write(stamp_name(record.attempt), self.output(record).stamp().encode())

    @staticmethod
    def remedy(record: Record) -> str:
        return f"rebuild it with --rebuild {record.name}"

    def attempts(self, op: str) -> list[str]:
        """Return the directories of all attempts at an operator's steps, committed or not."""
        return [f"{slug(op)}/{name}" for name in self.objects.list(slug(op))]

    def failure(self, attempt: str) -> Failure | None:
        """Return how an attempt failed; None if it did not fail."""
        content = self.objects.read(f"{attempt}/{FAILURE}")
        return None if content is None else parse_failure(content, f"{self.prefix}/{attempt}/{FAILURE}")

    def log(self, log: str, text: bytes) -> None:
        """Add to the log of an attempt, without credentials."""
        self.objects.append(log, redacted_bytes(text))

    @property
    def acceptances(self) -> Statements[Acceptance]:
        """Return drift that people accepted, by identity of the output."""
        remedy = "restore the file, or delete it and accept again"
        return Statements(self.objects, self.prefix, ACCEPTED, Acceptance, "acceptance", remedy)

    def state(self, identity: str) -> Directory:
        """Return the folder of a step's work in progress, which attempts share; see WorkInProgress."""
        return self.directory / state_name(identity)

    def state_identities(self) -> set[str]:
        """Return the identities of steps with work in progress, with one listing."""
        return set(self.objects.list(STATE))

    def state_marker(self, identity: str) -> WorkInProgress | None:
        """Return the code and inputs behind work in progress; None if there is none. Raises CorruptRecord."""
        name = f"{state_name(identity)}/{MADE_BY}"
        content = self.objects.read(name)
        remedy = "delete that folder and the step starts over"
        # A power cut leaves an empty marker.
        return WorkInProgress.parse_file(content, f"{self.prefix}/{name}", "state marker", remedy) if content else None

    def mark_state(self, identity: str, marker: WorkInProgress) -> None:
        self.objects.write(f"{state_name(identity)}/{MADE_BY}", marker.to_json())

    def clear_state(self, identity: str) -> None:
        self.state(identity).remove()


def open_store(prefix: str) -> Store:
    """Open the store at a path or URL. A relative path counts from the current folder."""
    prefix = prefix.removeprefix("file://")
    if prefix and "://" not in prefix:
        path = Path(prefix).expanduser()
        prefix = str(path.resolve() if ".." in path.parts else path.absolute())
    return Store(prefix)
