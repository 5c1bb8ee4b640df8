"""Explain why a step is not in the store: never built, built with other fields, or failed last time."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, cast

from marin.errors import CorruptRecord
from marin.plan.condition import Missing
from marin.plan.snapshot import Snapshot
from marin.steps.step import ExecutorStep, identity_fields
from marin.store.ends import Claim, How
from marin.store.layout import LOG, RECORD
from marin.store.record import Record, parse_record
from marin.store.redaction import redacted


def why_missing(steps: Iterable[ExecutorStep[Any]], snapshot: Snapshot) -> dict[ExecutorStep[Any], Missing]:
    """Return the reason for each of these steps, which the store does not hold."""
    found: dict[ExecutorStep[Any], Missing] = {}
    never_tried: list[ExecutorStep[Any]] = []
    for step in steps:
        end, attempts = snapshot.ends.get(step.identity), snapshot.attempts(step.op).of_identity(step.identity)
        if end is not None and end.how is How.COLLECTED:
            found[step] = Missing(reason=end.why)
        elif attempts:
            found[step] = Missing(reason=_about_attempts(snapshot.claims.get(step.identity), attempts, snapshot))
        else:
            never_tried.append(step)
    earlier = _earlier(never_tried, snapshot)
    for step in never_tried:
        last = snapshot.last_outputs[step] = _last(earlier[step], snapshot.scale)
        if last is None:
            found[step] = Missing(reason=_new_at_this_scale(earlier[step]))
            continue
        version = [f"version {last.version} → {step.version}"] if last.version != step.version else []
        changes = [*version, *field_changes(step, last)]
        more = [f"{len(changes) - 3} more"] if len(changes) > 3 else []
        reason = "; ".join([*changes[:3], *more]) or "its inputs are new"
        found[step] = Missing(reason=reason, only_inputs_changed=not changes)
    return found


def last_outputs(steps: Iterable[ExecutorStep[Any]], snapshot: Snapshot) -> dict[ExecutorStep[Any], Record]:
    """Return the latest output at this scale with each step's operator and label, if there is one."""
    known, wanted = snapshot.last_outputs, list(steps)
    earlier = _earlier([step for step in wanted if step not in known], snapshot)
    known.update({step: _last(records, snapshot.scale) for step, records in earlier.items()})
    return {step: record for step in wanted if (record := known[step]) is not None}


def _about_attempts(claim: Claim | None, attempts: list[str], snapshot: Snapshot) -> str:
    if claim is not None and not claim.holder.is_gone():
        return claim.describe()
    for attempt in reversed(attempts):
        failure = snapshot.store.failure(attempt)
        if failure is not None:
            how = "" if failure.stopped else "failed "
            return f"{how}last time: {failure.error} (log: {attempt}/{LOG})"
    return f"an earlier attempt did not finish ({attempts[-1]})"


def _last(records: Iterable[Record], scale: str) -> Record | None:
    """Return the latest record of this scale: the fields and sizes of another scale say nothing about this one."""
    here = [record for record in records if record.provenance.scale == scale]
    return max(here, key=lambda record: (record.provenance.started, record.token), default=None)


def _new_at_this_scale(elsewhere: Sequence[Record]) -> str:
    if any(record.provenance.scale for record in elsewhere):
        return "never built at this scale"
    # Records from before the scale was written down.
    return "never built with these fields" if elsewhere else "never built"


def _earlier(steps: Iterable[ExecutorStep[Any]], snapshot: Snapshot) -> dict[ExecutorStep[Any], list[Record]]:
    """Return every output with each step's operator and label, at any scale. All records are read at once."""
    attempts = {step: snapshot.attempts(step.op).of_label(step.label) for step in steps}
    names = {f"{attempt}/{RECORD}" for alike in attempts.values() for attempt in alike}
    records: dict[str, Record] = {}
    for name, content in snapshot.store.objects.read_many(sorted(names)).items():
        with suppress(CorruptRecord):  # only a hint for people: verify reports damaged attempts
            records[name.removesuffix(f"/{RECORD}")] = parse_record(content, name)
    return {step: [records[attempt] for attempt in alike if attempt in records] for step, alike in attempts.items()}


def field_changes(step: ExecutorStep[Any], sibling: Record) -> list[str]:
    """Return ``place: old → new`` for each field that differs by more than the identity of an input."""
    now = describe_fields(step)
    return [
        f"{place}: {_short(old)} → {_short(new)}"
        for place, old, new in leaf_changes("", sibling.config, now)
        if not _same_step(old, new)
    ]


def leaf_changes(place: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (place, old, new) for every difference, down to where the two shapes differ. place: "" for all fields."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast(dict[str, Any], old), cast(dict[str, Any], new)
        if not any("#" in key for key in before.keys() | after.keys()):
            for key in sorted(before.keys() | after.keys()):
                yield from leaf_changes(f"{place}.{key}" if place else key, before.get(key), after.get(key))
            return
        by_name = {key.partition("#")[0]: (key, value) for key, value in before.items()}
        for key, now in after.items():
            name = key.partition("#")[0]
            other, was = by_name.pop(name, ("", None))
            if other and other != key:
                yield name, other, key
            yield from leaf_changes(f"{place}[{name}]", was, now)
        yield from ((f"{place}[{name}]", was, None) for name, (_, was) in by_name.items())
    elif isinstance(old, list) and isinstance(new, list):
        then, today = cast(list[Any], old), cast(list[Any], new)
        if len(then) != len(today):
            yield place, f"{len(then)} entries", f"{len(today)} entries"
            return
        for number, (was, now) in enumerate(zip(then, today, strict=True)):
            yield from leaf_changes(f"{place}[{number}]", was, now)
    else:
        yield place, old, new


def _same_step(old: Any, new: Any) -> bool:
    """Return whether two texts are identities of one step: then that step changed, and this step only follows."""
    if not (isinstance(old, str) and isinstance(new, str)) or "#" not in old:
        return False
    return old.partition("#")[0] == new.partition("#")[0]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def describe_fields(step: ExecutorStep[Any]) -> dict[str, Any]:
    """Return the fields that enter the identity as JSON data for people; steps as ``op/label#identity``."""
    return {name: describe(value) for name, value in identity_fields(step).items()}


def describe(value: object) -> Any:
    if isinstance(value, ExecutorStep):
        step = cast(ExecutorStep[Any], value)
        return f"{step.name}#{step.identity[:12]}"
    if isinstance(value, Enum):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {spec.name: describe(getattr(value, spec.name)) for spec in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        mapping = cast(Mapping[object, object], value)
        return {str(describe(key)): describe(item) for key, item in mapping.items()}
    if isinstance(value, (tuple, frozenset, set)):
        items = [describe(item) for item in cast(tuple[object, ...], value)]
        return items if isinstance(value, tuple) else sorted(items, key=str)
    if isinstance(value, bytes):
        return value.hex()
    return redacted(value) if isinstance(value, str) else value
