"""Why a step is not in the store: never built, built with other fields, or failed last time."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, cast

from marin.errors import CorruptRecord
from marin.record import RECORD, Record, parse_record
from marin.step import ExecutorStep, identity_fields
from marin.store import Store, slug


def why_missing(step: ExecutorStep[Any], store: Store, listings: dict[str, list[str]]) -> str:
    """One line. listings caches the attempts of each operator across calls."""
    attempts = listings.setdefault(step.op, store.attempts(step.op))
    short = step.identity[:12]
    mine = [name for name in attempts if f"{short}." in name]
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
    for name in sorted(now.keys() | sibling.config.keys()):
        old, new = sibling.config.get(name), now.get(name)
        if old != new:
            changes.append(f"{name}: {_short(old)} → {_short(new)}")
    return changes


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
