"""Plan the copy of outputs to another store, or raise the error that forbids it. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter

from msgspec import Struct

from marin.errors import BadField, CorruptOutput, CorruptRecord, IdentityConflict, Revoked
from marin.store.files.verify import Check
from marin.store.inventory import Inventory, must_exist
from marin.store.lineage import Lineage, output_of, read_lineage
from marin.store.lookup import outputs_called, unknown
from marin.store.record import Record
from marin.store.revocation import Revocations, revoked
from marin.store.store import Store
from marin.store.trust import TrustChecker


class Mirroring(Struct):
    """A plan for copying outputs.

    todo: outputs to copy, inputs first. there: outputs that the target already holds. ancestors: records of outputs
    that these were built from. last: the number of the last end in the target, by identity. notes: one line for each
    output that is left out.
    """

    source: Store
    target: Store
    todo: list[Record]
    there: list[Record]
    ancestors: list[Record]
    last: dict[str, int]
    notes: list[str]

    @property
    def bytes(self) -> int:
        """Return the number of bytes to copy. An alias shares the bytes of its original."""
        every = {record.identity for record in (*self.todo, *self.there)}
        return sum(record.bytes for record in self.todo if record.alias_of not in every)


def waves(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield the outputs in groups. A group needs only outputs of the groups before it."""
    every = {record.identity: record for record in records}
    graph = {
        identity: [each for each in (record.alias_of, *(read.identity for read in record.inputs)) if each in every]
        for identity, record in every.items()
    }
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    while ready := sorter.get_ready():
        yield [every[identity] for identity in ready]
        sorter.done(*ready)


def plan_mirroring(source: Store, target: Store, names: Iterable[str], *, with_inputs: bool = False) -> Mirroring:
    """Plan the copy of these outputs to the target. Reads both stores, writes nothing.

    names: as ``outputs_called`` takes them. Raises UnknownStep with near misses, Revoked, CorruptOutput (a file is
    missing or has another size), IdentityConflict, BadPrefix, BadField.
    """
    if source.prefix == target.prefix:
        raise BadField(f"{source.prefix} cannot be mirrored to itself; --to names another store")
    must_exist(source)
    lineage = read_lineage(source)
    current = list(lineage.current.values())
    chosen: dict[str, Record] = {}
    for name in names:
        found = outputs_called(name, current, source.prefix)
        if not found:
            raise unknown(name, current, source.prefix, lineage.unreadable)
        chosen |= {record.identity: record for record in found}
    notes = [f"not looked at: {text}" for text in lineage.unreadable]
    ordered = _inputs_first(lineage, list(chosen.values()), notes, with_inputs=with_inputs)
    _must_be_trusted(source, target, lineage, ordered)
    inventory = Inventory(target, [record.identity for record in ordered])
    for damage in inventory.damage.values():
        raise CorruptRecord(damage)
    held = inventory.records
    there = [must_be_same(target, record, held[record.identity]) for record in ordered if record.identity in held]
    todo = [record for record in ordered if record.identity not in held]
    _must_be_whole(source, todo)
    ends = [output_of(record) for record in ordered]
    ancestors = [lineage.records[output] for output in sorted(lineage.up(ends)) if output in lineage.records]
    return Mirroring(source, target, todo, there, ancestors, inventory.last, notes)


def _inputs_first(lineage: Lineage, ends: list[Record], notes: list[str], *, with_inputs: bool) -> list[Record]:
    """Return the outputs to copy, inputs first. notes: gets a line for each output that is left out.

    An alias adds the output whose bytes it shares, if that output still has the same bytes.
    """
    wanted: dict[str, Record] = {}
    pending = list(ends)
    while pending:
        record = pending.pop()
        if record.identity in wanted:
            continue
        wanted[record.identity] = record
        original = lineage.current.get(record.alias_of)
        if original is not None and original.root == record.root:
            pending.append(original)
        for each in record.inputs if with_inputs else ():
            now = lineage.current.get(each.identity)
            if now is not None and now.root == each.root:
                pending.append(now)
            else:
                why = "its record is gone" if now is None else "it was rebuilt since, with other bytes"
                notes.append(f"{each.name}, an input of {record.name}, is not mirrored: {why}")
    notes[:] = dict.fromkeys(notes)
    return [record for wave in waves(wanted.values()) for record in wave]


def _must_be_trusted(source: Store, target: Store, lineage: Lineage, records: list[Record]) -> None:
    standing = {source.prefix: revoked(source), target.prefix: revoked(target)}
    everything = Revocations(held for store in standing.values() for held in store.all)
    judge = TrustChecker(source, lineage.current, everything)
    lines = [f"  {record.name}: {bad.why}" for record in records if (bad := judge.untrusted(record)) is not None]
    if lines:
        those = "\n".join(lines)
        raise Revoked(
            f"{len(lines)} of {len(records)} outputs are revoked, or built from revoked ones:\n{those}\n"
            "Nothing was copied. Rebuild these outputs, mirror their replacements, or take a revocation back: "
            "`marin revoke STEP --withdraw --because REASON`"
        )


def must_be_same(target: Store, record: Record, there: Record) -> Record:
    """Return the target's record of an identity. Raises IdentityConflict if its bytes differ from this record's."""
    if there.root != record.root:
        made, here = record.provenance, there.provenance
        raise IdentityConflict(
            f"{record.name} {record.identity[:12]} is already in {target.prefix}, with other bytes: {there.root[:12]}, "
            f"built {here.ended} by {here.who}; here {record.root[:12]}, built {made.ended} by {made.who}. Both stay "
            "unchanged; to mirror this one, raise its version or use another store"
        )
    return there


def _must_be_whole(source: Store, records: list[Record]) -> None:
    """Raise CorruptOutput if listings show damage. Copying later verifies every byte."""
    for record in records:
        wrong = source.verify(record, Check.SIZES)
        if wrong:
            raise CorruptOutput(
                f"{record.name} in {source.prefix} is damaged: {'; '.join(wrong[:3])}. Nothing was copied; "
                f"{source.remedy(record)}"
            )
