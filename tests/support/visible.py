"""What a fresh process finds committed in a store."""

from __future__ import annotations

from marin.store.files.verify import Check
from marin.store.record import Record
from marin.store.store import Store


def visible(store: Store) -> dict[str, Record]:
    """By identity; asserts that every byte of it is what its record says."""
    store = Store(store.prefix)  # that has seen nothing yet
    found = [store.record(identity) for identity in store.identities() | store.leased()]
    records = {record.identity: record for record in found if record is not None}
    for record in records.values():
        assert store.verify(record, Check.BYTES) == [], record.name
    return records


def visible_by_name(store: Store) -> dict[str, Record]:
    """The same by ``op/label``, where every step has a label of its own."""
    return {record.name: record for record in visible(store).values()}
