"""The committed outputs of a store, read in one sweep.

An output is committed when its lease goes from held to committed. Then its writer makes the record visible. If the
writer died in between, only the lease names the output. Such an output counts as committed, and its first user makes
the record visible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from marin.errors import BadPrefix, CorruptRecord
from marin.store.collector import paused
from marin.store.layout import OWN, RECORD, lease_name
from marin.store.lease import LeaseDocument, State, parse_lease
from marin.store.record import Record
from marin.store.store import Store


class Inventory:
    """The committed outputs, by identity. Takes one or two listings and concurrent reads; writes nothing."""

    records: dict[str, Record]  # every committed output, the latest of each step
    visible: dict[str, Record]  # those with a visible record
    invisible: dict[str, Record]  # those that only a lease names, which may replace a visible one
    damage: dict[str, str]  # why a record, or a lease that may stand for one, cannot be read
    contents: dict[str, bytes]  # the visible record objects
    leased: set[str]  # identities that were ever leased, as far as they were listed
    leases: dict[str, LeaseDocument]  # of steps without a visible record, and other leases that were asked for

    def __init__(self, store: Store, identities: Collection[str] | None = None, *, every_lease: bool = False) -> None:
        """identities: None for all. every_lease: also read leases of steps with a visible record, one read for each."""
        self.store = store
        self.visible, self.invisible, self.damage, self.leases = {}, {}, {}, {}
        self.contents = store.record_contents(identities)
        for identity, content in self.contents.items():
            try:
                self.visible[identity] = store.parsed(identity, content)
            except CorruptRecord as error:
                self.damage[identity] = str(error)
        self.records = dict(self.visible)
        missing = None if identities is None else set(identities) - self.contents.keys()
        self.leased = store.leased() if every_lease or missing is None or missing else set[str]()
        if every_lease:
            missing = None if identities is None else set(identities)
        self.read_leases(self.leased if missing is None else missing, visible=every_lease)

    def newest_first(self) -> list[Record]:
        return sorted(self.records.values(), key=lambda each: (each.provenance.ended, each.name), reverse=True)

    def read_leases(self, identities: Iterable[str], *, visible: bool = True) -> None:
        """Read leases. visible: also of steps with a visible record, because a later attempt may be committed."""
        unread = (set(identities) & self.leased) - self.leases.keys()
        if not visible:
            unread -= self.contents.keys()
        names = {lease_name(identity): identity for identity in unread}
        later: dict[str, str] = {}
        for name, content in self._read(names):
            identity = names[name]
            try:
                lease = parse_lease(content, f"{self.store.prefix}/{name}")
            except CorruptRecord as error:
                self.damage.setdefault(identity, str(error))
                continue
            self.leases[identity] = lease
            if lease.state is State.COMMITTED and self._is_later(identity, lease):
                later[f"{lease.attempt}/{RECORD}"] = identity
        for name, content in self._read(later):
            identity = later[name]
            try:
                record = self.store.parsed_commit(identity, self.leases[identity], content)
            except CorruptRecord as error:
                self.damage[identity] = str(error)
                continue
            self.records[identity] = self.invisible[identity] = record

    def find(self, identity: str) -> Record | None:
        """Return the output of one more step, which need not be in the inventory yet. Raises CorruptRecord."""
        if identity not in self.records and (record := self.store.visible(identity)) is not None:
            self.records[identity] = self.visible[identity] = record
        elif identity not in self.records and (record := self.store.record(identity)) is not None:
            self.records[identity] = self.invisible[identity] = record
        return self.records.get(identity)

    def _is_later(self, identity: str, lease: LeaseDocument) -> bool:
        record = self.records.get(identity)
        return identity not in self.damage and (record is None or record.token < lease.token)

    def _read(self, names: Iterable[str]) -> list[tuple[str, bytes]]:
        """Read objects, without the empty ones that a power cut leaves."""
        found = self.store.objects.read_many(sorted(names))
        return [(name, content) for name, content in found.items() if content]


@paused()
def read_inventory(store: Store) -> Inventory:
    """Return the inventory of a store. Raises BadPrefix if there is no store."""
    must_exist(store)
    return Inventory(store)


def must_exist(store: Store) -> None:
    """Raise BadPrefix if there is no store: a reading command must not take a misspelt prefix for an empty store."""
    if not store.objects.list(OWN):
        raise BadPrefix(f"there is no store at {store.prefix}; --prefix names the one to look at")
