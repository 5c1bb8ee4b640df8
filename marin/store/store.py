"""A store: committed outputs by identity, below one prefix."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import asdict

from marin.errors import BadPrefix, CorruptOutput, CorruptRecord, StoreFull
from marin.store.files.directory import Directory
from marin.store.files.manifest import FileEntry, parse_manifest, root_digest
from marin.store.files.verify import EVERY_BYTE, Check, Checked, Examined, examine
from marin.store.layout import (
    ACCEPTED,
    ACTIONS,
    FAILURE,
    LEASES,
    MADE_BY,
    MANIFEST,
    RECORD,
    RECORDS,
    STATE,
    SUPERSEDED,
    accepted_name,
    action_name,
    attempt_directory,
    lease_name,
    record_name,
    slug,
    stamp_name,
    state_name,
    superseded_name,
)
from marin.store.lease import LeaseDocument, State, read_lease
from marin.store.objects.objects import open_objects
from marin.store.record import Acceptance, Failure, Record, WorkInProgress, parse_failure, parse_record
from marin.store.record_packs import WORTH_PACKING, RecordIndex
from marin.store.redaction import is_address_with_credentials, redacted, redacted_bytes


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
        self.index = RecordIndex(self.objects) if self.objects.is_remote else None

    def identities(self) -> set[str]:
        """Return the identities that are committed here, with one listing."""
        return {name.removesuffix(".json") for name in self.objects.list(RECORDS)}

    def record_contents(self, identities: Collection[str] | None = None) -> dict[str, bytes]:
        """Return the content of the records of these identities, or of all, without uncommitted ones.

        A record that a power cut left empty is not committed. Takes one listing and concurrent reads; a remote store
        reads most records from a few packs.
        """
        wanted = None if identities is None else {f"{identity}.json" for identity in identities}
        if self.index is not None:
            found = self.index.read(wanted)
        else:
            present = self.objects.list(RECORDS)
            names = [f"{RECORDS}/{name}" for name in present if wanted is None or name in wanted]
            contents = self.objects.read_many(names)
            found = {name.rpartition("/")[2]: content for name, content in contents.items() if content}
        return {name.removesuffix(".json"): content for name, content in found.items()}

    def pack_records(self, made: Collection[str]) -> None:
        """Pack the records that this plan read one by one, and the records written since, if there are enough."""
        if self.index is not None:
            if len(made) >= WORTH_PACKING:
                self.index.read({f"{identity}.json" for identity in made})
            self.index.pack()

    def leased(self) -> set[str]:
        """Return the identities that were ever leased here, with one listing."""
        return {name.removesuffix(".json") for name in self.objects.list(LEASES)}

    def record(self, identity: str) -> Record | None:
        """Return the committed record, including one whose writer died before publishing it. Writes nothing.

        Call ``take_up`` before using the output; for many outputs use marin.store.inventory.
        Raises CorruptRecord if the record is unreadable or belongs to another identity.
        """
        record = self.visible(identity)
        if record is not None:
            return record
        lease = read_lease(self.objects, identity)
        return None if lease is None else self.committed_by(identity, lease)

    def visible(self, identity: str) -> Record | None:
        """Return the visible record, or None. Raises CorruptRecord.

        An output whose writer died before publishing its record has no visible record.
        """
        content = self.objects.read(record_name(identity))
        return self.parsed(identity, content) if content else None  # a power cut leaves an empty one

    def parsed(self, identity: str, content: bytes) -> Record:
        """Parse a record object's content. Raises CorruptRecord."""
        where = f"{self.prefix}/{record_name(identity)}"
        record = parse_record(content, where)
        if record.identity != identity:
            raise CorruptRecord(f"{where} belongs to {record.identity}; it was copied or edited by hand")
        return record

    def commit(self, record: Record, content: bytes = b"") -> None:
        """Make a record visible, unless a later attempt's record is. Call it only after the lease is committed.

        The replaced record stays in ``superseded``, because other outputs may have been built from its bytes.
        content: the record's bytes, if the caller has them.
        """
        name, new = record_name(record.identity), content or record.to_bytes()
        if record.token == 1 and self.objects.compare_and_swap(name, None, new):
            return  # the common case
        while True:
            old = self.objects.read(name)
            if old:
                replaced = self._replaced(record.identity, old)
                if replaced is not None and replaced.token >= record.token:
                    return
                token = f"{replaced.token:04d}" if replaced is not None else f"garbled-before-{record.token:04d}"
                self.objects.write(superseded_name(record.identity, token), old)
            if self.objects.compare_and_swap(name, old, new):
                return

    def _replaced(self, identity: str, content: bytes) -> Record | None:
        try:
            return self.parsed(identity, content)
        except CorruptRecord:
            return None

    def committed_by(self, identity: str, lease: LeaseDocument) -> Record | None:
        """Return the record of a committed lease, visible or not; None if the lease is not committed."""
        if lease.state is not State.COMMITTED:
            return None
        content = self.objects.read(f"{lease.attempt}/{RECORD}")
        return self.parsed_commit(identity, lease, content) if content else None

    def parsed_commit(self, identity: str, lease: LeaseDocument, content: bytes) -> Record:
        """Parse the record in a committed lease's attempt. Raises CorruptRecord, also if it is another lease's."""
        where = f"{self.prefix}/{lease.attempt}/{RECORD}"
        record = parse_record(content, where)
        if (record.identity, record.token) != (identity, lease.token):
            raise CorruptRecord(
                f"{where} is of {record.identity}, token {record.token}, but its lease is of {identity}, "
                f"token {lease.token}: one of the two was edited by hand; remove {lease_name(identity)}"
            )
        return record

    def finish(self, identity: str, lease: LeaseDocument) -> Record | None:
        """Return the record of a committed lease like ``committed_by``, and make it visible."""
        record = self.committed_by(identity, lease)
        if record is not None:
            self.make_visible(record)
        return record

    def make_visible(self, record: Record) -> None:
        """Finish the commit of an output whose writer died. Does nothing on a store that cannot be written."""
        with suppress(BadPrefix, StoreFull):
            self.commit(record, self.objects.read(own_record(record)) or b"")
            if record.action and not record.alias_of:
                self.note_action(record)
            self.objects.make_durable([lease_name(record.identity), record_name(record.identity)])

    def take_up(self, identity: str) -> Record | None:
        """Return the committed record, and make it visible if its writer died. Call this before using an output."""
        record = self.visible(identity)
        if record is None and (record := self.record(identity)) is not None:
            self.make_visible(record)
        return record

    def superseded(self) -> list[str]:
        """Return the names of records that rebuilds replaced or gc deleted, with one listing."""
        return [f"{SUPERSEDED}/{name}" for name in self.objects.list(SUPERSEDED)]

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
        name = f"{record.attempt}/{MANIFEST}"
        return self._manifest(record, self.objects.read(name))

    def bad_manifests(self, records: Iterable[Record]) -> dict[str, str]:
        """Return the errors of bad manifests, by the output's directory."""
        wanted = {f"{record.attempt}/{MANIFEST}": record for record in records}
        contents, found = self.objects.read_many(list(wanted)), dict[str, str]()
        for name, record in wanted.items():
            try:
                self._manifest(record, contents.get(name))
            except (CorruptOutput, CorruptRecord) as error:
                found[record.attempt] = str(error)
        return found

    def _manifest(self, record: Record, content: bytes | None) -> list[FileEntry]:
        where = f"{self.prefix}/{record.attempt}/{MANIFEST}"
        if not content:
            raise CorruptOutput(
                f"{where} is missing or empty: the output was deleted, moved or torn by a power cut; "
                f"{self.remedy(record)}"
            )
        entries = parse_manifest(content, where)
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

    def examine(self, record: Record, check: Check, at_most: int = EVERY_BYTE, seed: str = "") -> Examined:
        """Return the errors of a committed output, and how thoroughly it was checked; see files.verify.examine."""
        try:
            entries = self.manifest(record)
        except (CorruptOutput, CorruptRecord) as error:
            return Examined(wrong=[str(error)], checked=Checked.UNKNOWN)
        found = examine(self.output(record), entries, check, at_most, seed)
        root = root_digest(entries, record.kind, record.facts)
        if root != record.root:
            edited = f"edited: manifest and facts have the digest {root[:12]}, the record says {record.root[:12]}"
            found.wrong.append(edited)
        return found

    def disagreements(self, records: Iterable[Record]) -> dict[str, str]:
        """Return the outputs whose visible record differs from the attempt's own copy, as errors by identity."""
        wanted = {own_record(record): record for record in records}
        copies, found = self.objects.read_many(list(wanted)), dict[str, str]()
        for name, record in wanted.items():
            where, seen = f"{self.prefix}/{name}", record_name(record.identity)
            try:
                copy = parse_record(copies.get(name, b""), where)
            except CorruptRecord as error:
                said = f"{where} is missing; the record {seen} is its copy" if name not in copies else str(error)
                found[record.identity] = said
                continue
            if differing := [field for field, content in asdict(record).items() if content != asdict(copy)[field]]:
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

    def accepted_identities(self) -> set[str]:
        """Return the identities of outputs whose drift a person accepted, with one listing."""
        return {name.removesuffix(".jsonl") for name in self.objects.list(ACCEPTED)}

    def acceptances(self, identity: str) -> list[Acceptance]:
        """Return the acceptances of an output. Raises CorruptRecord naming the unreadable line."""
        name = accepted_name(identity)
        return self._accepted(name, self.objects.read(name))

    def _accepted(self, name: str, content: bytes | None) -> list[Acceptance]:
        remedy = "restore the file, or delete it and accept again"
        return Acceptance.parse_lines(content, f"{self.prefix}/{name}", "acceptance", remedy)

    def accept(self, identity: str, acceptance: Acceptance) -> None:
        """Add an acceptance durably: a whole line or, on a full disk, nothing. Raises CorruptRecord."""
        name = accepted_name(identity)
        while True:
            old = self.objects.read(name)
            self._accepted(name, old)
            if self.objects.compare_and_swap(name, old, acceptance.added_to(old), lasting=True):
                return

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


def own_record(record: Record) -> str:
    """Return the name of the attempt's own copy of a record. An alias's copy is not where its bytes are."""
    return f"{attempt_directory(record.op, record.label, record.identity, record.token)}/{RECORD}"


def open_store(prefix: str) -> Store:
    """Open the store at a path or URL. A relative path counts from the current folder."""
    prefix = prefix.removeprefix("file://")
    if prefix and "://" not in prefix:
        path = Path(prefix).expanduser()
        prefix = str(path.resolve() if ".." in path.parts else path.absolute())
    return Store(prefix)
