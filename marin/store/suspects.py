"""Find the outputs that were built from damaged bytes after those bytes were last known to be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from marin.store.files.verify import Checked
from marin.store.lineage import Lineage, Output
from marin.store.record import Record


@dataclass(frozen=True, kw_only=True)
class Suspects:
    """Outputs that may hold the damage of one output.

    right_on: when the damaged bytes were last known to be right. made_since: the outputs that may hold the damage,
    nearest first.
    """

    right_on: str
    made_since: list[Record]


def suspects_of(lineage: Lineage, damaged: Record, verified: Mapping[str, str]) -> Suspects:
    """Return the outputs that may hold the damage of ``damaged``.

    verified: when each output was last found right, by its directory.
    A reader that compared every byte is no suspect: it shows that the bytes were right when it started.
    """
    by_attempt: dict[str, list[Output]] = {}
    for output, record in lineage.records.items():
        by_attempt.setdefault(record.attempt, []).append(output)

    def read(outputs: list[Output]) -> list[tuple[Output, Checked]]:
        """Return the outputs that read these, and how thoroughly each compared them. An alias read nothing."""
        return [
            (reader, each.checked)
            for output in outputs
            for reader in lineage.readers.get(output, ())
            if not lineage.records[reader].alias_of
            for each in lineage.records[reader].inputs
            if each.identity == output.identity
        ]

    def with_aliases(outputs: list[Output]) -> list[Output]:
        return list(dict.fromkeys(same for output in outputs for same in by_attempt[lineage.records[output].attempt]))

    same_bytes = by_attempt.get(damaged.attempt, [Output(damaged.identity, damaged.root)])
    records = [lineage.records.get(output, damaged) for output in same_bytes]
    readers = read(same_bytes)
    right_on = max(
        min(record.provenance.ended for record in records),
        *(each.when for record in records for each in record.mirrored),
        *(lineage.records[reader].provenance.started for reader, checked in readers if checked is Checked.FULL),
        verified.get(damaged.attempt, ""),
    )
    found: dict[Output, None] = {}
    level = [
        reader
        for reader, checked in readers
        if checked is not Checked.FULL and lineage.records[reader].provenance.ended >= right_on
    ]
    while level:
        level = [output for output in with_aliases(level) if output not in found]
        found |= dict.fromkeys(level)
        level = [reader for reader, _ in read(level)]
    return Suspects(right_on=right_on, made_since=[lineage.records[output] for output in found])
