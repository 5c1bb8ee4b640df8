"""Find an output by the name that a person gives, and write the error if there is none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from marin.errors import AmbiguousName, BadField, CorruptRecord, UnknownStep, did_you_mean
from marin.store.inventory import Inventory
from marin.store.lineage import Lineage, Output, output_of
from marin.store.numbers import write_bytes
from marin.store.record import Record
from marin.store.store import Store

SHORTEST = 6  # digits of an identity that name it
CANDIDATES = 10  # listed when a name fits several


def outputs_called(name: str, records: Iterable[Record], prefix: str) -> list[Record]:
    """Return the outputs with a name: ``op/label``, label, operator, identity (or first digits), or directory.

    The weights of a published model are also found by ``hf:OWNER/NAME@COMMIT``, or by their folder.
    """
    every = list(records)
    folder = str(Path(name).expanduser().absolute()) if "://" not in name and "/" in name else name
    inside = name.removeprefix(f"{prefix}/").strip("/")
    ways: tuple[Callable[[Record], bool], ...] = (
        lambda record: name == record.name,
        lambda record: name == record.label,
        lambda record: name == record.op,
        lambda record: len(name) >= SHORTEST and record.identity.startswith(name),
        lambda record: inside == record.attempt or inside.startswith(f"{record.attempt}/"),
        lambda record: published_as(record) in {name, folder} - {""},
    )
    for fits in ways:
        if found := [record for record in every if fits(record)]:
            return found
    return []


def published_as(record: Record) -> str:
    """Return how a command line names the published model that an output holds; "" for any other output."""
    if record.op == "pretrained-model":
        return f"hf:{record.config.get('repo')}@{record.config.get('revision')}"
    return str(record.config.get("path", "")).rstrip("/") if record.op == "folder-model" else ""


def output_called(inventory: Inventory, name: str, *, latest: bool = False) -> Record:
    """Return the one output that a name means. latest: choose the newest if several fit.

    Raises UnknownStep with near misses, CorruptRecord if the name may belong to an unreadable record, AmbiguousName
    with the candidates.
    """
    records = inventory.newest_first()
    found = outputs_called(name, records, inventory.store.prefix)
    if not found:
        raise unknown(name, records, inventory.store.prefix, inventory.damage.values())
    if len({record.root for record in found}) == 1 or latest:
        return found[0]
    lines = [
        f"{record.name}  {record.identity[:12]}  {record.provenance.ended}  {write_bytes(record.bytes)}"
        for record in found
    ]
    raise ambiguous(name, lines, "newest first; give the identity, or --latest")


def unknown(
    name: str, records: Iterable[Record], prefix: str, unreadable: Collection[str]
) -> UnknownStep | CorruptRecord:
    """Return the error for a name that no readable output has."""
    if unreadable:
        return CorruptRecord(
            f"no readable output in the store {prefix} is called {name!r}. Unreadable:\n{_lines(unreadable)}"
        )
    names = {record.name for record in records}
    if name.startswith("hf:"):
        return UnknownStep(
            f"the store {prefix} does not hold {name}; marin cat {name} --prompt TEXT reads it in, and marin compare "
            "and marin microanneal --checkpoint take it"
        )
    if "/" not in name and (Path(name) / "config.json").is_file():
        return UnknownStep(f"nothing in the store {prefix} is called {name!r}; the folder of a model is ./{name}")
    if not names:
        return UnknownStep(f"nothing is called {name!r}: the store {prefix} holds no output yet")
    return UnknownStep(f"nothing in the store {prefix} is called {name!r}; {did_you_mean(name, names)}")


def ambiguous(name: str, candidates: Sequence[str], advice: str) -> AmbiguousName:
    return AmbiguousName(f"{name!r} fits {len(candidates)} ({advice}):\n{_lines(candidates)}")


def _lines(texts: Collection[str]) -> str:
    """Return the first few texts, indented."""
    more = [f"and {len(texts) - CANDIDATES} more"] if len(texts) > CANDIDATES else []
    return "\n".join(f"  {text}" for text in [*list(texts)[:CANDIDATES], *more])


def field_of(record: Record, field: str) -> str:
    """Return the ``op``, ``label``, ``kind`` or ``experiment`` of a record."""
    return record.provenance.experiment if field == "experiment" else str(getattr(record, field))


def outputs_named(lineage: Lineage, store: Store, name: str) -> list[Output]:
    """Return the outputs that a name means, also ones that a rebuild replaced.

    name: op/label, label, operator, identity, path of the directory, or digest of the bytes; at least 6 digits.
    Committed outputs come before ones that a rebuild replaced. Raises UnknownStep with near misses.
    """
    name = str(Path(name).absolute()) if "/" in name and Path(name).is_dir() else name
    current = sorted(lineage.current.values(), key=lambda record: record.provenance.ended, reverse=True)
    found = outputs_called(name, current, store.prefix) or outputs_called(name, lineage.records.values(), store.prefix)
    outputs = [output_of(record) for record in found]
    if not outputs and len(name) >= SHORTEST:
        outputs = [output for output in {**lineage.records, **lineage.readers} if output.root.startswith(name)]
    if not outputs:
        raise unknown(name, lineage.records.values(), store.prefix, lineage.unreadable)
    return outputs


def bytes_named(lineage: Lineage, store: Store, name: str) -> Record:
    """Return the one output that a name means, or one of several with the same bytes.

    Raises UnknownStep, AmbiguousName, BadField.
    """
    outputs = outputs_named(lineage, store, name)
    records = [lineage.records[output] for output in outputs if output in lineage.records]
    if not records:
        raise BadField(f"the record of {name} is gone, so that only its bytes are known; name another output")
    if len({record.root for record in records}) > 1:
        lines = [f"{record.attempt}  bytes {record.root[:12]}  {origin(record)}" for record in records]
        raise ambiguous(name, lines, "give the path or the digest of one")
    return records[0]


def outputs_of(lineage: Lineage, names: Mapping[str, str]) -> list[Output]:
    """Return the committed outputs of these steps. names: by identity. Raises BadField if none is committed."""
    found = [lineage.current[identity] for identity in names if identity in lineage.current]
    if not found:
        called = ", ".join(list(names.values())[:3])
        raise BadField(f"{called}: not in the store as this experiment defines it; `marin plan` says why")
    return [output_of(record) for record in found]


def origin(record: Record) -> str:
    """Return when, by whom and for which experiment an output was built, for people."""
    provenance = record.provenance
    return f"{provenance.ended} by {provenance.who}" + (f" · {provenance.experiment}" if provenance.experiment else "")
