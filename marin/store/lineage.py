"""What was made from what: every output that a store knows of, those that rebuilds replaced included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from marin.errors import CorruptRecord
from marin.store.collector import paused
from marin.store.committed import Committed
from marin.store.record import Record, parse_record
from marin.store.revocation import Revocations
from marin.store.store import Store

ADOPT = "adopt"  # op of outputs that came in from outside
PINNED = "pinned"  # op of steps that stand for an output by its path
NAMED = 3  # steps on the way from a revoked output that are named, the nearest ones


class Output(NamedTuple):
    """One output that exists or existed. An identity has several if it was rebuilt with other bytes."""

    identity: str
    root: str


class Taint:
    """Outputs that cannot be trusted, and how each was made from what is revoked."""

    def __init__(self) -> None:
        self._before: dict[Output, Output | None] = {}
        self._origin: dict[Output, Output] = {}
        self._length: dict[Output, int] = {}

    def __contains__(self, output: object) -> bool:
        return output in self._before

    def add(self, output: Output, before: Output | None) -> None:
        """before: what makes it untrusted; None if it holds revoked bytes itself."""
        self._before[output] = before
        self._origin[output] = output if before is None else self._origin[before]
        self._length[output] = 0 if before is None else self._length[before] + 1

    def before(self, output: Output) -> Output | None:
        """None where it is revoked itself, and where it can be trusted."""
        return self._before.get(output)

    def origin(self, output: Output) -> Output | None:
        """The revoked output that it was made from, or that it is; None if it can be trusted."""
        return self._origin.get(output)

    def told(self, output: Output, name_of: Callable[[Output], str]) -> str:
        """ "made from tokenize/dolmino 0123456789ab (through train/mantis)", or "" if it is revoked itself."""
        origin, at = self._origin[output], self._before[output]
        if at is None:
            return ""
        names: list[str] = []
        while at != origin and at is not None and len(names) < NAMED:
            names.append(name_of(at))
            at = self._before[at]
        skipped = self._length[output] - 1 - len(names)
        names += [f"{skipped} more"] if skipped else []
        through = f" (through {' → '.join(names[::-1])})" if names else ""
        return f"made from {name_of(origin)} {origin.identity[:12]}{through}"


class Lineage:
    """records: of every output. current: what is committed now, by identity.

    unreadable: what is wrong with each record that could not be read; lineage is incomplete by those.
    """

    def __init__(self, records: Iterable[Record], current: Mapping[str, Record], unreadable: list[str]) -> None:
        self.current = dict(current)
        self.unreadable = unreadable
        self.records = {Output(record.identity, record.root): record for record in records}
        self.records |= {Output(record.identity, record.root): record for record in self.current.values()}
        self.readers: dict[Output, list[Output]] = {}
        self._by_root: dict[str, list[Output]] = {}
        self._by_content: dict[str, list[Output]] = {}
        for output, record in self.records.items():
            for held in record.inputs:
                self.readers.setdefault(Output(held.identity, held.root), []).append(output)
            if record.content:
                self._by_content.setdefault(record.content, []).append(output)
        for output in {**self.records, **self.readers}:
            self._by_root.setdefault(output.root, []).append(output)

    def inputs(self, output: Output) -> list[Output]:
        """What it was made from, directly."""
        record = self.records.get(output)
        return [] if record is None else [Output(held.identity, held.root) for held in record.inputs]

    def used_by(self, output: Output) -> list[Output]:
        """What was made from it, directly. A copy that was brought in from outside counts as made from its bytes."""
        copies = [held for held in self.with_bytes_of(output) if held != output and self._is_adopted(held)]
        return [*self.readers.get(output, ()), *copies]

    def up(self, output: Output) -> dict[Output, int]:
        """Everything it was made from, nearest first, with how far away it is."""
        return _reach([output], self.inputs)

    def up_of(self, outputs: Iterable[Output]) -> dict[Output, int]:
        """Everything that these were made from, nearest first, with how far away it is."""
        return _reach(outputs, self.inputs)

    def down(self, outputs: Iterable[Output]) -> dict[Output, int]:
        """Everything that was made from these, nearest first, with how far away it is."""
        return _reach(outputs, self.used_by)

    def with_bytes_of(self, output: Output) -> list[Output]:
        """Every output with the same bytes, itself included, whatever its identity, label, kind and facts."""
        record = self.records.get(output)
        alike = dict.fromkeys(self._by_root.get(output.root, (output,)))
        if record is not None and record.content:
            alike |= dict.fromkeys(self._by_content[record.content])
        return list(alike)

    def untrusted(self, revoked: Revocations) -> Taint:
        """Every output that is revoked or was made from one."""
        ways = Taint()
        pending: list[Output] = []
        for output in {**self.records, **self.readers} if revoked else ():
            record = self.records.get(output)
            if revoked.of(output.root, record.content if record is not None else "") is not None:
                ways.add(output, None)
                pending.append(output)
        while pending:
            later: list[Output] = []
            for output in pending:
                for reader in self.used_by(output):
                    if reader not in ways:
                        ways.add(reader, output)
                        later.append(reader)
            pending = later
        return ways

    def name_of(self, output: Output) -> str:
        """What people call an output; readers of one whose record is gone still know its name."""
        record = self.records.get(output)
        if record is not None:
            return record.name
        for reader in self.readers.get(output, ()):
            for held in self.records[reader].inputs:
                if Output(held.identity, held.root) == output:
                    return held.name
        return output.identity[:12]

    def is_superseded(self, output: Output) -> bool:
        """Was it replaced by a rebuild, or is its record gone?"""
        record = self.current.get(output.identity)
        return record is None or record.root != output.root

    def _is_adopted(self, output: Output) -> bool:
        record = self.records.get(output)
        return record is not None and record.op == ADOPT


@paused()
def read_lineage(store: Store, *, every_lease: bool = False) -> Lineage:
    """Every record of the store: a few listings, and concurrent reads. every_lease: see Committed."""
    committed = Committed(store, every_lease=every_lease)
    unreadable = list(committed.damage.values())
    replaced = [committed.visible[identity] for identity in committed.invisible if identity in committed.visible]
    for name, content in store.objects.read_many(store.superseded()).items():
        try:
            replaced.append(parse_record(content, f"{store.prefix}/{name}"))
        except CorruptRecord as error:
            unreadable.append(str(error))
    return Lineage(replaced, committed.records, unreadable)


def _reach(starts: Iterable[Output], step: Callable[[Output], list[Output]]) -> dict[Output, int]:
    begun = list(dict.fromkeys(starts))
    found: dict[Output, int] = {}
    pending, distance = begun, 0
    while pending:
        distance += 1
        later = dict.fromkeys(held for output in pending for held in step(output))
        pending = [output for output in later if output not in found and output not in begun]
        found |= dict.fromkeys(pending, distance)
    return found
