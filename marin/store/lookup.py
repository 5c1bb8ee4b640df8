"""Finding an output by the name that a person gives, among all that a store knows of: replaced ones and bytes too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from marin.errors import AmbiguousName, BadField
from marin.store.inventory import CANDIDATES, SHORTEST, outputs_called, unknown
from marin.store.lineage import Lineage, Output
from marin.store.record import Record
from marin.store.store import Store


def outputs_named(lineage: Lineage, store: Store, name: str) -> list[Output]:
    """By op/label, label, operator, identity, path of the directory, or digest of the bytes; at least 6 digits.

    What is committed now comes before what a rebuild replaced. Raises UnknownStep with near misses.
    """
    name = str(Path(name).absolute()) if "/" in name and Path(name).is_dir() else name
    current = sorted(lineage.current.values(), key=lambda record: record.provenance.started, reverse=True)
    found = outputs_called(name, current, store.prefix)
    if not found:
        found = outputs_called(name, lineage.records.values(), store.prefix)
    outputs = [Output(record.identity, record.root) for record in found]
    if not outputs and len(name) >= SHORTEST:
        outputs = [output for output in {**lineage.records, **lineage.readers} if output.root.startswith(name)]
    if not outputs:
        raise unknown(name, {record.name for record in lineage.records.values()}, store.prefix, lineage.unreadable)
    return outputs


def bytes_named(lineage: Lineage, store: Store, name: str) -> Record:
    """The one output, or one of several with the same bytes. Raises UnknownStep, AmbiguousName, BadField."""
    outputs = outputs_named(lineage, store, name)
    records = [lineage.records[output] for output in outputs if output in lineage.records]
    if not records:
        raise BadField(f"the record of {name} is gone, so that nothing is known of it but its bytes; name another")
    if len({record.root for record in records}) > 1:
        lines = [f"  {record.attempt}  bytes {record.root[:12]}  {made(record)}" for record in records[:CANDIDATES]]
        more = [f"  and {len(records) - CANDIDATES} more"] if len(records) > CANDIDATES else []
        listed = "\n".join([*lines, *more])
        raise AmbiguousName(f"{name!r} fits {len(records)} outputs; give the path or the digest of one:\n{listed}")
    return records[0]


def outputs_of(lineage: Lineage, names: Mapping[str, str]) -> list[Output]:
    """What is committed of these steps. names: by identity. Raises BadField if none of them is."""
    found = [lineage.current[identity] for identity in names if identity in lineage.current]
    if not found:
        called = ", ".join(list(names.values())[:3])
        raise BadField(f"{called}: not in the store as this experiment has it; `marin plan` says why")
    return [Output(record.identity, record.root) for record in found]


def made(record: Record) -> str:
    """When, by whom and for which experiment, for people."""
    provenance = record.provenance
    return f"{provenance.started} by {provenance.who}" + (
        f" · {provenance.experiment}" if provenance.experiment else ""
    )
