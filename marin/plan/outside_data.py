"""Outside data: read its entries for a plan, keep them in records, and check that a run reads the planned data.

A step names everything that it reads from outside with a digest: one file of ten thousand, or a whole library.
A record holds a few entries one by one. If there are many, the record holds their digest and the store keeps the list,
so that a drift message can name the entries that were added, removed or changed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from marin.errors import InputChanged, InputError, MarinError
from marin.steps.step import ExecutorStep
from marin.store.documents import BadDocument, parse_json
from marin.store.layout import OUTSIDE
from marin.store.redaction import redacted
from marin.store.store import Store

CHANGED_OUTSIDE = "outside data "  # the beginning of a line about outside data
FEW = 16  # entries; no more are written into a record
LISTING = "in all"
DIGEST = re.compile(r"[0-9,]+ entries, ([0-9a-f]{32})")
LONG = re.compile(r"\b[0-9a-f]{24,}\b")
NAMED = 8  # changes that an error names


def outside_of(step: ExecutorStep[Any]) -> dict[str, str]:
    """Return every entry of ``step.outside()`` as it is now. Raises InputError naming the step."""
    try:
        return _called_without_credentials(step.outside())
    except (MarinError, ImportError):
        raise
    except Exception as error:
        why = str(error).strip() or type(error).__name__
        raise InputError(
            f"{step.name}: marin cannot examine the step's outside data: {why}. Check that the data exists and that "
            "this machine may read it"
        ) from error


def _called_without_credentials(entries: Mapping[str, str]) -> dict[str, str]:
    """Return the entries without credentials in their addresses, because a token is no part of the data.

    Entries that differ only in their credentials get a number.
    """
    found: dict[str, str] = {}
    for name, mark in entries.items():
        clean, number = redacted(name), 1
        while clean in found and clean != name:
            number += 1
            clean = f"{redacted(name)} ({number})"
        found[clean] = redacted(mark)
    return found


def shortened(entries: Mapping[str, str]) -> dict[str, str]:
    """Return the entries in the form that a record holds: each entry, or one digest if there are many."""
    if len(entries) <= FEW:
        return dict(entries)
    return {LISTING: f"{len(entries):,} entries, {hashlib.sha256(_canonical(entries)).hexdigest()[:32]}"}


def listing(short: Mapping[str, str]) -> str:
    """Return the digest of the list that a record refers to; "" if the record holds every entry itself."""
    found = DIGEST.fullmatch(short.get(LISTING, "")) if len(short) == 1 else None
    return found[1] if found else ""


def keep_listing(store: Store, entries: Mapping[str, str]) -> None:
    """Write the list of entries to the store if ``shortened`` leaves them out."""
    if (name := _name(shortened(entries))) and not store.objects.read(name):
        store.objects.write(name, _canonical(entries))


def whole(store: Store, short: Mapping[str, str]) -> Mapping[str, str]:
    """Return all entries that a record stands for; ``short`` itself if the store does not hold their list."""
    if not (name := _name(short)):
        return short
    content = store.objects.read(name)
    try:
        parsed = None if content is None else parse_json(content)
    except BadDocument:
        return short
    pairs = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
    return cast("dict[str, str]", pairs) if pairs and all(isinstance(each, str) for each in pairs.values()) else short


def outside_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return one line for each entry that is new, gone or changed."""
    if LISTING in old:
        new = shortened(new)
    lines: list[str] = []
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, ""), new.get(name, "")
        if name not in old:
            lines.append(f"{CHANGED_OUTSIDE}{name} is new: {_brief(after)}")
        elif name not in new:
            lines.append(f"{CHANGED_OUTSIDE}{name} is gone, it was: {_brief(before)}")
        elif before != after:
            short = _brief(before), _brief(after)
            then, now = short if short[0] != short[1] else (before, after)
            lines.append(f"{CHANGED_OUTSIDE}{name}: {then} → {now}")
    return lines


def _brief(mark: str) -> str:
    """Return the text with only the first digits of each digest."""
    return LONG.sub(lambda found: found[0][:12], mark)


def must_be_planned(step: ExecutorStep[Any], planned: Mapping[str, str]) -> dict[str, str]:
    """Return every entry, just before the step runs. Raises InputChanged if the entries differ from the plan's."""
    entries = outside_of(step)
    if shortened(entries) != planned:
        raise InputChanged(_message(step, "between planning and running", outside_changes(planned, entries)))
    return entries


def must_be_the_same(step: ExecutorStep[Any], entries: Mapping[str, str]) -> None:
    """Raise InputChanged if the step's outside data changed since the step began."""
    now = outside_of(step)
    if now != entries:
        lines = outside_changes(entries, now)
        raise InputChanged(_message(step, "while it ran, so that it may have read some of both", lines))


def _message(step: ExecutorStep[Any], when: str, lines: list[str]) -> str:
    more = [f"and {len(lines) - NAMED} more"] if len(lines) > NAMED else []
    changed = "; ".join([*lines[:NAMED], *more])
    return f"{step.name}: the outside data that it reads changed {when}: {changed}. Nothing was committed; run again"


def _canonical(entries: Mapping[str, str]) -> bytes:
    return json.dumps(dict(entries), sort_keys=True, ensure_ascii=False).encode(errors="surrogateescape")


def _name(short: Mapping[str, str]) -> str:
    """Return the name under which the store keeps the entries; "" if the record holds them."""
    return f"{OUTSIDE}/{digest}.json" if (digest := listing(short)) else ""
