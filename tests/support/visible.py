"""Find the committed outputs of a store as a fresh process does."""

from __future__ import annotations

from marin.store.files.verify import Check
from marin.store.inventory import Inventory
from marin.store.record import Record
from marin.store.store import Store


def visible(store: Store) -> dict[str, Record]:
    """Return records by identity; assert that every byte matches its record, and that each step finds its record."""
    store = Store(store.prefix)  # that has seen nothing yet
    records = Inventory(store).records
    for identity, record in records.items():
        found = store.record(identity)
        assert found is not None, record.name
        assert (found.token, found.attempt) == (record.token, record.attempt)
        assert store.verify(record, Check.BYTES) == [], record.name
    return records


def visible_by_name(store: Store) -> dict[str, Record]:
    """The same by ``op/label``, where every step has a label of its own."""
    return {record.name: record for record in visible(store).values()}
