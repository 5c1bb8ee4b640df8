"""Committed outputs beside their manifests, and what was made from those that turn out to be damaged."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rich.console import Console

from marin.errors import BadPrefix, StoreFull
from marin.report.audit import Audit
from marin.report.claims import Claim, Grade
from marin.report.table import byte_bar, open_console, say
from marin.store.files.verify import Check
from marin.store.lineage import output_of
from marin.store.numbers import counted, listed, write_bytes
from marin.store.record import Record
from marin.store.store import Store
from marin.store.suspects import suspects_of
from marin.store.verifications import last_verified, note_verified


@dataclass
class Damage:
    """differs: how, or why its record cannot be read. right_on: when its bytes were last known to be right.

    made_since: what may have been made from the damage since, nearest first.
    """

    differs: list[str]
    right_on: str = ""
    made_since: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Compared:
    """wrong: by name and identity; where a record cannot be read, by identity."""

    check: Check
    records: Sequence[Record]
    wrong: dict[str, Damage]
    damaged: list[Record]  # whose files differ

    def tell(self, audit: Audit, store: Store) -> None:
        """Claims of what is wrong; and whether it was handed on."""
        verified = last_verified(store) if self.damaged else {}
        known = {output for claim in audit.of(Grade.UNTRUSTED) for output in audit.claims[claim]}
        for record in self.damaged:
            damage, suspects = self.wrong[named(record)], suspects_of(audit.lineage, record, verified)
            damage.right_on, damage.made_since = suspects.right_on, list(map(named, suspects.made_since))
            if output_of(record) not in known:
                audit.add(Claim(Grade.UNTRUSTED, "damaged", listed(damage.differs, 1)), [output_of(record)])


def compare_bytes(store: Store, records: Sequence[Record], unreadable: dict[str, str], check: Check) -> Compared:
    """Notes what is right, so that `marin audit` knows, and a plan need not read again what was only touched.

    unreadable: why records cannot be read, by identity.
    """
    wrong, damaged = {identity: Damage([error]) for identity, error in unreadable.items()}, list[Record]()
    edited = store.disagreements(records)
    with byte_bar(open_console(stderr=True), sum(record.bytes for record in records)) as advance:
        for record in records:
            found = store.verify(record, check)
            if found:
                damaged.append(record)
            if record.identity in edited:
                found.insert(0, edited[record.identity])
            if found:
                wrong[named(record)] = Damage(found)
            advance(record.bytes)
    right = [record for record in records if named(record) not in wrong]
    if check is not Check.SIZES:
        with suppress(BadPrefix, StoreFull):  # who may only read does not note it
            note_verified(store, check, [record.attempt for record in right])
            for record in right:
                if record.stamp and store.output(record).is_local and store.output(record).stamp() != record.stamp:
                    store.note_stamp(record)
    return Compared(check, records, wrong, damaged)


def named(record: Record) -> str:
    return f"{record.name} {record.identity[:12]}"


def print_compared(console: Console, compared: Compared, store: Store) -> None:
    for name, damage in compared.wrong.items():
        say(console, name, "red")
        for line in damage.differs:
            say(console, f"    {line}")
        if damage.right_on:
            since = f"may have been made from the damage since: {', '.join(damage.made_since)}"
            nothing = "nothing was made from it since without a check of every byte"
            say(console, f"    last known to be right on {damage.right_on}; {since if damage.made_since else nothing}")
    size = write_bytes(sum({record.attempt: record.bytes for record in compared.records}.values()))
    how = {
        Check.SIZES: "names and sizes of",
        Check.CHECKSUMS: "checksums of" if store.objects.is_remote else "every byte of",
        Check.BYTES: "every byte of",
    }[compared.check]
    outputs = counted(len(compared.records), "output")
    say(console, f"{how} {outputs} ({size}) compared with the manifests, {len(compared.wrong)} damaged")
    if compared.wrong:
        say(console, "make a damaged output again with --rebuild STEP when running its experiment")
    if any(damage.made_since for damage in compared.wrong.values()):
        say(
            console,
            "what may have been made from the damage is made again by --rebuild too; if other bytes come out, what was "
            "made from it follows. What cannot be made again: `marin revoke STEP --because REASON`",
        )
