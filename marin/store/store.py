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
    """prefix: an absolute local path, ``gs://…``, ``s3://…`` or ``memory://…``. Opening one touches nothing.

    Raises BadPrefix for an empty, malformed or impossible prefix.
    """

    def __init__(self, prefix: str) -> None:
        if is_address_with_credentials(prefix):
            raise BadPrefix(
                f"{redacted(prefix)} holds a credential, which every record and page would show; leave it out: the "
                "store's client finds it in the environment or its configuration"
            )
        self.prefix = prefix.removeprefix("file://").rstrip("/") or prefix
        self.objects = open_objects(self.prefix)
        self.directory = Directory(self.prefix)
        self.index = RecordIndex(self.objects) if self.objects.is_remote else None

    def identities(self) -> set[str]:
        """What is committed here: one listing."""
        return {name.removesuffix(".json") for name in self.objects.list(RECORDS)}

    def record_contents(self, identities: Collection[str] | None = None) -> dict[str, bytes]:
        """Content of the record objects of these identities, or of all: what is not committed is left out.

        What a power cut left empty is not committed. One listing, and reads side by side; where a read is a round
        trip, most come from a few packs.
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
        """Spare the next plan what this one had to read one by one, and what was made since, where that pays."""
        if self.index is not None:
            if len(made) >= WORTH_PACKING:
                self.index.read({f"{identity}.json" for identity in made})
            self.index.pack()

    def leased(self) -> set[str]:
        """What was ever leased here: one listing."""
        return {name.removesuffix(".json") for name in self.objects.list(LEASES)}

    def record(self, identity: str) -> Record | None:
        """The committed output, also one whose writer died before its record was visible. Writes nothing. Whoever uses
        it calls ``take_up``; who wants to know of many, marin.store.inventory.

        Raises CorruptRecord if there is one that cannot be read or belongs elsewhere.
        """
        record = self.visible(identity)
        if record is not None:
            return record
        lease = read_lease(self.objects, identity)
        return None if lease is None else self.committed_by(identity, lease)

    def visible(self, identity: str) -> Record | None:
        """The committed output, unless its writer died before its record was visible. Raises CorruptRecord."""
        content = self.objects.read(record_name(identity))
        return self.parsed(identity, content) if content else None  # an empty one is what a power cut leaves

    def parsed(self, identity: str, content: bytes) -> Record:
        """A record object's content. Raises CorruptRecord."""
        where = f"{self.prefix}/{record_name(identity)}"
        record = parse_record(content, where)
        if record.identity != identity:
            raise CorruptRecord(f"{where} belongs to {record.identity}; it was copied or edited by hand")
        return record

    def commit(self, record: Record, content: bytes = b"") -> None:
        """Make a record visible, unless a later attempt's is. Only after the lease went held → committed.

        The record that it replaces is kept in ``superseded``, because something may have been made from those bytes.
        content: the record's bytes, if the caller has them.
        """
        name, new = record_name(record.identity), content or record.to_bytes()
        if record.token == 1 and self.objects.compare_and_swap(name, None, new):
            return  # nearly every time
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
        """The record of a committed lease, even if its writer did not come to making it visible; else None."""
        if lease.state is not State.COMMITTED:
            return None
        content = self.objects.read(f"{lease.attempt}/{RECORD}")
        return self.parsed_commit(identity, lease, content) if content else None

    def parsed_commit(self, identity: str, lease: LeaseDocument, content: bytes) -> Record:
        """The record that a committed lease's attempt holds. Raises CorruptRecord, also if it is not the lease's."""
        where = f"{self.prefix}/{lease.attempt}/{RECORD}"
        record = parse_record(content, where)
        if (record.identity, record.token) != (identity, lease.token):
            raise CorruptRecord(
                f"{where} is of {record.identity}, token {record.token}, and the lease that names it of {identity}, "
                f"token {lease.token}: one of them was edited by hand; remove {lease_name(identity)}"
            )
        return record

    def finish(self, identity: str, lease: LeaseDocument) -> Record | None:
        """Like ``committed_by``, and makes the record visible."""
        record = self.committed_by(identity, lease)
        if record is not None:
            self.make_visible(record)
        return record

    def make_visible(self, record: Record) -> None:
        """Do what the writer of a committed output died before doing. Who may only read does without."""
        with suppress(BadPrefix, StoreFull):
            self.commit(record, self.objects.read(own_record(record)) or b"")
            if record.action and not record.alias_of:
                self.note_action(record)
            self.objects.make_durable([lease_name(record.identity), record_name(record.identity)])

    def take_up(self, identity: str) -> Record | None:
        """Like ``record``, for whoever uses the output: if its writer died before making it visible, it is from now."""
        record = self.visible(identity)
        if record is None and (record := self.record(identity)) is not None:
            self.make_visible(record)
        return record

    def superseded(self) -> list[str]:
        """Names of the records that rebuilds replaced or gc took: one listing."""
        return [f"{SUPERSEDED}/{name}" for name in self.objects.list(SUPERSEDED)]

    def actions(self) -> dict[str, list[str]]:
        """Identities that each action has given, by action key: one listing."""
        found: dict[str, list[str]] = {}
        for name in self.objects.list(ACTIONS):
            key, _, identity = name.partition("-")
            found.setdefault(key, []).append(identity)
        return found

    def note_action(self, record: Record) -> None:
        """Lets other identities find this output by what it was made by."""
        self.objects.write(action_name(record.action, record.identity), b"")

    def output(self, record: Record) -> Directory:
        return self.directory / record.attempt

    def manifest(self, record: Record) -> list[FileEntry]:
        """Raises CorruptOutput if it is gone, CorruptRecord if it cannot be read or is another output's."""
        name = f"{record.attempt}/{MANIFEST}"
        return self._manifest(record, self.objects.read(name))

    def bad_manifests(self, records: Iterable[Record]) -> dict[str, str]:
        """What is wrong with manifests, by the output's directory."""
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
                f"one of them was edited; {self.remedy(record)}"
            )
        return entries

    def verify(self, record: Record, check: Check) -> list[str]:
        """What is wrong with the files of a committed output; empty when all is well."""
        return self.examine(record, check).wrong

    def examine(self, record: Record, check: Check, at_most: int = EVERY_BYTE, seed: str = "") -> Examined:
        """What is wrong with a committed output, and how well that is known; see ``marin.store.record.examine``."""
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
        """By identity, where the record that everybody sees is not the one that its attempt wrote."""
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
                    f"edited: {seen} and {where} differ in {', '.join(differing)}; restore the one that is wrong from "
                    "the other"
                )
        return found

    def stamp(self, record: Record) -> str:
        """The stamp of an output's files as the last verification left them; "" if there was none."""
        content = self.objects.read(stamp_name(record.attempt))
        return "" if content is None else content.decode(errors="replace")

    def note_stamp(self, record: Record) -> None:
        """Every byte was just read and is right: the files' times of now mean that nobody touched them since."""
        self.objects.write(stamp_name(record.attempt), self.output(record).stamp().encode())

    @staticmethod
    def remedy(record: Record) -> str:
        return f"make it again with --rebuild {record.name}"

    def attempts(self, op: str) -> list[str]:
        """Directories of every attempt of an operator's steps, committed or not."""
        return [f"{slug(op)}/{name}" for name in self.objects.list(slug(op))]

    def failure(self, attempt: str) -> Failure | None:
        """None if it did not fail."""
        content = self.objects.read(f"{attempt}/{FAILURE}")
        return None if content is None else parse_failure(content, f"{self.prefix}/{attempt}/{FAILURE}")

    def log(self, log: str, text: bytes) -> None:
        """Add to the log of an attempt, without credentials."""
        self.objects.append(log, redacted_bytes(text))

    def accepted_identities(self) -> set[str]:
        """Outputs whose drift somebody accepted: one listing."""
        return {name.removesuffix(".jsonl") for name in self.objects.list(ACCEPTED)}

    def acceptances(self, identity: str) -> list[Acceptance]:
        """Raises CorruptRecord naming the line that cannot be read."""
        name = accepted_name(identity)
        return self._accepted(name, self.objects.read(name))

    def _accepted(self, name: str, content: bytes | None) -> list[Acceptance]:
        remedy = "restore the file, or delete it and accept again"
        return Acceptance.parse_lines(content, f"{self.prefix}/{name}", "acceptance", remedy)

    def accept(self, identity: str, acceptance: Acceptance) -> None:
        """Adds a whole line or, on a full disk, nothing; no power cut takes it. Raises CorruptRecord."""
        name = accepted_name(identity)
        while True:
            old = self.objects.read(name)
            self._accepted(name, old)
            if self.objects.compare_and_swap(name, old, acceptance.added_to(old), lasting=True):
                return

    def state(self, identity: str) -> Directory:
        """Work in progress of a step, across attempts; see WorkInProgress."""
        return self.directory / state_name(identity)

    def state_identities(self) -> set[str]:
        """Steps with work in progress: one listing."""
        return set(self.objects.list(STATE))

    def state_marker(self, identity: str) -> WorkInProgress | None:
        """What made the work in progress; None if there is none. Raises CorruptRecord."""
        name = f"{state_name(identity)}/{MADE_BY}"
        content = self.objects.read(name)
        remedy = "delete that folder and the step starts over"
        # A power cut leaves empty ones.
        return WorkInProgress.parse_file(content, f"{self.prefix}/{name}", "state marker", remedy) if content else None

    def mark_state(self, identity: str, marker: WorkInProgress) -> None:
        self.objects.write(f"{state_name(identity)}/{MADE_BY}", marker.to_json())

    def clear_state(self, identity: str) -> None:
        self.state(identity).remove()


def own_record(record: Record) -> str:
    """The copy of a record that its attempt wrote; of an alias that is not where the bytes are."""
    return f"{attempt_directory(record.op, record.label, record.identity, record.token)}/{RECORD}"


def open_store(prefix: str) -> Store:
    """The store at a path (made absolute) or URL. A relative path counts from the current folder."""
    prefix = prefix.removeprefix("file://")
    if prefix and "://" not in prefix:
        path = Path(prefix).expanduser()
        prefix = str(path.resolve() if ".." in path.parts else path.absolute())
    return Store(prefix)
