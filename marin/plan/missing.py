"""Why a step is not in the store: never built, built with other fields, or failed last time."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from marin.errors import CorruptRecord
from marin.plan.snapshot import Snapshot
from marin.steps.step import ExecutorStep, identity_fields
from marin.store.layout import LOG, RECORD, slug
from marin.store.lease import State
from marin.store.record import Record, parse_record
from marin.store.redaction import redacted


@dataclass(frozen=True)
class Missing:
    """follows: an earlier output differs from it only in what it reads, so equal bytes would spare it."""

    reason: str
    follows: bool = False


def why_missing(steps: Iterable[ExecutorStep[Any]], snapshot: Snapshot) -> dict[ExecutorStep[Any], Missing]:
    """One line for each step that the store does not hold."""
    found: dict[ExecutorStep[Any], Missing] = {}
    unmade: list[ExecutorStep[Any]] = []
    by_op: dict[str, _Attempts] = {}
    for step in steps:
        if step.op not in by_op:
            by_op[step.op] = _Attempts(snapshot.attempts(step.op))
        mine = by_op[step.op].of_identity(step.identity)
        lease = snapshot.leases.get(step.identity)
        if lease is not None and lease.collected:
            found[step] = Missing(lease.collected)
        elif mine:
            found[step] = Missing(_unfinished(step, mine, snapshot))
        else:
            unmade.append(step)
    earlier = _earlier(unmade, by_op, snapshot)
    for step in unmade:
        sibling = _last(earlier[step], snapshot.scale)
        snapshot.last_outputs[step] = sibling
        if sibling is None:
            found[step] = Missing(_new_at_this_scale(earlier[step]))
            continue
        version = [f"version {sibling.version} → {step.version}"] if sibling.version != step.version else []
        changes = [*version, *field_changes(step, sibling)]
        more = [f"{len(changes) - 3} more"] if len(changes) > 3 else []
        found[step] = Missing("; ".join([*changes[:3], *more]) or "what it reads is new", follows=not changes)
    return found


def last_outputs(steps: Iterable[ExecutorStep[Any]], snapshot: Snapshot) -> dict[ExecutorStep[Any], Record]:
    """The latest output at this scale of the same operator and label as each step, where there is one."""
    known = snapshot.last_outputs
    asked = list(steps)
    unknown = [step for step in asked if step not in known]
    by_op = {op: _Attempts(snapshot.attempts(op)) for op in {step.op for step in unknown}}
    known.update({step: _last(held, snapshot.scale) for step, held in _earlier(unknown, by_op, snapshot).items()})
    return {step: record for step in asked if (record := known[step]) is not None}


class _Attempts:
    """The attempts of one operator, by identity and by label."""

    def __init__(self, names: list[str]) -> None:
        self._by_identity: dict[str, list[str]] = {}
        self._by_label: dict[str, list[str]] = {}
        for name in names:
            stem = name.rpartition("/")[2].rpartition(".")[0]
            label, _, short = stem.rpartition("-")
            self._by_identity.setdefault(short, []).append(name)
            if label:
                self._by_label.setdefault(label, []).append(name)

    def of_identity(self, identity: str) -> list[str]:
        return self._by_identity.get(identity[:12], [])

    def of_label(self, label: str) -> list[str]:
        return self._by_label.get(slug(label), []) if label else []


def _unfinished(step: ExecutorStep[Any], mine: list[str], snapshot: Snapshot) -> str:
    lease = snapshot.leases.get(step.identity)
    if lease is not None and lease.state is State.HELD and not lease.holder.is_gone():
        return lease.describe()
    for attempt in reversed(mine):
        failure = snapshot.store.failure(attempt)
        if failure is not None:
            how = "" if failure.stopped else "failed "
            return f"{how}last time: {failure.error} (log: {attempt}/{LOG})"
    return f"an earlier attempt did not finish ({mine[-1]})"


def _last(records: Iterable[Record], scale: str) -> Record | None:
    """The latest of them that was made at that scale: another scale's fields and sizes say nothing about this one."""
    here = [record for record in records if record.provenance.scale == scale]
    return max(here, key=lambda record: (record.provenance.started, record.token), default=None)


def _new_at_this_scale(elsewhere: Sequence[Record]) -> str:
    if any(record.provenance.scale for record in elsewhere):
        return "never built at this scale"
    # Records from before the scale was written down.
    return "never built with these fields" if elsewhere else "never built"


def _earlier(
    steps: Iterable[ExecutorStep[Any]], by_op: Mapping[str, _Attempts], snapshot: Snapshot
) -> dict[ExecutorStep[Any], list[Record]]:
    """Every output of the same operator and label, at any scale: read all at once."""
    attempts = {step: by_op[step.op].of_label(step.label) for step in steps}
    names = {f"{attempt}/{RECORD}" for held in attempts.values() for attempt in held}
    records: dict[str, Record] = {}
    for name, content in snapshot.store.objects.read_many(sorted(names)).items():
        try:
            records[name.removesuffix(f"/{RECORD}")] = parse_record(content, name)
        except CorruptRecord:
            continue  # only a hint for people: verify reports damaged attempts
    return {step: [records[attempt] for attempt in held if attempt in records] for step, held in attempts.items()}


def field_changes(step: ExecutorStep[Any], sibling: Record) -> list[str]:
    """``place: old → new`` for each field that differs by more than the identity of what is read."""
    changes: list[str] = []
    now = json.loads(json.dumps(describe_fields(step)))
    for name in sorted(now.keys() | sibling.config.keys()):
        for place, old, new in leaf_changes(name, sibling.config.get(name), now.get(name)):
            if not _same_step(old, new):
                changes.append(f"{place}: {_short(old)} → {_short(new)}")
    return changes


def leaf_changes(place: str, old: Any, new: Any) -> list[tuple[str, Any, Any]]:
    """(place, old, new) of every difference, as deep as both sides have the same shape."""
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast(dict[str, Any], old), cast(dict[str, Any], new)
        if not any("#" in key for key in before.keys() | after.keys()):
            names = sorted(before.keys() | after.keys())
            return [
                change for key in names for change in leaf_changes(f"{place}.{key}", before.get(key), after.get(key))
            ]
        by_name = {key.partition("#")[0]: (key, held) for key, held in before.items()}
        changes: list[tuple[str, Any, Any]] = []
        for key, held in after.items():
            name = key.partition("#")[0]
            other, was = by_name.pop(name, ("", None))
            changes += [(name, other, key)] if other and other != key else []
            changes += leaf_changes(f"{place}[{name}]", was, held)
        return changes + [(f"{place}[{name}]", was, None) for name, (_, was) in by_name.items()]
    if isinstance(old, list) and isinstance(new, list):
        before_items, after_items = cast(list[Any], old), cast(list[Any], new)
        if len(before_items) == len(after_items):
            pairs = enumerate(zip(before_items, after_items, strict=True))
            return [change for i, (was, held) in pairs for change in leaf_changes(f"{place}[{i}]", was, held)]
        return [(place, f"{len(before_items)} entries", f"{len(after_items)} entries")]
    return [(place, old, new)]


def _same_step(old: Any, new: Any) -> bool:
    """Two identities of the step of one name: it changed, and this step only follows."""
    if not (isinstance(old, str) and isinstance(new, str)) or "#" not in old:
        return False
    return old.partition("#")[0] == new.partition("#")[0]


def _short(held: Any) -> str:
    text = held if isinstance(held, str) else json.dumps(held, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def describe_fields(step: ExecutorStep[Any]) -> dict[str, Any]:
    """The identity-bearing fields as JSON-able data for people; steps as ``op/label#identity``."""
    return {name: describe(held) for name, held in identity_fields(step).items()}


def describe(held: object) -> Any:
    if isinstance(held, ExecutorStep):
        step = cast(ExecutorStep[Any], held)
        return f"{step.name}#{step.identity[:12]}"
    if isinstance(held, Enum):
        return held.name
    if dataclasses.is_dataclass(held) and not isinstance(held, type):
        return {spec.name: describe(getattr(held, spec.name)) for spec in dataclasses.fields(held)}
    if isinstance(held, Mapping):
        mapping = cast(Mapping[object, object], held)
        return {str(describe(key)): describe(item) for key, item in mapping.items()}
    if isinstance(held, (tuple, frozenset, set)):
        items = [describe(item) for item in cast(tuple[object, ...], held)]
        return items if isinstance(held, tuple) else sorted(items, key=str)
    if isinstance(held, bytes):
        return held.hex()
    return redacted(held) if isinstance(held, str) else held
