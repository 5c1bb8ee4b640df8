"""Why a step is not in the store: never built, built with other fields, or failed last time."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, cast

from marin.errors import CorruptRecord
from marin.lease import State, read_lease
from marin.record import RECORD, Record, parse_record
from marin.step import ExecutorStep, identity_fields
from marin.store import Store, slug


def why_missing(step: ExecutorStep[Any], store: Store, listings: dict[str, list[str]]) -> str:
    """One line. listings caches the attempts of each operator across calls."""
    attempts = listings.setdefault(step.op, store.attempts(step.op))
    short = step.identity[:12]
    mine = [name for name in attempts if f"{short}." in name]
    lease = read_lease(store.objects, step.identity) if mine else None
    if lease is not None and lease.state is State.HELD and not lease.holder.is_gone():
        return lease.describe()
    for attempt in reversed(mine):
        failure = store.failure(attempt)
        if failure is not None:
            return f"failed last time: {failure.get('error', 'unknown')} (log: {attempt}/.marin/log.txt)"
    if mine:
        return f"an earlier attempt did not finish ({mine[-1]})"
    if step.label:
        sibling = _latest_sibling(step, store, attempts)
        if sibling is not None:
            return "; ".join(_field_changes(step, sibling)) or "its inputs are new"
    return "never built"


def _latest_sibling(step: ExecutorStep[Any], store: Store, attempts: list[str]) -> Record | None:
    prefix = f"{slug(step.op)}/{slug(step.label)}-"
    found: list[Record] = []
    for attempt in attempts:
        if attempt.startswith(prefix) and len(attempt) == len(prefix) + 17:
            content = store.objects.read(f"{attempt}/{RECORD}")
            if content is not None:
                try:
                    found.append(parse_record(content, attempt))
                except CorruptRecord:
                    continue  # only a hint for people: verify reports damaged attempts
    return max(found, key=lambda record: record.provenance.started, default=None)


def _field_changes(step: ExecutorStep[Any], sibling: Record) -> list[str]:
    changes: list[str] = []
    if sibling.version != step.version:
        changes.append(f"version {sibling.version} → {step.version}")
    now = json.loads(json.dumps(describe_fields(step)))
    follows = False
    for name in sorted(now.keys() | sibling.config.keys()):
        for place, old, new in leaf_changes(name, sibling.config.get(name), now.get(name)):
            if _same_step(old, new):
                follows = True
            else:
                changes.append(f"{place}: {_short(old)} → {_short(new)}")
    if not changes and follows:
        return ["what it reads is new"]
    return changes[:3] + ([f"{len(changes) - 3} more"] if len(changes) > 3 else [])


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
    return held
