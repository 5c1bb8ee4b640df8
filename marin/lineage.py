"""What was made from what: every output that a store knows of, those that rebuilds replaced included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from marin.errors import CorruptRecord
from marin.record import Record, parse_record
from marin.revocation import Revocation
from marin.store import Store


@dataclass(frozen=True)
class Output:
    """One output that exists or existed. An identity has several if it was rebuilt with other bytes."""

    identity: str
    root: str


class Lineage:
    """records: of every output, by (identity, root). current: what is committed now, by identity.

    unreadable: what is wrong with each record that could not be read; lineage is incomplete by those.
    """

    def __init__(self, records: Iterable[Record], current: Mapping[str, Record], unreadable: list[str]) -> None:
        self.current = dict(current)
        self.unreadable = unreadable
        self.records = {Output(record.identity, record.root): record for record in records}
        self.records |= {Output(record.identity, record.root): record for record in current.values()}
        self.readers: dict[Output, list[Output]] = {}
        for output, record in self.records.items():
            for held in record.inputs:
                self.readers.setdefault(Output(held.identity, held.root), []).append(output)

    def inputs(self, output: Output) -> list[Output]:
        """What it was made from, directly."""
        record = self.records.get(output)
        return [] if record is None else [Output(held.identity, held.root) for held in record.inputs]

    def up(self, output: Output) -> list[Output]:
        """Everything it was made from, nearest first."""
        return _reach(output, self.inputs)

    def down(self, output: Output) -> list[Output]:
        """Everything that was made from it, nearest first."""
        return _reach(output, lambda held: self.readers.get(held, []))

    def with_bytes(self, root: str) -> list[Output]:
        """Every output with these bytes, whatever its identity and label."""
        known = {*self.records, *self.readers}
        return [output for output in known if output.root == root]

    def untrusted(self, revoked: Mapping[str, Revocation]) -> dict[Output, list[Output]]:
        """Every output that is revoked or was made from one, with the way to it: itself last, the revoked one first."""
        ways: dict[Output, list[Output]] = {}
        pending = [(output, [output]) for output in {*self.records, *self.readers} if output.root in revoked]
        while pending:
            later: list[tuple[Output, list[Output]]] = []
            for output, way in pending:
                if output not in ways:
                    ways[output] = way
                    later += [(reader, [*way, reader]) for reader in self.readers.get(output, [])]
            pending = later
        return ways


def read_lineage(store: Store) -> Lineage:
    """Every record of the store: two listings, and concurrent reads."""
    unreadable: list[str] = []
    current: dict[str, Record] = {}
    for identity, content in store.record_contents().items():
        try:
            current[identity] = store.parsed(identity, content)
        except CorruptRecord as error:
            unreadable.append(str(error))
    earlier: list[Record] = []
    for name, content in store.objects.read_many(store.superseded()).items():
        try:
            earlier.append(parse_record(content, f"{store.prefix}/{name}"))
        except CorruptRecord as error:
            unreadable.append(str(error))
    return Lineage(earlier, current, unreadable)


def _reach(start: Output, step: Callable[[Output], list[Output]]) -> list[Output]:
    seen: dict[Output, None] = {}
    pending = step(start)
    while pending:
        later: list[Output] = []
        for output in pending:
            if output not in seen:
                seen[output] = None
                later += step(output)
        pending = later
    return list(seen)
