"""What a store holds that concerns some steps: a few listings, and reads side by side. Writes nothing."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import Any

from marin.errors import CorruptRecord
from marin.judge import Judge
from marin.lease import LeaseDocument, State, lease_name, parse_lease
from marin.pinned_code import PinnedCode
from marin.record import RECORD, Record
from marin.revocation import revoked
from marin.scale import Scale
from marin.step import ExecutorStep
from marin.store import Store


class Snapshot:
    """records, damage: what is committed, or why it cannot be read, by identity. leases: of steps without a record.

    invisible: outputs whose writer died between the commit and the record; a run makes them visible.
    scale: the experiment's, as records have it. last_outputs: as far as somebody has looked (marin.reasons), the latest
    output of each step's operator and label at that scale.
    """

    def __init__(self, store: Store, steps: Iterable[ExecutorStep[Any]], scale: Scale | None = None) -> None:
        self.store = store
        self.scale = scale.value if scale is not None else ""
        self.records: dict[str, Record] = {}
        self.damage: dict[str, str] = {}
        self.leases: dict[str, LeaseDocument] = {}
        self.invisible: list[Record] = []
        self.last_outputs: dict[ExecutorStep[Any], Record | None] = {}
        wanted = {step.identity for step in steps}
        self._read_records(wanted)
        missing = wanted - self.records.keys() - self.damage.keys()
        if missing:
            self._read_leases(missing & store.leased())
        self.in_progress = store.state_identities() if missing else set[str]()

    def attempts(self, op: str) -> list[str]:
        """Every attempt of an operator's steps, committed or not: one listing an operator."""
        if op not in self._attempts:
            self._attempts[op] = self.store.attempts(op)
        return self._attempts[op]

    @functools.cached_property
    def _attempts(self) -> dict[str, list[str]]:
        return {}

    @functools.cached_property
    def actions(self) -> dict[str, list[str]]:
        """Identities that each action has given."""
        return self.store.actions()

    @functools.cached_property
    def judge(self) -> Judge:
        return Judge(self.store, self.records, revoked(self.store))

    @functools.cached_property
    def code_of_pins(self) -> PinnedCode:
        return PinnedCode(self.store, self.judge)

    def untrusted(self, record: Record) -> tuple[str, bool]:
        """(why these bytes are not to be used, or ""; are they revoked themselves rather than made from such)."""
        return self.judge.untrusted(record)

    def _read_records(self, identities: Collection[str]) -> None:
        for identity, content in self.store.record_contents(identities).items():
            try:
                self.records[identity] = self.store.parsed(identity, content)
            except CorruptRecord as error:
                self.damage[identity] = str(error)

    def _read_leases(self, identities: Iterable[str]) -> None:
        names = {lease_name(identity): identity for identity in identities}
        for name, content in self._contents(names):
            try:
                self.leases[names[name]] = parse_lease(content, f"{self.store.prefix}/{name}")
            except CorruptRecord as error:
                self.damage[names[name]] = str(error)
        committed = {
            f"{lease.attempt}/{RECORD}": identity
            for identity, lease in self.leases.items()
            if lease.state is State.COMMITTED
        }
        for name, content in self._contents(committed):
            try:
                record = self.store.parsed_commit(committed[name], self.leases[committed[name]], content)
            except CorruptRecord as error:
                self.damage[committed[name]] = str(error)
                continue
            self.records[record.identity] = record
            self.invisible.append(record)

    def _contents(self, names: Iterable[str]) -> list[tuple[str, bytes]]:
        """Without the empty ones that a power cut leaves."""
        return [(name, content) for name, content in self.store.objects.read_many(list(names)).items() if content]
